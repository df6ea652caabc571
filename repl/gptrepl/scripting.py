"""What a script keeps between two lines: its variables, an open loop, the files being read.

`{x}` stands for a variable wherever it is typed, in a command or in a prompt, but only once
`:let` or `:for` has made x: a prompt full of braces passes as it is. `{{x}}` is `{x}` itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .api import GptreplError
from .arguments import WORD
from .document import Line
from .values import shown, unquoted, whole

NAME = r"[A-Za-z_]\w*"
REFERENCE = re.compile(rf"\{{\{{(?P<kept>{NAME})\}}\}}|\{{(?P<name>{NAME})\}}")
OPENING = re.compile(r":(for|multi)(?!\w)", re.IGNORECASE)
HEADER = re.compile(rf":for\s+({NAME})\s+in\s+(.+)", re.IGNORECASE)
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
END = ":end"
LONGEST = 1_000_000
"""How many values a range may stand for."""


class UnreadableError(GptreplError):
    """The input cannot be read as text; nothing after it can be trusted."""


class Loop:
    """Lines that belong together, from `:for` or `:multi` to its `:end`."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._open: list[str] = []

    def add(self, line: Line) -> bool:
        """Add *line*; return whether it was the last one."""
        self.lines.append(line)
        opened = opening(line.text)
        if line.text.rstrip().lower() == END:
            self._open.pop()
        elif opened and "multi" not in self._open[-1:]:  # there everything is text
            self._open.append(opened)
        return not self._open


class Scope:
    """The variables and loops of one session, and what happens after an error."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.keeps_going = False
        """Whether the next line runs after one that failed: `:on-error continue`."""
        self._loop: Loop | None = None
        self._files: list[Path] = []

    @property
    def is_open(self) -> bool:
        """Whether lines are being collected for a loop, until its `:end`."""
        return self._loop is not None

    def drop(self) -> None:
        """Forget the loop that is being typed."""
        self._loop = None

    def close(self) -> None:
        """Raise GptreplError if a loop is open where the lines end; it is dropped."""
        loop, self._loop = self._loop, None
        if loop is not None:
            raise located(GptreplError(":for has no :end"), loop.lines[0].where)

    def take(self, line: str, where: str = "", *, is_text: bool = False) -> Iterator[Line]:
        """Yield the lines to run now that *line* has come, with variables replaced.

        A line of a loop waits for its end; then they come again and again, and each is replaced
        only when it is its turn. *is_text*: the line is part of a prompt, never a loop.
        """
        if self._loop is None and (is_text or opening(line) != "for"):
            yield Line(self.filled(line), where)
            return
        if self._loop is None:
            header(line)
            self._loop = Loop()
        if self._loop.add(Line(line, where)):
            loop, self._loop = self._loop, None
            yield from self._turns(loop.lines)

    def _turns(self, lines: Sequence[Line]) -> Iterator[Line]:
        try:
            name, values = header(self.filled(lines[0].text))
        except GptreplError as error:
            raise located(error, lines[0].where) from None
        before = self.variables.get(name)
        try:
            for value in values:
                self.variables[name] = value
                yield from self._body(lines[1:-1])
        finally:
            self.variables.pop(name, None)
            if before is not None:
                self.variables[name] = before

    def _body(self, lines: Iterable[Line]) -> Iterator[Line]:
        inner: Loop | None = None
        for line in lines:
            if inner is None and not opening(line.text):
                yield Line(self.filled(line.text), line.where)
                continue
            inner = inner or Loop()
            if inner.add(line):
                whole, inner = inner.lines, None
                if opening(whole[0].text) == "for":
                    yield from self._turns(whole)
                else:
                    yield from (Line(self.filled(text), where) for text, where in whole)

    def filled(self, text: str) -> str:
        """Return *text* with the variables that exist in the places of their names."""
        if not self.variables:
            return text
        return REFERENCE.sub(self._value, text)

    def _value(self, reference: re.Match[str]) -> str:
        kept = reference["kept"]
        if kept:
            return f"{{{kept}}}" if kept in self.variables else reference[0]
        return self.variables.get(reference["name"], reference[0])

    def is_reading(self, path: Path) -> bool:
        """Return whether the lines that run now are those of the script *path*."""
        return self._files[-1:] == [path]

    @contextmanager
    def reading(self, path: Path) -> Iterator[Path]:
        """Read the script *path* within: what it names is relative to it. Yields where it is.

        Raises GptreplError if it is being read already.
        """
        if self._files and not path.is_absolute():
            path = self._files[-1].parent / path
        try:
            running = path.resolve() in [file.resolve() for file in self._files]
        except (OSError, ValueError) as error:  # ValueError: no name can hold a zero byte
            raise GptreplError(f"cannot read the script {str(path)!r}: {error}") from None
        if running:
            raise GptreplError(f"{path} is being run already: a script cannot run itself")
        outer, self._loop = self._loop, None
        self._files.append(path)
        try:
            yield path
        finally:
            self._files.pop()
            self._loop = outer


def opening(line: str) -> str:
    """Return `for` or `multi` if *line* begins what an `:end` ends, else nothing."""
    opened = OPENING.match(line) if "\n" not in line else None
    return opened[1].lower() if opened else ""


def header(line: str) -> tuple[str, list[str]]:
    """Return the variable and the values of `:for NAME in VALUE ...`; `1..5` is five of them."""
    found = HEADER.fullmatch(line.strip())
    if found is None:
        raise GptreplError(f"a loop begins with `:for NAME in VALUE ...`, not {line!r}")
    values: list[str] = []
    for word in WORD.findall(found[2]):
        span = RANGE.fullmatch(word)
        if span is None:
            values.append(unquoted(word))
            continue
        first, last = whole(span[1]), whole(span[2])
        if first is None or last is None or abs(last - first) >= LONGEST:
            raise GptreplError(f"{shown(word)} is more than {LONGEST} values")
        step = 1 if first <= last else -1
        values += map(str, range(first, last + step, step))
    return found[1], values


def located(error: GptreplError, where: str) -> GptreplError:
    """Return *error*, which now says where it happened unless it did before."""
    error.where = error.where or where
    return error


def read(stream: IO[bytes]) -> Iterator[str]:
    """Return the lines of *stream* as they arrive, as UTF-8 without their ends.

    LF and CRLF end a line, the last one needs no end, a byte order mark is dropped. A line that
    is no UTF-8 raises UnreadableError; the next one can be asked for all the same.
    """
    return map(decoded, stream, itertools.count())


def decoded(raw: bytes, place: int) -> str:
    """Return the line *raw*, which *place* others stand before; raise UnreadableError."""
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    if place == 0:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"byte {error.start + 1} of the line is no UTF-8") from None


def read_file(path: Path, name: str) -> Iterator[Line]:
    """Yield the lines of the script *path*, which errors call *name*, with their places."""
    number = 0
    try:
        with path.open("rb") as stream:
            for number, text in enumerate(read(stream), 1):
                yield Line(text, f"{name}:{number}")
    except UnreadableError as error:
        raise located(error, f"{name}:{number + 1}") from None
    except (OSError, ValueError) as error:  # ValueError: no name can hold a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise GptreplError(f"cannot read the script {name}: {reason}") from None
