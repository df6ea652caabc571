"""Top-k keeps a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import kth_largest, not_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class TopK:
    """Keep the k most likely tokens.

    A token stays if its logit is not below the k-th largest. Fan, Lewis and Dauphin 2018,
    arXiv 1805.04833. k >= 0; off at 0.

    Tokens tied with the k-th all stay, as in transformers and nanoGPT; llama.cpp keeps exactly
    k. A k above the size of the vocabulary keeps everything.
    """

    top_k: int = knob(0, help="how many of the most likely tokens stay; 0 is off", ge=0)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 20
    rowwise: ClassVar[bool] = True

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is removed, or an empty string."""
        return f"the vocabulary has {vocab_size}" if 0 < vocab_size <= self.top_k else ""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with all below the k-th largest removed."""
        if not 0 < self.top_k < logits.shape[-1]:
            return logits
        return not_below(logits, kth_largest(logits, self.top_k))
