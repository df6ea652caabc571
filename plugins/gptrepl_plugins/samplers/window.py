"""The window is the part of a row that a penalty looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

Window = int | Literal["off", "all"]
"""The last so many ids, none of them, or the whole row, prompt included."""


def recent(ids: Sequence[int], window: Window) -> Sequence[int]:
    """Return the ids within the window, oldest first."""
    if window == "all":
        return ids
    if window == "off":
        return ()
    return ids[max(0, len(ids) - window) :]


def places(ids: list[int], token: int) -> Iterator[int]:
    """Yield the places in *ids* where *token* stands, first to last."""
    place = -1
    for _ in range(ids.count(token)):
        place = ids.index(token, place + 1)
        yield place
