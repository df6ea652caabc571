"""The piped front end: stdout is samples and nothing else, stderr is everything else.

Lines run exactly as if they were typed. Neither stream ever gets an escape code of ours.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from .api import Event, Failure, GptreplError, Notice, SampleEnded, SampleStarted, Table, Token
from .commands import drive, evaluate, finish
from .report import failure, summary
from .scripting import UnreadableError, located
from .session import Session

SEPARATOR = "---------------"
OK, FAILED, USAGE, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses: all went well, wrong arguments, no model, Ctrl-C. Errors bring their own."""


class Script:
    """Runs lines in a session: samples to *out*, the rest to *err*."""

    def __init__(self, session: Session, out: TextIO, err: TextIO) -> None:
        self.session = session
        self.out = out
        self.err = err
        self.status = OK
        """The exit status: that of the first error."""

    def run(
        self, lines: Iterable[str], name: str, *, path: Path | None = None, keep_going: bool = False
    ) -> int:
        """Evaluate each line and return the exit status.

        The first error ends it, said as `name:line: message`; with *keep_going* the others
        still run, as after `:on-error continue`. *path* is the file they come from, if any.
        """
        scope = self.session.scope
        scope.keeps_going = keep_going
        where = name
        with ExitStack() as stack:
            try:
                drive(evaluate(self.session, ""), self.show)  # what comes before the first line
                if path is not None:
                    stack.enter_context(scope.reading(path))
                for line, where in self.readable(lines, name):
                    drive(evaluate(self.session, line, where), self.show)
                finish(self.session)
            except EOFError:
                pass
            except BrokenPipeError:
                raise
            except GptreplError as error:
                self.fail(error)
            except Exception as error:
                self.fail(located(GptreplError(failure(error)), where))
        return self.status

    def readable(self, lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
        """Yield each line and its place; one that cannot be read fails as any other does."""
        rest = iter(lines)
        for number in itertools.count(1):
            where = f"{name}:{number}"
            try:
                yield next(rest), where
            except StopIteration:
                return
            except UnreadableError as error:
                located(error, where)
                if not self.session.scope.keeps_going:
                    raise
                self.fail(error)

    def fail(self, error: GptreplError) -> None:
        """Say an error; the first one decides the exit status."""
        self.status = self.status or error.status
        self.say(failure(error))

    def show(self, event: Event) -> None:
        """Write one event to the stream it belongs to."""
        match event:
            case SampleStarted(role=""):
                self._put(event.prompt)
            case SampleStarted():  # of a chat only what is new is a sample
                self._put(event.prompt[event.known :])
            case Token():
                self._put(event.text)
            case SampleEnded():
                self.out.write(f"{event.tail}\n{SEPARATOR}\n")
                self.out.flush()
                self.say(summary(event))
            case Failure():
                self.status = self.status or event.status
                self.say(event.text)
            case Notice():
                self.say(event.text)
            case Table():
                self.say(plain(event))

    def _put(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def say(self, text: str) -> None:
        """Write a line that is no sample."""
        self.err.write(f"{text}\n")
        self.err.flush()


def plain(table: Table) -> str:
    """Return a table as lines of columns parted by two spaces."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def stdio() -> tuple[TextIO, TextIO]:
    """Return stdout and stderr, made to write any text: what they cannot encode becomes `?`."""
    streams: list[TextIO] = []
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace", newline="\n")
        streams.append(stream)
    return streams[0], streams[1]
