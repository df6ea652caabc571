"""The entropy of a row of logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

LOWEST = -3.4028234663852886e38
"""The float32 nearest to -inf."""


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy in nats; removed tokens add nothing to it.

    Operation by operation it is that of torch's Categorical, to the last bit.
    """
    normalised = logits - logits.logsumexp(-1)
    return -(normalised.clamp(min=LOWEST) * normalised.softmax(-1)).sum(-1)
