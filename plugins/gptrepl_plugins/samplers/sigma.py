"""Top-n-sigma keeps what is not far below the best, in standard deviations of the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import not_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class TopNSigma:
    """Keep the tokens whose logit is at most n standard deviations below the largest.

    A token stays if z >= max(z) - n * sigma(z). Tang et al. 2024, arXiv 2411.07641. n >= 0; off
    at 0. The paper uses 1.

    Sigma is that of the population of tokens still left, as in llama.cpp; other tools divide
    by one token less, or count removed tokens as zeros. Temperature does not change the set,
    which is why it stands before the other truncations.
    """

    top_n_sigma: float = knob(0.0, help="how many deviations below the largest stay", ge=0)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 5

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those far below the largest removed."""
        if self.top_n_sigma == 0:
            return logits
        left = logits[logits > float("-inf")]
        sigma = (left - left.mean()).square().mean().sqrt()
        least = logits.max() - self.top_n_sigma * sigma
        return not_below(logits, least)
