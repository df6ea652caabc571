"""Grey text behind the cursor: a line from the history, or what the model would go on with.

The model is asked on a thread, once the keys rest; it stops within a token of the next key, and
before anything else asks the model. One of the modules that know prompt-toolkit.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import islice
from threading import Event, Thread

from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from .completion import is_command
from .screen import harmless
from .session import Session
from .turns import begun

REST = 0.1
"""Seconds without a key before the model is asked."""
TOKENS = 12
REMEMBERED = 2000
"""How many lines of the history are looked through for each key."""


class Suggester(AutoSuggest):
    """Suggests from the history; with the setting `suggest` the model goes on with a prompt."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._stop = Event()
        self._thread: Thread | None = None

    def stop(self) -> None:
        """Let the model go; return when it is free."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        """Return the rest of the last line of the history that begins so."""
        text = document.text
        if not text.strip() or "\n" in text:
            return None
        for line in islice(reversed(buffer.history.get_strings()), REMEMBERED):
            if line.startswith(text) and "\n" not in line:
                return Suggestion(line[len(text) :])
        return None

    async def get_suggestion_async(self, buff: Buffer, document: Document) -> Suggestion | None:
        """Return what the model goes on with, or a line of the history."""
        is_prompt = document.text.strip() and not is_command(document.text)
        if not (is_prompt and self.session.settings.suggest and self.session.loaded):
            return self.get_suggestion(buff, document)
        await asyncio.sleep(REST)
        if buff.text != document.text:
            return None
        text = await self._ask(buff, document.text)
        return Suggestion(text) if text else None

    async def _ask(self, buffer: Buffer, text: str) -> str:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        pieces: list[str] = []
        self._stop.clear()

        def work() -> None:
            with contextlib.suppress(Exception):  # said when the prompt is sampled from
                for piece in self.session.preview(begun(self.session, text), TOKENS):
                    pieces.append(piece)
                    if "\n" in piece or self._stop.is_set() or buffer.text != text:
                        break
            with contextlib.suppress(RuntimeError):  # the prompt has been left
                loop.call_soon_threadsafe(done.set)

        self._thread = Thread(target=work, name="suggest", daemon=True)
        self._thread.start()
        await done.wait()
        return harmless("".join(pieces).partition("\n")[0])
