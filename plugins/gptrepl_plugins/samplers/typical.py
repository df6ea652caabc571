"""Typical sampling keeps what is about as surprising as the distribution is on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


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
        ordered = logits.new_full(logits.shape, float("-inf"))
        ordered[: len(places)] = logits.index_select(0, places)
        cumulative = ordered.softmax(-1).cumsum(-1)
        last = min(int((cumulative < self.typical_p).sum()), len(places) - 1)
        gone = distances > ranked[last]
        gone[places[: self.min_tokens_to_keep]] = False
        return logits.masked_fill(gone, float("-inf"))
