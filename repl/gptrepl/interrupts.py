"""The signals of a terminal: Ctrl-C stops the work in hand, Ctrl-Z suspends, a hangup ends it all.

Where there is no work, and when it comes twice, Ctrl-C does nothing: nothing typed can kill the
shell. One that comes with Enter waits for the work that Enter starts, and stops that. What ends
the shell from outside ends a sample first, so that it is whole as far as it goes.
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
HOLD = 0.25
"""Seconds that one which came with Enter waits at most."""
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
        self.unspent = False
        """Whether a Ctrl-C that came with Enter found no work to stop: it is for the next line."""
        self._works = False
        self._begun = True
        self._held = False
        self._shows = False
        self._last = 0.0
        self._handles = False

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Take the signals within; outside of the main thread there are none."""
        if current_thread() is not main_thread():
            yield
            return
        before = {number: signal.signal(number, take) for number, take in self._handlers()}
        self._handles = True
        try:
            yield
        finally:
            self._wait(0)
            self._handles = False
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Raise KeyboardInterrupt within when Ctrl-C is pressed, or when the shell is to end.

        Where the work is what a line asked for, that happens from the moment it has begun.
        """
        self._works = True
        if self._held:
            self._wait(HOLD)
        try:
            yield
        finally:
            if self._held:
                self._wait(0)
            self.unspent = self._held
            self._works, self._held, self._begun, self._shows = False, False, True, False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Raise KeyboardInterrupt within when Ctrl-C is pressed, until a line was entered."""
        self._works = self._begun = True
        try:
            yield
        finally:
            self._works = False

    def entered(self) -> None:
        """Take note that a line was entered: from now on Ctrl-C is for the work it asks for."""
        self._last, self._held, self._begun = 0.0, False, False

    def begun(self) -> None:
        """Take note that the work has begun; raise KeyboardInterrupt if it is to stop already."""
        self._begun = True
        if self._held:
            self._held = False
            self._wait(0)
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Let what happens within, a piece of text that is shown, be over before Ctrl-C counts."""
        self._shows = True
        try:
            yield
        finally:
            self._shows = False
        if self._held and self._begun:
            self.begun()

    def press(self) -> None:
        """Do what Ctrl-C does."""
        now = time.monotonic()
        if now - self._last <= AGAIN or (self._begun and not self._works):
            return
        self._last = now
        self._stop()

    def _handlers(self) -> Iterator[tuple[signal.Signals, Any]]:
        yield signal.SIGINT, lambda *_: self.press()
        if hasattr(signal, "SIGALRM"):
            yield signal.SIGALRM, self._overdue
        for name in ENDS:
            if hasattr(signal, name):  # Windows has no SIGHUP
                yield signal.Signals[name], self._end
        if hasattr(signal, "SIGTSTP") and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            yield signal.SIGTSTP, self._suspend

    def _stop(self) -> None:
        """Stop the work in hand, or have it stopped once it has begun."""
        if self._begun and not self._shows:
            raise KeyboardInterrupt
        self._held = True
        if self._works:
            self._wait(HOLD)

    def _wait(self, seconds: float) -> None:
        """Have what is held looked at after so many seconds; 0: no more."""
        if self._handles and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _overdue(self, *_: object) -> None:
        """Stop work that does not say that it has begun."""
        if self._works and self._held:
            self.begun()

    def _end(self, number: int, _frame: object) -> None:
        if self.status is not None:  # it is ending already
            return
        self.status = KILLED + number
        if self._works or not self._begun:
            self._stop()
        else:
            self.stop_reading()

    def _suspend(self, number: int, _frame: object) -> None:
        self.before_stop()
        self.keyboard.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # here it stops; what follows happens when it goes on
        signal.signal(number, self._suspend)
        self.keyboard.hush()
