"""Top-p keeps a share of the probability."""

# ruff: noqa: ARG002 - one signature for every sampler

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class TopP:
    """Keep the most likely tokens that together hold the probability p (nucleus sampling).

    Taken from the most likely down, tokens stay until their probabilities add up to p. In the
    form of transformers, which decides ties and rounding: in ascending order a token goes while
    the sum up to and with it is <= 1 - p. Holtzman et al. 2019, arXiv 1904.09751. 0 <= p <= 1;
    off at 1.

    0 keeps one token; some tools take 0 for off.
    """

    top_p: float = knob(1.0, help="the share of the probability that stays", ge=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 30
    min_tokens_to_keep: ClassVar[int] = 1
    """The most likely tokens that stay whatever the share is."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the unlikely rest removed."""
        if self.top_p == 1:
            return logits
        ascending, order = logits.sort()
        gone = ascending.softmax(-1).cumsum(-1) <= 1 - self.top_p
        gone[-self.min_tokens_to_keep :] = False
        return logits.masked_fill(gone.scatter(0, order, gone), float("-inf"))
