"""The penalties on tokens that have already been seen."""

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
        seen, _ = counts(logits, recent(ids, self.window))
        old = logits.index_select(0, seen)
        new = (old / self.penalty).where(old > 0, old * self.penalty)
        new = new.nan_to_num().where(old > float("-inf"), old)  # a penalty near 0 or endless
        return logits.index_copy(0, seen, new)


@dataclass(frozen=True)
class PresencePenalty:
    """Make every token already seen less likely by the same amount, however often it was seen.

    z' = z - a where the token is within the window. OpenAI's API, which takes -2 to 2. Between
    -100 and 100; off at 0; below 0 repetition is favoured.

    The window is the whole row, prompt included; OpenAI's API and vLLM leave the prompt out.
    """

    penalty: float = knob(0.0, help="what a token seen before loses; 0 is off", ge=-100, le=100)
    window: int | Literal["off", "all"] = knob(
        "all", help="how many of the last tokens count: off, all or N", ge=1
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 20
    aliases: ClassVar[tuple[str, ...]] = ("presence",)

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is penalised, or an empty string."""
        return "its window is off" if self.window == "off" else ""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those of the seen tokens lowered."""
        if self.penalty == 0:
            return logits
        seen, _ = counts(logits, recent(ids, self.window))
        return logits.index_copy(0, seen, logits.index_select(0, seen) - self.penalty)


@dataclass(frozen=True)
class FrequencyPenalty:
    """Make every token less likely by an amount for each time it was seen.

    z' = z - count * f, the count taken within the window. OpenAI's API, which takes -2 to 2.
    Between -100 and 100; off at 0; below 0 repetition is favoured.

    The window is the whole row, prompt included; OpenAI's API and vLLM leave the prompt out.
    """

    penalty: float = knob(
        0.0, help="what a token loses each time it was seen; 0 is off", ge=-100, le=100
    )
    window: int | Literal["off", "all"] = knob(
        "all", help="how many of the last tokens count: off, all or N", ge=1
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 30
    aliases: ClassVar[tuple[str, ...]] = ("frequency",)

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is penalised, or an empty string."""
        return "its window is off" if self.window == "off" else ""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those of the seen tokens lowered, count by count."""
        if self.penalty == 0:
            return logits
        seen, times = counts(logits, recent(ids, self.window))
        return logits.index_add(0, seen, -self.penalty * times)


def counts(logits: Tensor, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the tokens among *ids* that have a logit, and how often each one is there."""
    import torch

    row = torch.tensor(list(ids), dtype=torch.long, device=logits.device)
    seen, times = torch.unique(row[row < len(logits)], return_counts=True)
    return seen, times
