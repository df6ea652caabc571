"""Temperature divides the logits; nothing is removed unless it is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

SMALLEST = 1e-8
"""Below it a temperature counts as zero."""
TINY = 1e-3
"""Below it a logit may become too large for float32; above it only one beyond 3e35 does."""
LARGEST = 1e38
"""Above it a temperature would not be a number in float32."""


@dataclass(frozen=True)
class Temperature:
    """Flatten (above 1) or sharpen (below 1) the distribution; 0 takes the most likely token.

    z' = z / T. Ackley, Hinton and Sejnowski 1985. T >= 0; off at 1.

    Below 1e-8 it is greedy: only the largest logit stays, the lowest id of equal ones, and no
    random number is drawn. transformers refuses 0 and asks for `do_sample=False`.
    """

    temperature: float = knob(
        1.0, help="divides the logits; 0 always takes the most likely token", ge=0
    )

    stage: ClassVar[Stage] = "temperature"
    rank: ClassVar[int] = 10
    aliases: ClassVar[tuple[str, ...]] = ("temp",)
    rowwise: ClassVar[bool] = True

    @property
    def greedy(self) -> bool:
        """Whether it leaves one token, so that nothing is drawn."""
        return self.temperature < SMALLEST

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return logits / temperature, or the largest logit alone."""
        if self.temperature == 1:
            return logits
        if self.greedy:
            best = logits.argmax(-1, keepdim=True)
            alone = logits.new_full(logits.shape, float("-inf"))
            return alone.scatter_(-1, best, logits.gather(-1, best))
        scaled: Tensor = logits / min(self.temperature, LARGEST)
        if self.temperature < TINY and float(scaled.max()) == float("inf"):
            shifted = (logits - logits.amax(-1, keepdim=True)) / self.temperature
            return shifted.where(scaled.amax(-1, keepdim=True) == float("inf"), scaled)
        return scaled
