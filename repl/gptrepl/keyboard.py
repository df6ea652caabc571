"""What the terminal does with keys while the shell works: they wait, unseen, for the next prompt.

Ctrl-C and Ctrl-Z keep their meaning. Where there is no termios (Windows) nothing is changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

INPUT, LOCAL, CONTROL = 0, 3, 6
"""The places of these flags among the attributes of a terminal."""


class Keyboard:
    """The keys of one terminal: hushed while the shell runs, put back as they were after it.

    *by_line*: the terminal edits lines itself, for a shell that reads by `input`.
    """

    def __init__(self, descriptor: int | None, *, by_line: bool = False) -> None:
        self.descriptor = descriptor
        self.by_line = by_line
        self._before: list[Any] | None = None
        if termios is not None and descriptor is not None:
            with contextlib.suppress(termios.error):
                self._before = termios.tcgetattr(descriptor)

    @contextlib.contextmanager
    def hushed(self) -> Iterator[None]:
        """Keep typed keys unseen within."""
        self.hush()
        try:
            yield
        finally:
            self.restore()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Give the terminal as it was found to whatever runs within, an editor or `input`."""
        self.restore()
        try:
            yield
        finally:
            self.hush()

    def hush(self) -> None:
        """Stop the echo. Ctrl-C still interrupts and Ctrl-Z suspends, no other key does a thing.

        Neither drops what was typed before, nor what was written and is still on its way.
        """
        if self._before is None:
            return
        attributes = [*self._before[:CONTROL], [*self._before[CONTROL]]]
        attributes[LOCAL] = attributes[LOCAL] & ~termios.ECHO | termios.ISIG | termios.NOFLSH
        if not self.by_line:
            attributes[LOCAL] &= ~(termios.ICANON | termios.IEXTEN)
            attributes[INPUT] &= ~(termios.ICRNL | termios.IXON)
        attributes[CONTROL][termios.VQUIT] = os.fpathconf(self.descriptor or 0, "PC_VDISABLE")
        self._set(attributes)

    def forget(self) -> None:
        """Drop the keys that were typed and not read."""
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcflush(self.descriptor or 0, termios.TCIFLUSH)

    def restore(self) -> None:
        """Put the terminal back as it was found."""
        if self._before is not None:
            self._set(self._before)

    def _set(self, attributes: list[Any]) -> None:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self.descriptor or 0, termios.TCSANOW, attributes)
