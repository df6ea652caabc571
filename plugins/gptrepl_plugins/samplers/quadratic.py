"""Quadratic sampling bends the logits, with the largest as the fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class Quadratic:
    """Even out the likely tokens and push the unlikely ones away (smoothing).

    With d = z - max(z), k = (3 - c) / 2 and s = (c - 1) / 2: z' = max(z) - k f d^2 + s f d^3.
    Kalomaze 2024 (text-generation-webui). 0 <= f <= 100; off at 0. 1 <= c <= 3.

    A curve c above 1 makes the fall steeper; 3 is the pure cube.
    """

    factor: float = knob(0.0, help="how steeply the logits fall; 0 is off", ge=0, le=100)
    curve: float = knob(1.0, help="the shape of the fall: 1 a parabola, 3 a cube", ge=1, le=3)

    stage: ClassVar[Stage] = "temperature"
    rank: ClassVar[int] = 30
    aliases: ClassVar[tuple[str, ...]] = ("smoothing",)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the bent logits."""
        if self.factor == 0:
            return logits
        best = logits.max()
        below = logits - best
        bend = (3 - self.curve) / 2 - (self.curve - 1) / 2 * below
        bent = best - self.factor * below.square() * bend
        return bent.masked_fill(below == float("-inf"), float("-inf"))
