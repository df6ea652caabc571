"""Removing tokens by id, but never the last ones left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def without(logits: Tensor, tokens: Sequence[int] | Tensor) -> Tensor:
    """Return the logits with *tokens* removed; unchanged where that would leave none."""
    if len(tokens) == 0:
        return logits
    import torch

    places = torch.as_tensor(tokens, dtype=torch.long, device=logits.device)
    left = logits.index_fill(0, places[places < len(logits)], float("-inf"))
    return logits if left.max() == float("-inf") else left
