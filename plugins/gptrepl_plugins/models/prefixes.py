"""The keys and values of the rows of the last call, in a cache of transformers.

The rows lie side by side, each padded on the left, so that all of them end in the last column:
that is the layout which `generate` of transformers gives to a batch, and the only one in which a
sliding window is right. What an interrupted pass leaves behind is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gptrepl_plugins.models.cache import find


class Prefixes:
    """What a cache holds of some rows, found again by longest common prefix.

    *make* returns an empty cache. One that is *movable* can be cut and reordered, since it holds
    a key and a value for each id; any other is used again only to append to it.
    """

    def __init__(self, make: Callable[[], Any], *, movable: bool):
        self._make = make
        self.movable = movable
        self.cache: Any = make()
        self._rows: list[list[int]] = []
        self._is_whole = True  # whether every layer holds all of the rows and nothing else

    def seat(self, rows: Sequence[list[int]]) -> int:
        """Leave prefixes of *rows* in the cache; return how many ids of each row have to follow.

        That number is the same for all rows, and 1 or more; a row that is not so long follows as
        a whole. The rows are distinct, and of one length unless the cache is movable.
        """
        if not (self._is_whole and self._follows(rows)):
            found = [find(self._rows, row) if self.movable else (0, 0) for row in rows]
            new = max(len(row) - length for row, (_, length) in zip(rows, found, strict=True))
            self._move([slot for slot, _ in found], rows, new)
        self._is_whole = False
        return max(map(len, rows)) - max(map(len, self._rows))

    def keep(self, rows: Sequence[list[int]]) -> None:
        """Note that the cache now holds all of *rows*."""
        self._rows = [list(row) for row in rows]
        self._is_whole = True

    def _follows(self, rows: Sequence[list[int]]) -> bool:
        """Whether each row is what its slot holds and one id more: a decoding step."""
        return len(rows) == len(self._rows) and all(
            len(row) == len(held) + 1 and row[:-1] == held
            for row, held in zip(rows, self._rows, strict=True)
        )

    def _move(self, slots: list[int], rows: Sequence[list[int]], new: int) -> None:
        """Make slot i all of row i but the last *new* ids, taken from slot slots[i]."""
        kept = [row[: max(len(row) - new, 0)] for row in rows]
        width, held = max(map(len, kept)), self._rows
        self._rows = [[] for _ in rows]  # nothing is held until every layer has moved
        if not width:
            self.cache = self._make()
            return
        end = max(map(len, held))
        # The column that each place of the new layout is taken from; padding takes any.
        columns = [
            [max(end - len(held[slot]) + at - (width - len(row)), 0) for at in range(width)]
            for slot, row in zip(slots, kept, strict=True)
        ]
        for layer in self.cache.layers:
            layer.keys = moved(layer.keys, slots, columns)
            layer.values = moved(layer.values, slots, columns)
        self._rows = kept


def moved(held: Tensor, slots: list[int], columns: list[list[int]]) -> Tensor:
    """Return keys or values, (slots, heads, columns, size), in another order of both."""
    first = columns[0]
    if all(row == first for row in columns) and first == list(range(first[0], first[-1] + 1)):
        cut = held[:, :, first[0] : first[-1] + 1]
        return cut if slots == list(range(len(held))) else cut[slots]
    at = torch.tensor(columns, device=held.device)
    row = torch.tensor(slots, device=held.device)[:, None]
    return held.transpose(1, 2)[row, at].transpose(1, 2)
