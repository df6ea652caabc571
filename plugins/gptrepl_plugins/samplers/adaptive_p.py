"""Adaptive-p draws tokens of about a given probability, and corrects for those it drew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor

WIDTH = 0.3
"""The distance from the target that counts as one."""
PEAK = 5.0
"""The logit of a token whose probability is the target."""
SHARPNESS = 10.0
"""How steeply the logits fall with the distance."""


@dataclass(frozen=True)
class AdaptiveP:
    """Prefer tokens whose probability is near a target that keeps the average there.

    z' = 5 - 10 d^2 / (1 + d), d = |p - a| / 0.3. The adapted target is a = 2 t - m, held within
    0 and 1, where m is the moving average of the probabilities p that the drawn tokens had
    before this step; it starts at t: m' = decay * m + (1 - decay) * p. MrJackSpade 2025
    (llama.cpp, pull request 17927). 0 <= t <= 1; off at 0, where llama.cpp takes any negative
    number. 0 <= decay <= 0.99.

    It replaces the logits, so it has to be the last in the chain; removed tokens stay removed.
    """

    target: float = knob(0.0, help="the probability aimed at; 0 is off", ge=0, le=1)
    decay: float = knob(0.9, help="how long drawn tokens are remembered", ge=0, le=0.99)

    stage: ClassVar[Stage] = "selection"
    rank: ClassVar[int] = 20

    def begin(self, generator: Generator) -> AdaptivePSteps:
        """Return the sampler for one sample; it draws nothing."""
        return AdaptivePSteps(self, average=self.target)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits for the first token of a sample."""
        return AdaptivePSteps(self, average=self.target)(logits, ids)


@dataclass
class AdaptivePSteps:
    """Adaptive-p during one sample: it learns from the last id of the row what was drawn."""

    settings: AdaptiveP
    average: float
    probabilities: Tensor | None = None
    length: int = 0

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits that prefer what is near the adapted target."""
        target, decay = self.settings.target, self.settings.decay
        if target == 0:
            return logits
        if self.probabilities is not None and len(ids) == self.length + 1:
            drawn = float(self.probabilities[ids[-1]])
            self.average = decay * self.average + (1 - decay) * drawn
        self.probabilities, self.length = logits.softmax(-1), len(ids)
        adapted = min(1.0, max(0.0, 2 * target - self.average))
        distances = (self.probabilities - adapted).abs() / WIDTH
        chosen = PEAK - SHARPNESS * distances.square() / (1 + distances)
        return chosen.masked_fill(logits == float("-inf"), float("-inf"))
