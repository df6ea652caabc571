"""The signals of a terminal: Ctrl-C stops the work in hand, Ctrl-Z suspends, a hangup ends it all.

Where there is no work, and when it comes twice, Ctrl-C does nothing: nothing typed can kill the
shell. What ends the shell from outside ends a sample first, so that it is whole as far as it goes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import current_thread, main_thread
from typing import Any

from .keyboard import Keyboard

AGAIN = 1.0
"""Seconds within which a second Ctrl-C is the first one pressed twice."""
ENDS = ("SIGTERM", "SIGHUP")
KILLED = 128
"""Added to the number of a signal it is the exit status, as shells count."""


class Interrupts:
    """The signals that reach the shell while it is handled."""

    def __init__(self, keyboard: Keyboard) -> None:
        self.keyboard = keyboard
        self.status: int | None = None
        """The exit status, once a signal has asked the shell to end."""
        self.stop_reading: Callable[[], None] = lambda: None
        """What ends the reading of a line when the shell is to end."""
        self.before_stop: Callable[[], None] = lambda: None
        """What is done to the screen before the shell is suspended."""
        self._works = False
        self._last = 0.0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Take the signals within; outside of the main thread there are none."""
        if current_thread() is not main_thread():
            yield
            return
        before = {number: signal.signal(number, take) for number, take in self._handlers()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Raise KeyboardInterrupt within when Ctrl-C is pressed, or when the shell is to end."""
        self._works = True
        try:
            yield
        finally:
            self._works = False

    def _handlers(self) -> Iterator[tuple[signal.Signals, Any]]:
        yield signal.SIGINT, self._stop
        for name in ENDS:
            if hasattr(signal, name):  # Windows has no SIGHUP
                yield signal.Signals[name], self._end
        if hasattr(signal, "SIGTSTP") and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            yield signal.SIGTSTP, self._suspend

    def _stop(self, *_: object) -> None:
        now = time.monotonic()
        if self._works and now - self._last > AGAIN:
            self._last = now
            raise KeyboardInterrupt

    def _end(self, number: int, _frame: object) -> None:
        if self.status is not None:  # it is ending already
            return
        self.status = KILLED + number
        if self._works:
            raise KeyboardInterrupt
        self.stop_reading()

    def _suspend(self, number: int, _frame: object) -> None:
        self.before_stop()
        self.keyboard.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # here it stops; what follows happens when it goes on
        signal.signal(number, self._suspend)
        self.keyboard.hush()
