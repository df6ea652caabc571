"""Typical sampling keeps what is about as surprising as the distribution is on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import count_below, is_quick, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

ROUNDING = 1.3e-7
"""Sums nearer to each other than that may be equal but for rounding."""


@dataclass(frozen=True)
class Typical:
    """Keep the tokens whose surprise is nearest to the expected one, up to a probability.

    With H the entropy, tokens are taken in the order of |-ln p - H| until their probabilities
    add up to the share; those tied with the last one stay too. Meister et al. 2022,
    arXiv 2202.00666. Above 0, at most 1; off at 1.

    As in transformers the token that reaches the share stays; llama.cpp has it exceeded.
    """

    typical_p: float = knob(1.0, help="the share of the probability that stays", gt=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 50
    aliases: ClassVar[tuple[str, ...]] = ("typical_p",)
    min_tokens_to_keep: ClassVar[int] = 1
    """So many of the most typical tokens stay whatever the share is."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the untypical ones removed."""
        if self.typical_p == 1:
            return logits
        distances = logits.log_softmax(-1).neg_()
        entropy = (distances * (-distances).exp_()).nansum(-1)
        distances.sub_(entropy).abs_()
        ranked, places = nearest(distances)
        last, is_close = self.reach(logits, places)
        if is_close and not is_quick(distances):
            # Equal distances in another order may round the sum to the other side of the share.
            ranked, places = distances.sort()
            last, _ = self.reach(logits, places)
        gone = distances > ranked[last]
        gone[places[: self.min_tokens_to_keep]] = False
        return logits.masked_fill(gone, float("-inf"))

    def reach(self, logits: Tensor, places: Tensor) -> tuple[int, bool]:
        """Return which of the *places* reaches the share, and whether rounding decides it."""
        ordered = logits.new_full(logits.shape, float("-inf"))
        ordered[: len(places)] = logits.index_select(0, places)
        cumulative = ordered.softmax(-1).cumsum(-1)
        last = min(count_below(cumulative, self.typical_p), len(places) - 1)
        around = cumulative[max(0, last - 1) : last + 1]
        return last, bool(((around - self.typical_p).abs() < ROUNDING).any())
