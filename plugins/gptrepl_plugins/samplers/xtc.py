"""XTC sometimes removes the likely tokens instead of the unlikely ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor


@dataclass(frozen=True)
class XTC:
    """Now and then exclude the top choices, all but the least likely of them.

    With the given probability, one draw a token: of the tokens with p >= threshold, if there
    are two or more, only the least likely stays, and with it all the others below. Weidmann
    2024 (text-generation-webui, pull request 6335). 0 <= probability <= 1; off at 0.

    No token is spared: text-generation-webui and mlx-lm exempt the newline and the end of text.
    Of tokens tied as the least likely all stay. Called without `begin` it excludes every time.
    """

    probability: float = knob(0.0, help="how often it strikes; 0 is off", ge=0, le=1)
    threshold: float = knob(0.1, help="the least probability of a top choice", ge=0, le=1)

    stage: ClassVar[Stage] = "selection"
    rank: ClassVar[int] = 10

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is excluded, or an empty string."""
        return "no two tokens can both be likelier than 0.5" if self.threshold > 0.5 else ""

    def begin(self, generator: Generator) -> XTCDraws:
        """Return the sampler for one sample, which draws from *generator*."""
        return XTCDraws(self, generator)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits without the top choices."""
        if self.probability == 0:
            return logits
        probabilities = logits.softmax(-1)
        top = probabilities[(probabilities >= self.threshold) & (logits > float("-inf"))]
        if len(top) < 2:
            return logits
        return logits.masked_fill(probabilities > top.min(), float("-inf"))


@dataclass(frozen=True)
class XTCDraws:
    """XTC during one sample: each call draws one number, whether there is a choice or not."""

    settings: XTC
    generator: Generator

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits, without the top choices if the draw says so."""
        if self.settings.probability == 0:
            return logits
        import torch

        drawn = torch.rand((), generator=self.generator, device=self.generator.device)
        return self.settings(logits, ids) if drawn < self.settings.probability else logits
