"""Rows under one chain, drawn together: what is done row by row otherwise is done once for all.

Each row gets, bit for bit, what it gets alone. Where something is wrong nothing is drawn here,
and the rows are drawn one by one, which tells whose fault it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .api import GptreplError
from .draw import draw_all
from .rows import Pick, Row, broken, measures

if TYPE_CHECKING:
    from torch import Tensor


def can_share(rows: Sequence[Row]) -> bool:
    """Return whether all *rows* have one chain, and each sampler of it takes several at once."""
    if len(rows) < 2 or any(row.greedy or row.chain != rows[0].chain for row in rows):
        return False
    return all(getattr(sampler, "rowwise", False) for _, sampler in rows[0].chain)


def picks(
    logits: Tensor,
    rows: Sequence[Row],
    alive: Sequence[int],
    known: int | None,
    *,
    measure: bool = False,
) -> Iterator[Pick] | None:
    """Return the picks of the rows that are *alive*, from their *logits*, (rows, vocab_size).

    None: nothing was drawn, because some row has nothing finite to draw from.
    """
    left = remaining(logits, rows[alive[0]], known)
    if left is None or not all(map(math.isfinite, left.amax(-1).tolist())):
        return None
    tokens = draw_all(left, [rows[index].generator for index in alive])
    logprobs = logits.log_softmax(-1).gather(1, tokens[:, None]).squeeze(1).tolist()
    if not all(map(math.isfinite, logprobs)):
        raise GptreplError(broken(logits))
    measured: list[tuple[float, int] | tuple[()]] = [()] * len(alive)
    if measure:
        measured = [measures(*pair) for pair in zip(logits, left, strict=True)]
    found = zip(alive, tokens.tolist(), logprobs, measured, strict=True)
    return _append(rows, [Pick(*own, *more) for *own, more in found])


def _append(rows: Sequence[Row], found: Iterable[Pick]) -> Iterator[Pick]:
    for pick in found:
        rows[pick.row].ids.append(pick.token)
        yield pick


def remaining(logits: Tensor, row: Row, known: int | None) -> Tensor | None:
    """Return what the chain of *row* leaves of all *logits*; None where a sampler misbehaves."""
    left = logits
    for _, sampler in row.chain:
        try:
            left = sampler(left, ())
        except (Exception, SystemExit):
            return None
        if (left.shape, left.dtype) != (logits.shape, logits.dtype):
            return None
    if known is not None and known < logits.shape[1]:
        left = left.clone()
        left[:, known:] = -float("inf")
    return left
