"""The penalties on tokens that have already been seen."""

# ruff: noqa: ARG002 - one signature for every sampler

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.window import recent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class RepetitionPenalty:
    """Make every token already seen less likely, once, however often it was seen.

    z' = z / r where z > 0, else z * r. Keskar et al. 2019 (CTRL), arXiv 1909.05858. r > 0;
    off at 1; below 1 repetition is favoured.

    The window is the whole row, prompt included, as in transformers; llama.cpp and Ollama look
    at the last 64 tokens, mlx-lm at the last 20.
    """

    penalty: float = knob(1.0, help="above 1 a token seen before is less likely", gt=0)
    window: int | Literal["off", "all"] = knob(
        "all", help="how many of the last tokens count: off, all or N", ge=1
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 10
    aliases: ClassVar[tuple[str, ...]] = ("penalty",)

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is penalised, or an empty string."""
        return "its window is off" if self.window == "off" else ""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those of the seen tokens scaled."""
        if self.penalty == 1:
            return logits
        seen = [token for token in set(recent(ids, self.window)) if token < len(logits)]
        penalised = logits.clone()
        old = logits[seen]
        penalised[seen] = (old / self.penalty).where(old > 0, old * self.penalty)
        return penalised
