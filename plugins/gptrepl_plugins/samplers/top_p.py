"""Top-p keeps a share of the probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import ascending, count_below, not_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class TopP:
    """Keep the most likely tokens that together hold the probability p (nucleus sampling).

    Taken from the most likely down, tokens stay until their probabilities add up to p. In the
    form of transformers, which decides rounding and ties: in ascending order a token goes while
    the sum up to and with it is <= 1 - p. Holtzman et al. 2019, arXiv 1904.09751. 0 <= p <= 1;
    off at 1.

    0 keeps one token; some tools take 0 for off. Of tokens tied at the edge those stay that
    torch sorts last.
    """

    top_p: float = knob(1.0, help="the share of the probability that stays", ge=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 30
    min_tokens_to_keep: ClassVar[int] = 1
    """So many of the most likely tokens stay whatever the share is."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the unlikely rest removed."""
        if self.top_p == 1:
            return logits
        ranked = ascending(logits)
        cumulative = ranked.softmax(-1).cumsum(-1)
        gone = count_below(cumulative, 1 - self.top_p, inclusive=True)
        gone = max(0, min(gone, len(logits) - self.min_tokens_to_keep))
        if gone and ranked[gone - 1] == ranked[gone]:
            return logits.index_fill(0, logits.sort().indices[:gone], float("-inf"))
        return not_below(logits, ranked[gone])
