"""Stop strings: how they are written, and the watch that never shows half of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from .api import GptreplError, Tokenizer
from .values import OFF, quoted, shown

QUOTED = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*,?\s*')


def check(value: Any) -> tuple[str, ...]:
    r"""Return the stop strings that *value* lists.

    A text is one stop string as it stands, unless it is one or several texts in double quotes,
    with JSON's escapes: `"\n\n" "JULIET:"`. The texts of a list stand for themselves.
    """
    if value is None or value is False or (isinstance(value, str) and value.lower() in ("", *OFF)):
        return ()
    listed = read(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(text, str) for text in listed):
        raise GptreplError(f"stop must be a text or a list of texts, not {shown(value)}")
    if "" in listed:
        raise GptreplError('stop has an empty text, which would stop at once: write "off" for none')
    return tuple(dict.fromkeys(listed))


def read(line: str) -> list[str]:
    """Return the texts that *line* holds: those in double quotes, or all of it as it stands."""
    found: list[str] = []
    place = 0
    while match := QUOTED.match(line, place):
        try:
            found.append(json.loads(match[1], strict=False))
        except ValueError:
            raise GptreplError(
                f"stop has an unknown escape in {match[1]}; JSON's are known"
            ) from None
        place = match.end()
    return found if found and place == len(line) else [line]


def written(stops: Sequence[str]) -> str:
    """Return stop strings as they are typed: in double quotes, or `off`."""
    return " ".join(quoted(stop) for stop in stops) or "off"


def ends_of(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids with which a text ends; none where the tokenizer has none."""
    end: int | Iterable[int] | None = getattr(tokenizer, "end", None)
    if end is None:
        return frozenset()
    return frozenset((end,) if isinstance(end, int) else end)


def idle(stops: Sequence[str], stop_at_end: bool, tokenizer: Tokenizer) -> list[str]:
    """Return a line for each stop that this tokenizer can never reach."""
    lines: list[str] = []
    for stop in stops:
        try:
            tokenizer.encode(stop)
        except (GptreplError, UnicodeError):
            lines.append(f"stop {written([stop])} has no effect: the tokenizer cannot write it")
    if stop_at_end and not ends_of(tokenizer):
        lines.append("stop_at_end has no effect: the tokenizer has no token that ends a text")
    return lines


class Watch:
    """Looks for stop strings in a text that comes in pieces.

    What could be the beginning of one is held back until it is decided. The one that is complete
    first counts, and of those complete at once the longest, so that it makes no difference how
    the text is split.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.held = ""
        self.found = ""

    def add(self, piece: str) -> str:
        """Return what *piece* lets go: text that neither is nor could become a stop string."""
        text = self.held + piece
        for end in range(len(self.held) + 1, len(text) + 1) if self.stops else ():
            complete = [stop for stop in self.stops if text.endswith(stop, 0, end)]
            if complete:
                self.found, self.held = max(complete, key=len), ""
                return text[: end - len(self.found)]
        self.held = self._beginning(text)
        return text[: len(text) - len(self.held)]

    def _beginning(self, text: str) -> str:
        """Return the longest end of *text* that a stop string begins with."""
        longest = max(map(len, self.stops), default=1) - 1
        for start in range(max(0, len(text) - longest), len(text)):
            if any(stop.startswith(text[start:]) for stop in self.stops):
                return text[start:]
        return ""
