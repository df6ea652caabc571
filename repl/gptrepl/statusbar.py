"""The line at the bottom of the window while a sample streams: its speed, what it is drawn from.

The window scrolls above it, and is whole again when the sample ends or the shell is suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from .api import SampleStarted, Token
from .looks import styled

DELAY = 0.3
"""Seconds after which a sample gets the line: short ones would only make it flicker."""
EVERY = 0.2
"""Seconds between two of its changes."""
SMALLEST = 4
"""Below so many rows there is no room for it."""
SAVE, BACK, WHOLE = "\x1b7", "\x1b8", "\x1b[r"
ROOM = "\x1bD\x1b[A"
"""Makes a row below the cursor, wherever it is, and stays where it was."""
GAP = "  "


class StatusBar:
    """Follows samples; *size* gives the columns and rows of the window."""

    def __init__(self, out: TextIO, size: Callable[[], tuple[int, int]]) -> None:
        self.out = out
        self.size = size
        self.wanted = True
        """Whether there is to be such a line for one sample."""
        self.joint: Callable[[], str] = lambda: ""
        """How much of several samples is done, in words; nothing where there is one."""
        self._shown: tuple[int, int] | None = None
        self._first = 0.0
        self._began = 0.0
        self._changed = 0.0
        self._tokens = 0

    def follow(
        self, event: SampleStarted | Token, look: str = "", *, can_draw: bool = True
    ) -> None:
        """Take note of an event that has been shown; change the line, in *look*, if it is time.

        *can_draw* False: the cursor must stay where it is, so that the next event is waited for.
        """
        now = time.monotonic()
        if isinstance(event, SampleStarted):
            self._began, self._tokens = now, 0
            if not event.index:
                self._first = now
            return
        self._tokens += 1
        if not can_draw or now - self._first < DELAY or now - self._changed < EVERY:
            return
        self._changed = now
        text = self._words(event, now - self._began)
        if text:
            self._show(text, look)

    def tell(self, text: str, look: str = "") -> None:
        """Show *text* in the line: how far work has come that gives no token yet."""
        self._show(text, look)

    def restart(self) -> None:
        """Give the line back, and count the time of the sample from now on."""
        self.close()
        self._first = self._began = time.monotonic()

    def close(self) -> None:
        """Give the line back to the window."""
        if self._shown is not None:
            _, rows = self._shown
            self._shown = None
            self._put(f"{SAVE}{WHOLE}\x1b[{rows};1H\x1b[2K{BACK}")

    def _words(self, token: Token, seconds: float) -> str:
        joint = self.joint()
        parts = [joint] if joint else []
        if self.wanted:
            parts.append(f"{self._tokens} tokens")
            parts.append(f"{self._tokens / max(seconds, 1e-9):.0f} tokens/s")
            if token.entropy is not None:
                parts.append(f"entropy {token.entropy:.1f} bits")
            if token.candidates is not None:
                parts.append(f"{token.candidates} candidates")
        return GAP.join([*parts, "Ctrl-C stops"]) if parts else ""

    def _show(self, text: str, look: str) -> None:
        size = columns, rows = self.size()
        if rows < SMALLEST:
            return
        if size != self._shown:  # at the beginning, and when the window has another size
            if self._shown is not None:
                self._put(f"{SAVE}{WHOLE}{BACK}\x1b[J")
            self._put(f"{ROOM}{SAVE}\x1b[1;{rows - 1}r{BACK}")
            self._shown = size
        line = styled(text[: columns - 1], look)
        self._put(f"{SAVE}\x1b[{rows};1H{line}\x1b[K{BACK}")

    def _put(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
