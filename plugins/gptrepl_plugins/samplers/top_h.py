"""Top-H keeps a share of the entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.entropy import entropy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

CANDIDATES = 100
"""So many of the most likely tokens are looked at."""


@dataclass(frozen=True)
class TopH:
    """Keep the most likely tokens that together hold a share of the entropy.

    With p over the 100 most likely tokens and H its entropy, tokens stay from the most likely
    down while the sum of -p ln p is <= h * H; the first always stays. Baghaei Potraghloo et al.
    2025, arXiv 2509.02510. 0 <= h <= 1; off at 0.

    At 1, where transformers has it too, the 100 most likely tokens stay, less a last one
    that rounding may take.
    """

    top_h: float = knob(0.0, help="the share of the entropy that stays; 0 is off", ge=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 10

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with all but the first removed."""
        if self.top_h == 0:
            return logits
        best, places = logits.topk(min(CANDIDATES, len(logits)))
        probabilities = (best - best.logsumexp(-1)).softmax(-1)
        parts = -probabilities * probabilities.log()
        stays = parts.cumsum(-1) <= entropy(best) * self.top_h
        stays[0] = True
        kept = logits.new_full(logits.shape, float("-inf"))
        kept[places[stays]] = best[stays]
        return kept
