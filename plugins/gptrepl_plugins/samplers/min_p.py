"""Min-p keeps what is not much less likely than the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class MinP:
    """Keep the tokens at least m times as likely as the most likely one.

    A token stays if p >= m * max(p). Nguyen et al. 2024, arXiv 2407.01082. 0 <= m <= 1; off
    at 0.

    1 keeps the most likely token and those tied with it.
    """

    min_p: float = knob(
        0.0, help="the least probability that stays, as a share of the largest", ge=0, le=1
    )

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 40
    rowwise: ClassVar[bool] = True
    min_tokens_to_keep: ClassVar[int] = 1
    """The most likely tokens that stay however unlikely they are."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those below the bound removed."""
        if self.min_p == 0:
            return logits
        probabilities = logits.softmax(-1)
        gone = probabilities < self.min_p * probabilities.amax(-1, keepdim=True)
        if self.min_tokens_to_keep > 1:
            count = min(self.min_tokens_to_keep, logits.shape[-1])
            gone.scatter_(-1, probabilities.topk(count).indices, False)
        return logits.masked_fill(gone, float("-inf"))
