"""The activations of a GPT, and the exact GELU of a small tensor without what oneDNN adds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": F.relu,
    "silu": F.silu,
}
"""The activations known, by the names Hugging Face configurations give them."""

_switched = False  # whether oneDNN is off only until a call below has ended


def brisk_gelu(x: Tensor) -> Tensor:
    """Return the exact GELU of a small *x*, without the five microseconds that oneDNN adds.

    A call that is interrupted may leave oneDNN off; the next one sets that right.
    """
    global _switched
    if not torch.backends.mkldnn.enabled and not _switched:
        return F.gelu(x)
    _switched = True
    try:
        torch._C._set_mkldnn_enabled(False)
        return F.gelu(x)
    finally:
        torch._C._set_mkldnn_enabled(True)
        _switched = False
