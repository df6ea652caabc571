"""Talks to a server with the protocol of OpenAI, and says in one line whatever goes wrong.

The key comes from the environment variable OPENAI_API_KEY. It is sent to the server and stands
nowhere else: not in an error, not in a note, not in what is kept of a load.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin

from gptrepl.api import GptreplError

if TYPE_CHECKING:
    import httpx2

KEY = "OPENAI_API_KEY"
CONNECT = 5.0
"""Seconds that a connection may take."""
PATIENCE = 120.0
"""Seconds of silence after which a server counts as lost; Ctrl-C is there before."""
_LONGEST = 200  # characters of what a server says of an error


class BrokenStreamError(GptreplError):
    """A stream ended before the server had said that it was done."""


class Connection:
    """One server, at an address that ends in `/v1`."""

    def __init__(self, url: str):
        """Keep the address; nothing is sent yet."""
        import httpx2

        self.url = url.rstrip("/")
        self._key = os.environ.get(KEY, "")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        timeout = httpx2.Timeout(PATIENCE, connect=CONNECT)
        # A connection for each request: one that is kept may be dead when it is needed.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.Client(headers=headers, timeout=timeout, limits=limits)

    @property
    def has_key(self) -> bool:
        """Whether the environment has a key."""
        return bool(self._key)

    def read(self, path: str) -> Any:
        """Return the JSON at a path; raise GptreplError if there is none.

        A path that begins with a slash is that of the host, any other lies below the address.
        """
        with self._named():
            address = urljoin(f"{self.url}/", path)
            answer = self._client.get(address, timeout=2 * CONNECT)
        if answer.is_error:
            self._refuse(answer)
        try:
            return answer.json()
        except ValueError:
            kind = answer.headers.get("content-type", "").partition(";")[0] or "nothing"
            raise GptreplError(
                f"{self.url} is no server of models: it answers with {kind}"
            ) from None

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the objects of a stream as they arrive.

        Raise BrokenStreamError if it ends before it is done: the end of a choice counts, and so
        does the mark `[DONE]`.
        """
        done = False
        with self._named(), self._client.sse(f"{self.url}/{path}", method="POST", json=body) as sse:
            if sse.response.is_error:
                sse.response.read()
                self._refuse(sse.response)
            for event in sse:
                if event.data == "[DONE]":
                    done = True
                    break
                piece = self._object(event.data)
                done = done or any(
                    choice.get("finish_reason") for choice in piece.get("choices") or ()
                )
                yield piece
        if not done:
            raise BrokenStreamError(f"{self.url} broke off before it was done")

    def _object(self, data: str) -> dict[str, Any]:
        """Return one object of a stream; raise GptreplError if it tells of an error."""
        try:
            piece = json.loads(data)
        except ValueError:
            raise GptreplError(f"{self.url} sent what is no JSON: {self._safe(data)}") from None
        if not isinstance(piece, dict):
            raise GptreplError(f"{self.url} sent what is no object: {self._safe(data)}")
        if piece.get("error"):
            raise GptreplError(f"{self.url} failed: {self._safe(message(piece))}")
        return piece

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn whatever a network does into one line that names the server."""
        import httpx2

        try:
            yield
        except httpx2.ConnectTimeout:
            raise GptreplError(
                f"{self.url} does not answer within {CONNECT:g} seconds: is the address right?"
            ) from None
        except httpx2.ConnectError:
            raise GptreplError(f"{self.url} cannot be reached: is the server running?") from None
        except httpx2.TimeoutException:
            raise GptreplError(f"{self.url} has been silent for too long: try again") from None
        except httpx2.SSEError:
            raise GptreplError(f"{self.url} does not stream, which is how it is read") from None
        except (httpx2.NetworkError, httpx2.ProtocolError):
            raise BrokenStreamError(f"{self.url} broke off before it was done") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise GptreplError(f"{self.url} cannot be used: {self._safe(str(error))}") from None

    def _refuse(self, answer: httpx2.Response) -> NoReturn:
        """Raise the error that an answer tells of."""
        status = answer.status_code
        if status in (401, 403):
            if self._key:
                raise GptreplError(f"{self.url} refuses the key in {KEY}: status {status}")
            raise GptreplError(f"{self.url} wants a key: put it in {KEY} before the start")
        try:
            said = message(answer.json())
        except ValueError:
            said = answer.reason_phrase
        raise GptreplError(f"{self.url} answers {status}: {self._safe(said)}")

    def _safe(self, text: str) -> str:
        """Return what a server said on one line, cut, and without the key."""
        plain = text.replace(self._key, "***") if self._key else text
        return " ".join(plain.split())[:_LONGEST] or "no reason is given"


def message(answer: Any) -> str:
    """Return the text of an error in any of the shapes that servers give it."""
    while isinstance(answer, dict):
        found = [answer[key] for key in ("error", "message", "detail") if answer.get(key)]
        answer = found[0] if found else ""
    return str(answer)
