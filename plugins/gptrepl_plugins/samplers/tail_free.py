"""Tail-free sampling ends the list where the curve of the probabilities becomes flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import ascending, count_below, not_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class TailFree:
    """Remove the tail of unlikely tokens that begins where their probabilities level off.

    Over the probabilities in descending order, d = |second difference| / its sum; tokens stay
    while the sum of d is <= z. Bricken 2019 (trentonbricken.com). 0 <= z <= 1; off at 1.

    The first difference belongs to the second token: the first always stays, the last never,
    unless it is tied with one that does. Equally likely tokens have no tail. Removed tokens do
    not count.
    """

    tail_free: float = knob(1.0, help="the share of the curvature that stays", ge=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 80
    aliases: ClassVar[tuple[str, ...]] = ("tfs",)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the tail removed."""
        if self.tail_free == 1:
            return logits
        ranked = ascending(logits)
        ranked = ranked[int((ranked == float("-inf")).sum()) :].flip(0)
        curve = ranked.double().softmax(-1).diff().diff().abs()
        total = float(curve.sum())
        if total == 0:
            return logits
        stay = count_below(curve.cumsum(-1), self.tail_free * total, inclusive=True)
        return not_below(logits, ranked[stay])
