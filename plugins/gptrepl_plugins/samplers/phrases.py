r"""Texts within a setting: escapes, and lists with commas between.

An item is bare, `the`, or in double quotes as in JSON, `", \n"`. It may be given a value with an
equals sign.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gptrepl.api import GptreplError

_ITEM = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<bare>[^",=\s](?:[^",=]*[^",=\s])?))'
    r"\s*(?:=\s*(?P<value>[^\",=\s]+)\s*)?(?:,|$)"
)
_ESCAPES = {"n": "\n", "t": "\t", "s": " "}


@dataclass(frozen=True)
class Phrase:
    """One item of a list: its text, whether it was in quotes, and the value it was given."""

    text: str
    quoted: bool
    value: str | None


def phrases(line: str, name: str) -> tuple[Phrase, ...]:
    """Return the items of *line*; raise GptreplError, which calls it *name*, if it is no list."""
    found: list[Phrase] = []
    start, end = 0, len(line.rstrip())
    while start < end:
        match = _ITEM.match(line, start)
        if match is None:
            raise GptreplError(
                f"{name} cannot be read from {line[start:]!r} on: "
                'a text with a comma, a quote or an equals sign goes in double quotes, "a, b"'
            )
        found.append(_phrase(match, name))
        start = match.end()
    return tuple(found)


def _phrase(match: re.Match[str], name: str) -> Phrase:
    quoted = match["quoted"]
    try:
        text = json.loads(quoted) if quoted else match["bare"]
    except ValueError:
        raise GptreplError(f"{name} has an unknown escape in {quoted}; JSON's are known") from None
    if not text:
        raise GptreplError(f"{name} has an empty text")
    return Phrase(text, bool(quoted), match["value"])


def unescaped(text: str) -> str:
    r"""Return *text* with `\n`, `\t` and `\s`, a space, as the characters they stand for."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)
