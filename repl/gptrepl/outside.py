"""The text and the world outside: files it is copied into, programs that get it.

In a terminal a program has the terminal; in a script what it writes is a notice, since the
output of a script is samples alone.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from .api import Event, GptreplError, Notice, Text, command
from .generation import Generation
from .session import Session
from .turns import text_of

SEPARATOR = "---------------\n"
"""What stands behind each text in a file, as sample.py prints it."""


class Tee:
    """Appends the texts of samples to a file when they have ended; once, or until it is off."""

    def __init__(self, session: Session, path: Path, *, once: bool) -> None:
        self.session = session
        self.path = path
        self.once = once
        self._notes: list[Notice] = []

    def started(self, generation: Generation) -> None:
        """Do nothing: a text is written when it has ended."""

    def drawn(self, generation: Generation) -> None:
        """Do nothing."""

    def ended(self, generation: Generation) -> None:
        """Append the texts; what cannot be written is said, and not tried again."""
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.writelines(f"{one.text}\n{SEPARATOR}" for one in generation.samples)
        except OSError as error:
            self._notes.append(Notice(f"cannot write {self.path}: {error.strerror}", warning=True))
            self.once = True
        if self.once:
            self.session.recorders = [one for one in self.session.recorders if one is not self]

    def said(self) -> Iterable[Notice]:
        """Return what could not be written."""
        notes, self._notes = self._notes, []
        return notes


# --- commands -------------------------------------------------------------------------------------


def tee(session: Session, path: Path | None = None) -> Iterator[Event]:
    """Copy every text into the file PATH, behind what is there; `:tee off` ends it.

    Each text is followed by a line of dashes, as sample.py prints them.
    """
    open_now = [one for one in session.recorders if isinstance(one, Tee) and not one.once]
    if path is None:
        yield Notice(f"texts go into {open_now[0].path}" if open_now else "tee off")
        return
    session.recorders = [one for one in session.recorders if one not in open_now]
    if str(path) != "off":
        add(session, path, once=False)
    yield Notice(f"tee {path}")


def once(session: Session, path: Path) -> Iterator[Event]:
    """Copy the next text into the file PATH, behind what is there."""
    add(session, path, once=True)
    yield Notice(f"the next text goes into {path}")


def add(session: Session, path: Path, *, once: bool) -> None:
    """Let texts go into the file *path*; raise OSError if it cannot be written."""
    with path.open("a"):
        session.recorders = [*session.recorders, Tee(session, path, once=once)]


@command("!")
def run(session: Session, program: Text) -> Iterator[Event]:
    """Run PROGRAM by the shell of the system: `:! ls -l`."""
    yield from executed(session, program.strip(), None)


@command("|")
def pipe(session: Session, program: Text) -> Iterator[Event]:
    """Give the text so far to PROGRAM, run by the shell of the system: `:| wc -w`."""
    yield from executed(session, program.strip(), text_of(session))


def executed(session: Session, program: str, text: str | None) -> Iterator[Event]:
    """Run *program* with *text* as its input; raise GptreplError if it fails."""
    if not program:
        raise GptreplError("there is no program to run")
    console = session.console
    into = None if console else subprocess.PIPE
    given = text.encode() if text is not None else None
    if console is None and given is None:
        given = b""  # the rest of a script is not for the program
    with console.lent() if console else contextlib.nullcontext():
        done = subprocess.run(  # noqa: S602 - a shell is what was asked for
            program,
            shell=True,
            input=given,
            stdout=into,
            stderr=into and subprocess.STDOUT,
            check=False,
        )
    if done.stdout:
        yield Notice(done.stdout.decode("utf-8", "replace").removesuffix("\n"))
    if done.returncode:
        raise GptreplError(f"the program ended with status {done.returncode}")
