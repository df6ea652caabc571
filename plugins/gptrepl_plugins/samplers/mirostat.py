"""Mirostat holds the surprise of the text at a target, by feedback."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.ranking import kth_largest, not_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Generator, Tensor

FITTED = 100
"""So many of the most likely tokens are used to estimate the exponent of Zipf's law."""
LARGEST = 1e30
"""Mu is held within this, so that it stays a number."""
STEPS = [math.log((place + 2) / (place + 1)) for place in range(FITTED - 1)]
"""By how much ln(rank) grows from each of them to the next."""


@dataclass(frozen=True)
class Mirostat:
    """Steer the surprise of the text towards tau bits a token, with a top-k that follows it.

    s estimates the exponent of Zipf's law from the 100 most likely tokens still left,
    s = sum(t b) / sum(t^2), t_i = ln((i + 2) / (i + 1)), b_i = ln(p_i / p_(i+1)), i from 0.
    With e = s - 1 and V the size of the vocabulary k = (e 2^mu / (1 - V^-e))^(1/s), at least 1.
    After each draw mu falls by eta * (surprise - tau), surprise = -log2 p among the tokens that
    stayed; it starts at 2 tau. Basu et al. 2020, arXiv 2007.14966. tau >= 0; off at 0; usual
    is tau 5 with eta 0.1.

    Tokens tied with the k-th stay. Equally likely tokens, of which s says nothing, count 2^mu.
    """

    tau: float = knob(0.0, help="the surprise aimed at, in bits a token; 0 is off", ge=0)
    eta: float = knob(0.1, help="how quickly it corrects itself", ge=0)

    stage: ClassVar[Stage] = "selection"
    rank: ClassVar[int] = 30

    def begin(self, generator: Generator) -> MirostatSteps:
        """Return the sampler for one sample; it draws nothing."""
        return MirostatSteps(self, mu=2 * self.tau)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return what is left for the first token of a sample."""
        return MirostatSteps(self, mu=2 * self.tau)(logits, ids)

    def cut(self, logits: Tensor, mu: float) -> Tensor:
        """Return the logits with all but the k most likely tokens removed."""
        best = logits.topk(min(FITTED, len(logits))).values
        falls = (-best[best > float("-inf")].diff()).tolist()
        if not falls:
            return logits
        log_count = self.log_count(falls, mu, len(logits))
        if log_count >= math.log(len(logits)):
            return logits
        return not_below(logits, kth_largest(logits, max(1, int(math.exp(log_count)))))

    def log_count(self, falls: list[float], mu: float, vocab_size: int) -> float:
        """Return ln k, given how far each logit lies below the one before."""
        steps = STEPS[: len(falls)]
        slope = _dot(steps, falls) / _dot(steps, steps)
        if slope == 0:
            return mu * math.log(2)
        excess = slope - 1
        spread = math.log(vocab_size)
        if excess:
            spread = -math.expm1(-excess * spread) / excess
        return (mu * math.log(2) - math.log(spread)) / slope


@dataclass(frozen=True)
class Mirostat2(Mirostat):
    """Steer the surprise of the text towards tau bits a token by removing what exceeds mu.

    A token goes if -log2 p > mu, except the most likely. After each draw mu falls by
    eta * (surprise - tau), surprise = -log2 p among the tokens that stayed; it starts at 2 tau.
    Basu et al. 2020, arXiv 2007.14966. tau >= 0; off at 0; usual is tau 5 with eta 0.1.
    """

    rank: ClassVar[int] = 40

    def cut(self, logits: Tensor, mu: float) -> Tensor:
        """Return the logits with the tokens that surprise by more than *mu* bits removed."""
        bits = logits.log_softmax(-1) / -math.log(2)
        return logits.masked_fill((bits > mu) & (logits < logits.max()), float("-inf"))


@dataclass
class MirostatSteps:
    """Mirostat during one sample: it learns from the last id of the row which token was drawn."""

    settings: Mirostat
    mu: float
    left: Tensor | None = None
    length: int = 0

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return what mu leaves of the logits, after it was corrected for the last token."""
        if self.settings.tau == 0:
            return logits
        if self.left is not None and len(ids) == self.length + 1:
            surprise = float(self.left.logsumexp(-1) - self.left[ids[-1]]) / math.log(2)
            if math.isfinite(surprise):
                mu = self.mu - self.settings.eta * (surprise - self.settings.tau)
                self.mu = max(-LARGEST, min(LARGEST, mu))
        self.left, self.length = self.settings.cut(logits, self.mu), len(ids)
        return self.left


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
