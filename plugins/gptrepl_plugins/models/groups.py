"""Rows that go through a pass together: those of one new id each, and those alike in length."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gptrepl_plugins.models.cache import Index


class Group(NamedTuple):
    """Rows that go through the blocks together; all of them lack equally many ids.

    *ids* is (rows, new). *slots* are where the rows lie in the cache, *at* the index of the new
    places there, *places* the same as positions; *length* is that of the longest row. *mask* says
    which places each new id sees; None: all, or all before it when *causal*.
    """

    ids: Tensor
    slots: Index
    at: tuple[Index, Index]
    places: Index
    length: int
    mask: Tensor | None
    causal: bool


def of(rows: list[list[int]], known: list[int], device: torch.device) -> list[Group]:
    """Put together the rows of one new id each, and those that lack the same places."""
    alike: dict[tuple[int, int], list[int]] = {}
    for slot, (row, start) in enumerate(zip(rows, known, strict=True)):
        new = len(row) - start
        alike.setdefault((start if new > 1 else -1, new), []).append(slot)
    groups = []
    for (_, new), slots in alike.items():
        starts = [known[slot] for slot in slots]
        ids = torch.tensor([rows[slot][known[slot] :] for slot in slots], device=device)
        if min(starts) == max(starts):
            groups.append(_even(ids, _index(slots, device), starts[0], new))
        else:
            groups.append(_ragged(ids, slots, starts))
    return groups


def _even(ids: Tensor, slots: Index, start: int, new: int) -> Group:
    """Return the group of rows whose new ids all begin at place *start*."""
    places, length = slice(start, start + new), start + new
    mask = None
    if start and new > 1:
        seen = torch.arange(length, device=ids.device)
        mask = seen <= seen[places, None]
    return Group(ids, slots, (slots, places), places, length, mask, not start and new > 1)


def _ragged(ids: Tensor, slots: list[int], starts: list[int]) -> Group:
    """Return the group of rows of different lengths, each with one new id."""
    length = max(starts) + 1
    device = ids.device
    places = torch.tensor(starts, device=device)[:, None]
    mask = (torch.arange(length, device=device) <= places)[:, None, None, :]
    at = (torch.tensor(slots, device=device)[:, None], places)
    return Group(ids, _index(slots, device), at, places, length, mask, causal=False)


def _index(slots: list[int], device: torch.device) -> Index:
    """Return *slots* as a slice, which copies nothing, if they stand side by side."""
    if slots[-1] - slots[0] == len(slots) - 1:
        return slice(slots[0], slots[-1] + 1)
    return torch.tensor(slots, device=device)
