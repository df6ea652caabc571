"""Epsilon, eta and top-a remove what is less likely than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.entropy import entropy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class Epsilon:
    """Remove the tokens less likely than epsilon.

    A token goes if p < epsilon, unless none is likelier. Hewitt, Manning and Liang 2022,
    arXiv 2210.15191. 0 <= epsilon < 1; off at 0. The paper uses 3e-4 to 9e-4.
    """

    epsilon: float = knob(0.0, help="the least probability that stays", ge=0, lt=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 60
    min_tokens_to_keep: ClassVar[int] = 1
    """So many of the most likely tokens, and those tied with them, stay in any case."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those below the bound removed."""
        if self.epsilon == 0:
            return logits
        gone = logits.softmax(-1) < self.epsilon
        return _without(logits, gone, self.min_tokens_to_keep)


@dataclass(frozen=True)
class Eta:
    """Remove the tokens less likely than a bound that falls where many tokens are possible.

    A token goes if p < min(epsilon, sqrt(epsilon) * exp(-H)), H the entropy, unless none is
    likelier. Hewitt, Manning and Liang 2022, arXiv 2210.15191. 0 <= epsilon < 1; off at 0. The
    paper uses 3e-4 to 4e-3.
    """

    eta: float = knob(0.0, help="the epsilon of which the bound is made", ge=0, lt=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 70
    min_tokens_to_keep: ClassVar[int] = 1
    """So many of the most likely tokens, and those tied with them, stay in any case."""

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those below the bound removed."""
        if self.eta == 0:
            return logits
        epsilon = logits.new_tensor(self.eta)
        bound = epsilon.minimum(epsilon.sqrt() * (-entropy(logits)).exp())
        return _without(logits, logits.softmax(-1) < bound, self.min_tokens_to_keep)


@dataclass(frozen=True)
class TopA:
    """Remove the tokens less likely than a times the square of the largest probability.

    A token goes if p < a * max(p)^2, so that little is removed where no token stands out.
    BlinkDL and KoboldAI 2022. 0 <= a <= 1; off at 0.
    """

    top_a: float = knob(0.0, help="the bound, as a share of the largest squared", ge=0, le=1)

    stage: ClassVar[Stage] = "truncation"
    rank: ClassVar[int] = 90

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those below the bound removed."""
        if self.top_a == 0:
            return logits
        probabilities = logits.softmax(-1)
        bound = self.top_a * probabilities.max() ** 2
        return logits.masked_fill(probabilities < bound, float("-inf"))


def _without(logits: Tensor, gone: Tensor, keep: int) -> Tensor:
    """Remove what is *gone*, except the *keep* largest and those tied with them."""
    keep = min(keep, len(logits))
    least = logits.max() if keep == 1 else logits.topk(keep).values[-1]
    return logits.masked_fill(gone & (logits < least), float("-inf"))
