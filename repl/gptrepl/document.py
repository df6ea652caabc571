"""A YAML file read as text with line numbers, and written whole or not at all.

A safe loader reads it, and a value stays as it was written: what it means is for the settings to
say, so that `1e-3` is a number and `off` is off. This module alone knows YAML.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .api import GptreplError

NOTHING = ("", "~", "null", "none")
DEEPEST = 4
TAGS = "tag:yaml.org,2002:"
CODE = f"{TAGS}python/"
READABLE = 0o666
"""The mode of a written file, before the user's umask."""


class Line(NamedTuple):
    """A line to run, and where it stands: `FILE:LINE`."""

    text: str
    where: str

    @property
    def file(self) -> Path | None:
        """The file that it stands in; None where it stands in none, as a variable's does."""
        name, sign, _ = self.where.rpartition(":")
        return Path(name).absolute() if sign else None


@dataclass(frozen=True)
class Entry:
    """One `key: value` of a file and its line; a list has a line for each item in *lines*."""

    key: str
    value: Any
    line: int
    lines: tuple[int, ...] = ()


def read(path: Path, what: str) -> str:
    """Return the text of the file *path*; raise GptreplError, saying *what* it is, if it fails."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise GptreplError(f"{path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GptreplError(f"cannot read {what} {path}: {reason}") from None


def entries(text: str, path: Path, what: str) -> list[Entry]:
    """Return the entries of a mapping, repeated ones too; an empty file has none.

    Raises GptreplError, as `file:line: ...`, for what is no mapping of words to values; *what*
    says in it what the file should be.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise GptreplError(f"{path}:{line}: {problem}") from None
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise GptreplError(f"{path}:1: {what} is a list of `name: value` lines")
    return list(Reader(path).pairs(node))


class Reader:
    """Turns the nodes of one file into plain data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: set[int] = set()

    def pairs(self, node: yaml.MappingNode, depth: int = 1) -> Iterator[Entry]:
        """Yield each entry of a mapping; inside of another one a repeated key is an error."""
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.fault(key_node, "a key is a word")
            key = str(key_node.value)
            if depth > 1 and key in seen:
                raise self.fault(key_node, f"{key}: it is set twice, first in line {seen[key]}")
            seen[key] = line
            yield Entry(key, self.plain(value_node, depth), line, lines_of(value_node))

    def plain(self, node: yaml.Node, depth: int) -> Any:
        """Return a node as text, None, list or dict; numbers stay as they were written."""
        if depth > DEEPEST:
            raise self.fault(node, "it is nested too deeply")
        if id(node) in self._seen:  # aliases of aliases can be made to fill the memory
            raise self.fault(node, "aliases (*) are not read: write the value out")
        self._seen.add(id(node))
        if not node.tag.startswith(TAGS) or node.tag.startswith(CODE):
            raise self.fault(node, "tags (!) are not read: write the value alone")
        if isinstance(node, yaml.MappingNode):
            return {entry.key: entry.value for entry in self.pairs(node, depth + 1)}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, depth + 1) for item in node.value]
        written = str(node.value)
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return None if is_plain and written.lower() in NOTHING else written

    def fault(self, node: yaml.Node, problem: str) -> GptreplError:
        """Return the error that *node* has *problem*."""
        return GptreplError(f"{self.path}:{node.start_mark.line + 1}: {problem}")


def lines_of(node: yaml.Node) -> tuple[int, ...]:
    """Return the line of each item of a list, or of each line of a block of text."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(item.start_mark.line + 1 for item in node.value)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        first = node.start_mark.line + 2
        return tuple(range(first, first + len(node.value.splitlines())))
    return ()


def commands(entry: Entry, path: Path) -> tuple[Line, ...]:
    """Return the lines to run that an entry holds: a list of texts, or a text of several lines."""
    value = entry.value.splitlines() if isinstance(entry.value, str) else entry.value or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise GptreplError(
            f"{path}:{entry.line}: {entry.key}: it is a list of lines, each as it would be typed"
        )
    places = entry.lines if len(entry.lines) == len(value) else (entry.line,) * len(value)
    return tuple(Line(text, f"{path}:{line}") for text, line in zip(value, places, strict=True))


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write *content* to *path*: the whole file changes at once, or stays as it was.

    Raises GptreplError where it cannot be written.
    """
    put(path, "".join(dumped(key, value) for key, value in content.items()))


def put(path: Path, text: str) -> None:
    """Write *text* to *path*: the whole file changes at once, or stays as it was.

    Raises GptreplError where it cannot be written.
    """
    path = path.resolve()  # so that a link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GptreplError(f"cannot write {path}: {reason}") from None


class Dumper(yaml.SafeDumper):
    """Writes a text with line breaks in double quotes, where nothing in it is a break of YAML's."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text."""
        style = '"' if len(data.splitlines()) > 1 or not data.isprintable() else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


Dumper.add_representer(str, Dumper.represent_str)


def dumped(key: str, value: Any) -> str:
    """Return one entry as YAML: lists of lines one below the other, other values on one line."""
    is_lines = not isinstance(value, list | dict) or key == "commands"
    style = False if is_lines else None
    return yaml.dump(
        {key: value}, Dumper=Dumper, allow_unicode=True, width=1000, default_flow_style=style
    )


def replace(path: Path, content: bytes) -> None:
    """Put *content* in the place of the file *path* in one step."""
    with tempfile.NamedTemporaryFile(
        prefix=f".{path.name}.", dir=path.parent, delete=False
    ) as file:
        made = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            made.chmod(READABLE & ~mask)
            file.close()
            made.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                made.unlink()
            raise
