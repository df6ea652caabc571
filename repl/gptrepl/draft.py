"""What is known of the prompt while it is typed: its tokens, the characters the model lacks.

It is found out behind the keys, on a thread that lives as long as there is something to do; a key
never waits for it. While the model is not in memory nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Thread

from .api import GptreplError, Tokenizer
from .session import Session


@dataclass(frozen=True)
class Finding:
    """What is known of one text."""

    text: str = ""
    tokens: int | None = None
    """None: not known yet, or it cannot be written in tokens."""
    strange: frozenset[str] = frozenset()
    """The characters that the model's tokenizer does not have."""


class Draft:
    """Follows a text; *changed* is called, on another thread, when more is known of it."""

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self.session = session
        self.changed = changed
        self.finding = Finding()
        self._wanted = ""
        self._busy = False
        self._lock = Lock()
        self._alphabet: dict[str, bool] = {}
        self._tokenizer: Tokenizer | None = None

    def follow(self, text: str) -> None:
        """Find out about *text*, and forget what is asked no longer."""
        with self._lock:
            self._wanted = text
            if self._busy or self.session.loaded is None:
                return
            self._busy = True
        Thread(target=self._work, name="draft", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                text = self._wanted
            finding = self._find(text)
            self.finding = finding
            self.changed()
            with self._lock:
                if self._wanted == text:
                    self._busy = False
                    return

    def _find(self, text: str) -> Finding:
        loaded = self.session.loaded
        if loaded is None:
            return Finding()
        if self._tokenizer is not loaded.tokenizer:
            self._tokenizer, self._alphabet = loaded.tokenizer, {}
        try:
            return Finding(text, len(loaded.encode(text)))
        except GptreplError:
            return Finding(text, None, self._strange(loaded.tokenizer, text))
        except Exception:  # a tokenizer that fails says so when the prompt is sampled from
            return Finding(text)

    def _strange(self, tokenizer: Tokenizer, text: str) -> frozenset[str]:
        for character in set(text) - self._alphabet.keys():
            try:
                tokenizer.encode(character)
            except GptreplError:
                self._alphabet[character] = False
            else:
                self._alphabet[character] = True
        return frozenset(character for character in set(text) if not self._alphabet[character])
