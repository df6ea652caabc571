"""The piped front end: stdout is samples and nothing else, stderr is everything else.

Lines run exactly as if they were typed. Neither stream ever gets an escape code of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import IO, TextIO

from .api import Event, GptreplError, LoadError, Notice, SampleEnded, SampleStarted, Table, Token
from .commands import drive, evaluate
from .report import failure, summary
from .session import Session

SEPARATOR = "---------------"
OK, FAILED, USAGE, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit statuses: all went well, a command failed, wrong arguments, no model, Ctrl-C."""


class Script:
    """Runs lines in a session: samples to *out*, the rest to *err*."""

    def __init__(self, session: Session, out: TextIO, err: TextIO) -> None:
        self.session = session
        self.out = out
        self.err = err

    def run(self, lines: Iterable[str], name: str, *, keep_going: bool = False) -> int:
        """Evaluate each line and return the exit status.

        The first error ends it, said as `name:line: message`; with *keep_going* the others
        still run, and the status is that of the first error.
        """
        status = OK
        numbered = enumerate(lines, 1)
        number = 0
        while True:
            try:
                number, line = next(numbered)
                drive(evaluate(self.session, line), self.show)
            except (StopIteration, EOFError):
                return status
            except BrokenPipeError:
                raise
            except UnreadableError as error:
                self.say(f"{name}:{number + 1}: {error}")
                return status or FAILED
            except Exception as error:
                self.say(f"{name}:{number}: {failure(error)}")
                status = status or (NO_MODEL if isinstance(error, LoadError) else FAILED)
                if not keep_going:
                    return status

    def show(self, event: Event) -> None:
        """Write one event to the stream it belongs to."""
        match event:
            case SampleStarted(prompt=text) | Token(text=text):
                self.out.write(text)
                self.out.flush()
            case SampleEnded():
                self.out.write(f"{event.tail}\n{SEPARATOR}\n")
                self.out.flush()
                self.say(summary(event))
            case Notice(text=text):
                self.say(text)
            case Table():
                self.say(plain(event))

    def say(self, text: str) -> None:
        """Write a line that is no sample."""
        self.err.write(f"{text}\n")
        self.err.flush()


class UnreadableError(GptreplError):
    """The input cannot be read as text; nothing after it can be trusted."""


def read(stream: IO[bytes]) -> Iterator[str]:
    """Yield the lines of *stream* as they arrive, as UTF-8 without their ends.

    LF and CRLF end a line, the last one needs no end, a byte order mark is dropped.
    """
    for number, raw in enumerate(stream, 1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"byte {error.start + 1} of the line is no UTF-8") from None


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
