"""Dynamic temperature follows the entropy of the distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.entropy import entropy
from gptrepl_plugins.samplers.temperature import Temperature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class DynamicTemperature:
    """Use a low temperature where the model is sure and a high one where it is not.

    T = low + (high - low) * (H / ln n)^e with low = max(0, t - r), high = t + r, H the entropy
    and n the number of tokens left; then z' = z / T. Zhu et al. 2023, arXiv 2309.02772. All from 0
    to 100; off at r = 0.

    It takes the place of the plain temperature: with both on, the logits are divided twice.
    Where T is 0 the most likely token is taken.
    """

    range: float = knob(
        0.0, help="how far the temperature goes up and down; 0 is off", ge=0, le=100
    )
    exponent: float = knob(1.0, help="above 1 the temperature stays low for longer", ge=0, le=100)
    temperature: float = knob(1.0, help="the temperature in the middle", ge=0, le=100)

    stage: ClassVar[Stage] = "temperature"
    rank: ClassVar[int] = 20
    aliases: ClassVar[tuple[str, ...]] = ("dynatemp",)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits divided by the temperature that their entropy asks for."""
        if self.range == 0:
            return logits
        count = int((logits > float("-inf")).sum())
        if count < 2:
            return logits
        unsure = min(1.0, max(0.0, float(entropy(logits)) / math.log(count)))
        low = max(0.0, self.temperature - self.range)
        high = self.temperature + self.range
        return Temperature(low + (high - low) * unsure**self.exponent)(logits, ids)
