"""The interactive front end: a loop that nothing typed can kill.

It reads a line, evaluates it and shows its events. Every error is one line, and Ctrl-C only ever
stops the work in hand.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Protocol

from .api import Event, GptreplError, Progress, SampleStarted, Table
from .clock import Clock
from .commands import drive, evaluate
from .interrupts import Interrupts
from .keyboard import Keyboard
from .looks import looks
from .pager import page
from .report import failure
from .screen import Screen, harmless
from .session import Session
from .statusbar import StatusBar
from .values import is_broken

SIGN = "> "
HINT = "this terminal (TERM={term}) gets plain input without history or colours"
LONG = 3.0
"""Seconds after which a line that is done is worth a bell."""
DUMB = ("dumb", "unknown")


class Reader(Protocol):
    """Where the lines come from."""

    def read(self) -> str:
        """Return the next line; raise EOFError where there is none."""
        ...

    def stop(self) -> None:
        """Let the reading that goes on raise EOFError."""
        ...


class Shell:
    """Lines from a reader, events to a screen."""

    def __init__(
        self, session: Session, reader: Reader, screen: Screen, interrupts: Interrupts
    ) -> None:
        self.session = session
        self.reader = reader
        self.screen = screen
        self.interrupts = interrupts

    def run(self) -> int:
        """Evaluate line after line until the input ends; return the exit status."""
        self.interrupts.stop_reading = self.reader.stop
        self.session.console = self
        if self.screen.bar is not None:
            self.screen.bar.joint = self.joint
        self.session.show_now = self.show_whole if self.screen.moves else None
        self.session.confirm = self.confirm
        if self.session.startup and not self.evaluate(""):
            return self.interrupts.status or 0
        while self.interrupts.status is None:
            try:
                line = self.reader.read()
            except KeyboardInterrupt:
                self.screen.settle()
                continue
            except (EOFError, OSError):  # the terminal may be gone
                break
            if not self.evaluate(line):
                break
        return self.interrupts.status or 0

    def evaluate(self, line: str) -> bool:
        """Show what *line* does; return whether the shell goes on."""
        self._dress()
        clock = Clock()
        try:
            with self.interrupts.working():
                refuse_broken(line)
                drive(evaluate(self.session, line), clock.passing(self.show))
        except EOFError:
            return False
        except KeyboardInterrupt:
            self.screen.interrupted()
        except (Exception, SystemExit) as error:
            self.screen.say(failure(error), "error")
        self._finish(clock)
        return True

    def show(self, event: Event) -> None:
        """Show one event: a table that is too long for the window in a pager, if that is wanted.

        What was stopped as it was entered ends here, so that a sample is kept, empty as it is.
        """
        if isinstance(event, Table) and self.session.settings.pager:
            text = self.screen.drawn(event)
            if text.count("\n") >= size()[1] and page(text, self):
                return
        self.show_whole(event)
        if isinstance(event, SampleStarted) or (
            isinstance(event, Progress) and event.done != event.total
        ):
            self.interrupts.begun()

    def show_whole(self, event: Event) -> None:
        """Show one event to its end, though Ctrl-C is pressed meanwhile."""
        with self.interrupts.whole():
            self.screen.show(event)

    def joint(self) -> str:
        """Return how much is done of the samples that are being drawn; nothing for a single one."""
        generation = self.session.drawing
        if generation is None or len(generation.samples) < 2:
            return ""
        over, count, share = generation.share
        return f"samples {over}/{count} · {100 * share:.0f} %"

    def _dress(self) -> None:
        """Follow the settings that say how things look."""
        settings, bar = self.session.settings, self.screen.bar
        if self.screen.moves:
            self.screen.looks = looks(settings)
        if bar is not None:
            self.session.measure = bar.wanted = settings.toolbar

    def _finish(self, clock: Clock) -> None:
        settings = self.session.settings
        self.screen.settle()
        if settings.timing:
            self.screen.say(clock.words(), "summary")
        if settings.bell and clock.seconds > LONG:
            self.screen.ring()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Give the terminal to another program for as long as the context lasts."""
        self.interrupts.begun()
        self.screen.settle()
        try:
            with self.interrupts.keyboard.lent():
                yield
        finally:
            self.screen.align()

    def copy(self, text: str) -> None:
        """Ask the terminal to put *text* on the clipboard; it does not say whether it did."""
        self.screen.copy(text)

    def confirm(self, question: str) -> bool:
        """Return whether the user says yes; what was typed before the question is no answer."""
        self.interrupts.begun()
        self.screen.settle()
        keyboard = self.interrupts.keyboard
        with keyboard.lent():
            keyboard.forget()
            try:
                answer = input(f"{harmless(question)} [y/N] ")
            except EOFError:
                self.screen.break_line()
                return False
        return answer.strip().lower() in ("y", "yes")


class PlainReader:
    """Reads lines as the terminal itself edits them."""

    def __init__(
        self, session: Session, screen: Screen, keyboard: Keyboard, interrupts: Interrupts
    ) -> None:
        self.session = session
        self.screen = screen
        self.keyboard = keyboard
        self.interrupts = interrupts

    def read(self) -> str:
        """Return the next line; raise EOFError where there is none."""
        with self.keyboard.lent(), self.interrupts.reading():
            try:
                line = input(SIGN)
                self.interrupts.entered()
            except KeyboardInterrupt:
                self.screen.break_line()
                raise
        self.session.load_behind()
        return line

    def stop(self) -> None:
        """Do nothing: what is read by `input` ends with KeyboardInterrupt."""


def run(session: Session) -> int:
    """Read, evaluate and show until the input ends; return the exit status."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    keyboard = Keyboard(sys.stdin.fileno(), by_line=is_plain())
    interrupts = Interrupts(keyboard)
    with interrupts.handled(), keyboard.hushed():
        return shell(session, keyboard, interrupts).run()


def shell(session: Session, keyboard: Keyboard, interrupts: Interrupts) -> Shell:
    """Return the shell that suits this terminal."""
    if not is_plain():
        with contextlib.suppress(GptreplError):
            return fine_shell(session, interrupts)
    screen = Screen(sys.stdout, lambda: size()[0], looks={}, moves=False)
    screen.say(HINT.format(term=os.environ.get("TERM", "")))
    reader = PlainReader(session, screen, keyboard, interrupts)
    return Shell(session, reader, screen, interrupts)


def fine_shell(session: Session, interrupts: Interrupts) -> Shell:
    """Return a shell with line editing, history, completion and a toolbar."""
    from .history import history_path, open_history
    from .prompt import Prompt, open_terminal

    keys, output = open_terminal()
    moves = sys.platform != "win32"  # a console there may take codes for text
    bar = StatusBar(sys.stdout, size) if moves else None
    first = looks(session.settings) if moves else {}
    screen = Screen(sys.stdout, lambda: size()[0], looks=first, moves=moves, bar=bar)
    if bar is not None:
        interrupts.before_stop = bar.close
    history, trouble = open_history(history_path(), session.settings.history_size)
    if trouble:
        screen.say(trouble, "warning")
    prompt = Prompt(session, history, interrupts, input=keys, output=output)
    return Shell(session, prompt, screen, interrupts)


def is_plain() -> bool:
    """Return whether the terminal cannot move its cursor, or does not say how large it is."""
    if os.environ.get("TERM", "").lower() in DUMB:
        return True
    try:
        return 0 in os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return True


def size() -> tuple[int, int]:
    """Return the columns and rows of the terminal."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24


def refuse_broken(line: str) -> None:
    """Raise GptreplError if *line* holds bytes that were no UTF-8."""
    if is_broken(line):
        raise GptreplError("the line holds bytes that are no UTF-8")
