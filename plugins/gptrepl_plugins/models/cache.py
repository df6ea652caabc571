"""The keys and values of the rows of the last call, found again by longest common prefix.

At every moment `rows[i]` is what slot i holds: ids whose keys and values are complete in every
layer. Whatever interrupts a pass, what the cache says of itself stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gptrepl_plugins.models.gpt import GPTConfig

Index = slice | Tensor
"""Some slots, or some places in them."""

_VIEWS = 4096  # a small model spends as long on making views as on its products: so many are kept
_SHORT = 128  # for more places attention is up to a third quicker on a cache laid by head
_SMALLEST = 64  # places allocated at first; doubled until the block is reached


class _Layer(NamedTuple):
    """Room in one layer for the keys and values of some places, which one copy writes.

    *room* is (slots, places, parts, head, size), of two parts, or three where queries stand before
    them; *keys* and *values* are views of it by head, (slots, head, places, size).
    """

    room: Tensor
    keys: Tensor
    values: Tensor


class View(NamedTuple):
    """The keys and values of all rows in one layer, as far as some place.

    *slot*, (rows, parts, head, size), is where those of the last place go; *keys* and *values* are
    (rows, head, places, size). Where the slot has queries, it is (rows, parts * n_embd), and
    *queries* are those in it, (rows, head, 1, size).
    """

    slot: Tensor
    keys: Tensor
    values: Tensor
    queries: Tensor | None


class Cache:
    """Room for the keys and values of some rows, none of them longer than block_size."""

    def __init__(self, like: Tensor, config: GPTConfig, *, queries: bool = False):
        """Hold nothing yet; keys and values will have the type and the device of *like*.

        With *queries* there is room for those too, so that one product writes all three: it takes
        half as much memory again, and saves a small model a tenth of its time.
        """
        self.rows: list[list[int]] = []
        self._like = like
        self._config = config
        self._parts = 3 if queries else 2
        self._layers = [self._layer(0, 0) for _ in range(config.n_layer)]
        self._views: dict[int, list[View]] = {}

    def seat(self, rows: Sequence[list[int]], count: int = 1) -> list[int]:
        """Give row i the slot i; return how many ids of each row that slot already holds.

        At least the last *count* ids of each row are left to compute, since their logits are
        wanted. The rows are distinct, and none is shorter than that or longer than block_size.
        """
        if count > 1 or not self._follow(rows):
            self._reseat(rows, count)
        self.grow(max(map(len, rows), default=0))
        return [len(held) for held in self.rows]

    def follows(self, rows: Sequence[list[int]]) -> bool:
        """Return whether *rows*, of one length, are what is held and one id more: a step."""
        return len(set(map(len, rows))) == 1 and self._follow(rows)

    def views(self, place: int) -> list[View]:
        """Return where each layer holds *place* of all rows, and all of them as far as that."""
        found = self._views.get(place)
        if found is None:
            found = self.new_views(place)
            if self._config.block_size * len(found) <= _VIEWS:
                self._views[place] = found
        return found

    def new_views(self, place: int) -> list[View]:
        """Return the same, and remember nothing."""
        found = []
        for layer in self._layers:
            slot, queries = layer.room.select(1, place), None
            if self._parts == 3:
                queries, slot = slot.select(1, 0).unsqueeze(2), slot.view(len(slot), -1)
            keys, values = (held.narrow(2, 0, place + 1) for held in (layer.keys, layer.values))
            found.append(View(slot, keys, values, queries))
        return found

    def keep(self, rows: Sequence[list[int]]) -> None:
        """Note that every slot now holds its whole row."""
        for held, row in zip(self.rows, rows, strict=True):
            held.extend(row[len(held) :])

    def write(self, layer: int, at: tuple[Index, Index], qkv: Tensor) -> None:
        """Store what there is room for of (slots, places, 3 * n_embd) at an index of both."""
        room = self._layers[layer].room
        slots, places, _ = qkv.shape
        room[at] = qkv.view(slots, places, 3, *room.shape[3:])[:, :, -self._parts :]

    def read(self, layer: int, slots: Index, length: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the first *length* places, each (slots, head, length, size)."""
        held = self._layers[layer]
        return held.keys[slots, :, :length], held.values[slots, :, :length]

    def _layer(self, slots: int, places: int) -> _Layer:
        # Zeros: what a mask hides is still multiplied, and chance memory may hold a nan.
        head, size = self._config.n_head, self._config.n_embd // self._config.n_head
        if self._parts == 3 or places <= _SHORT:  # one place lies together, as a product gives it
            room = self._like.new_zeros(slots, places, self._parts, head, size)
        else:  # one head does, as attention reads it
            room = self._like.new_zeros(slots, 2, head, places, size).permute(0, 3, 1, 2, 4)
        heads = room.transpose(1, 3)
        return _Layer(room, heads[:, :, -2], heads[:, :, -1])

    def _follow(self, rows: Sequence[list[int]]) -> bool:
        """Return whether each row is what its slot holds and one id more."""
        return len(rows) == len(self.rows) and all(
            len(row) == len(held) + 1 and row[:-1] == held
            for row, held in zip(rows, self.rows, strict=True)
        )

    def _reseat(self, rows: Sequence[list[int]], count: int) -> None:
        """Bring to slot i the longest prefix of row i that any slot holds."""
        found = [find(self.rows, row, count) for row in rows]
        slots = [slot for slot, _ in found]
        if slots != list(range(len(self.rows))):
            self._move(slots, max((length for _, length in found), default=0))
        self.rows = [row[:length] for row, (_, length) in zip(rows, found, strict=True)]

    def _move(self, slots: list[int], length: int) -> None:
        """Make slot i what slot slots[i] was, as far as *length* places."""
        self.rows = []  # nothing is held until every layer has moved
        self._views.clear()
        index = torch.tensor(slots, device=self._like.device)
        for number, layer in enumerate(self._layers):
            moved = self._layer(len(slots), self._places(length))
            if length:
                moved.room[:, :length] = layer.room[index, :length]
            self._layers[number] = moved

    def grow(self, length: int) -> None:
        """Make room for rows of *length* ids."""
        if self._layers[-1].room.shape[1] >= length:
            return
        self._views.clear()
        for number, layer in enumerate(self._layers):
            slots, places = layer.room.shape[:2]
            if places < length:
                grown = self._layer(slots, self._places(length))
                grown.room[:, :places] = layer.room
                self._layers[number] = grown

    def _places(self, length: int) -> int:
        """Return how many places to allocate for *length* ids."""
        places = _SMALLEST
        while places < length:
            places *= 2
        return min(places, self._config.block_size)


def find(held: Sequence[list[int]], row: list[int], count: int = 1) -> tuple[int, int]:
    """Return (number, length) of the longest prefix of *row* among *held*.

    The last *count* ids of it are left out.
    """
    best, longest = 0, 0
    for number, one in enumerate(held):
        length = min(_shared(one, row), len(row) - count)
        if length > longest:
            best, longest = number, length
    return best, longest


def _shared(one: list[int], other: list[int]) -> int:
    """Return the length of the longest common prefix, by halving, as lists compare quickly."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:  # they agree up to low, and not up to high
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
