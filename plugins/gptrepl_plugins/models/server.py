"""A model behind a server: it samples by itself, and its text is read as it is written."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gptrepl.api import Ending, GptreplError, Request
from gptrepl_plugins.models import dialects
from gptrepl_plugins.models.connection import Connection

if TYPE_CHECKING:
    from torch import Tensor

_MANY = 2**31
_STOPS = 4
_SEEDS = 2**31  # llama.cpp and others keep seeds in 32 bits

THINKING = ("<think>", "</think>")
"""What stands around the thoughts of a model whose server tells them apart from its text."""


class Pieces:
    """Gives an id to each piece of text that passes by; the model's own ids are not known."""

    vocab_size = _MANY
    end = 0
    """The id of the end of a text, which the server does not write."""

    def __init__(self) -> None:
        self._texts = [""]
        self._ids = {"": 0}

    def encode(self, text: str) -> list[int]:
        """Return the one id of *text*."""
        return [self.id_of(text)] if text else []

    def id_of(self, text: str) -> int:
        """Return the id of a piece, a new one if it has none yet."""
        if text not in self._ids:
            self._ids[text] = len(self._texts)
            self._texts.append(text)
        return self._ids[text]

    def token_bytes(self, token: int) -> bytes:
        """Return the piece that an id stands for, in UTF-8."""
        return self._texts[token].encode("utf-8", "surrogatepass")


class ServerModel:
    """A `gptrepl.api.Writer`: one model of one server."""

    vocab_size = _MANY
    block_size = None

    def __init__(self, connection: Connection, name: str, kind: str, pieces: Pieces):
        """Speak with *connection* in the dialect *kind*; the ids are those of *pieces*."""
        self.connection = connection
        self.name = name
        self.kind = kind
        self.pieces = pieces
        self.siblings: Sequence[str] = ()
        """The sources of the models of this server."""
        self._tells_logprobs = True

    @property
    def place(self) -> str:
        """Where it runs, in words."""
        return f"at {self.connection.url}, a server of the kind {self.kind}"

    @property
    def continues(self) -> bool:
        """Whether it can be asked for the rest of a turn of the assistant."""
        return self.kind in dialects.CONTINUES

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Raise GptreplError: a server gives text."""
        del rows
        raise GptreplError(f"{self.name} is at a server, which gives text and no logits")

    def idle(self, request: Request) -> Mapping[str, str]:
        """Return why each setting that this server cannot honour has no effect, by name."""
        is_chat = bool(request.messages)
        stops = request.stop_at_end or is_chat
        return dialects.idle(self.kind, request.samplers, stop_at_end=stops)

    def complete(self, request: Request) -> Generator[tuple[int, float], None, Ending]:
        """Yield (token, logprob) for each piece of text, nan where it is not told; return why."""
        path = "chat/completions" if request.messages else "completions"
        ending: Ending = "length"
        is_thinking = False
        for answer in self._answers(path, self._body(request)):
            for choice in answer.get("choices") or ():
                thought, spoken = thought_of(choice), list(said(choice))
                if is_thinking != bool(thought) and (thought or spoken):
                    is_thinking = bool(thought)
                    yield self.pieces.id_of(THINKING[not is_thinking]), math.nan
                for text, logprob in [(thought, math.nan)] if thought else spoken:
                    yield self.pieces.id_of(text), logprob
                if choice.get("finish_reason") not in (None, "length"):
                    ending = "stop"
        return ending

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.name, "stream": True}
        if request.messages:
            body["messages"] = [dict(message) for message in request.messages]
            if request.messages[-1]["role"] == "assistant":
                body |= self._going_on()
        else:
            body["prompt"] = request.prompt
        body |= {"max_tokens": request.max_new_tokens, "seed": request.seed % _SEEDS}
        if request.stop:
            # OpenAI takes four; the text is watched for all of them here as well.
            body["stop"] = list(request.stop[:_STOPS] if self.kind == "openai" else request.stop)
        stops = request.stop_at_end or bool(request.messages)
        return body | dialects.body(self.kind, request.samplers, stop_at_end=stops)

    def _going_on(self) -> dict[str, Any]:
        """Return what asks for the rest of the last message, or refuse where nothing does."""
        if not self.continues:
            raise GptreplError(f"a server of the kind {self.kind} begins a turn anew")
        return dialects.CONTINUES[self.kind]

    def _answers(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what comes back; a server that refuses to tell log-probabilities is asked again."""
        if self._tells_logprobs:
            wanted: dict[str, Any] = {"logprobs": True if "messages" in body else 1}
            try:
                yield from self.connection.stream(path, body | wanted)
                return
            except GptreplError as error:
                if "logprobs" not in str(error):
                    raise
                self._tells_logprobs = False
        yield from self.connection.stream(path, body)


def thought_of(choice: Mapping[str, Any]) -> str:
    """Return what a model thinks aloud, where its server tells that apart from what it says."""
    delta = choice.get("delta") or {}
    return delta.get("reasoning_content") or delta.get("reasoning") or ""


def said(choice: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the pieces of one choice with their log-probabilities, token by token if possible."""
    text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
    told = choice.get("logprobs") or {}
    if told.get("content"):
        tokens = [entry.get("token", "") for entry in told["content"]]
        logprobs = [entry.get("logprob") for entry in told["content"]]
    else:
        tokens, logprobs = told.get("tokens") or [], told.get("token_logprobs") or []
    values = [math.nan if value is None else float(value) for value in logprobs]
    if "".join(tokens) == text and len(tokens) == len(values):
        yield from zip(tokens, values, strict=True)
    elif text:
        yield text, sum(values) if values else math.nan


def refuse_unlisted(url: str, name: str, listed: Sequence[str]) -> NoReturn:
    """Raise the error for a model that a server does not list."""
    shown = ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
    if not name:
        raise GptreplError(f"{url} has several models: :load {url} NAME, one of {shown}")
    raise GptreplError(f"{url} has no model '{name}'; it has {shown}")
