"""A linear layer as the call that is fastest on this machine, chosen when a model is first used.

No call keeps a second copy of a large weight. All give the numbers of `F.linear` up to rounding,
and one that does not is left out, so a torch without it runs everything by `F.linear`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

SMALL = 1 << 18
"""A weight of fewer elements costs its overhead, a larger one the reading of it."""
_ROUNDS = 3


class Linear(Protocol):
    """A linear layer of a decoder, on inputs of shape (positions, in)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        ...

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*."""
        ...


class Plain:
    """`F.linear`, which runs everywhere."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return F.linear(x, self.weight, self.bias)

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*."""
        return residual + self(x)


class Transposed(Plain):
    """`mm` on a transposed copy, a fifth quicker to call; for small weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.t().contiguous(), bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        if self.bias is None:
            return torch.mm(x, self.weight)
        return torch.addmm(self.bias, x, self.weight)

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*."""
        if self.bias is None:
            return torch.addmm(residual, x, self.weight)
        return residual + torch.addmm(self.bias, x, self.weight)


class OneDNN(Plain):
    """oneDNN's inner product on the weight as it lies in memory; for one position a gemv."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return product()(x, self.weight, self.bias, "none", [], "")


@cache
def product() -> Callable[..., Tensor]:
    """Return oneDNN's inner product, an operator that torch keeps for its own compiler."""
    found: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise.default
    return found


def linear(module: nn.Module) -> Linear:
    """Return the fastest call of a linear *module* as its weights are now."""
    if not isinstance(module, nn.Linear):
        own: Linear = module.kernel()  # type: ignore[operator,unused-ignore]
        return own
    weight = module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return Plain(weight, bias)
    if weight.numel() < SMALL:
        return Transposed(weight, bias)
    return OneDNN(weight, bias) if _prefers_onednn(weight) else Plain(weight, bias)


_preferred: dict[tuple[int, ...], bool] = {}


def _prefers_onednn(weight: Tensor) -> bool:
    """Return whether oneDNN is the faster on a weight of this shape, by a short race."""
    key = (*weight.shape, torch.get_num_threads())
    if key not in _preferred:
        _preferred[key] = _race(weight)
    return _preferred[key]


def _race(weight: Tensor) -> bool:
    x = torch.ones(1, weight.shape[1])
    plain, other = Plain(weight, None), OneDNN(weight, None)
    try:
        if not torch.allclose(other(x), plain(x), rtol=1e-3, atol=1e-3):
            return False
    except (AttributeError, RuntimeError, NotImplementedError):  # a torch without it
        return False
    taken = {id(plain): [0.0], id(other): [0.0]}
    for _ in range(_ROUNDS):
        for one in (plain, other):
            began = time.perf_counter()
            one(x)
            taken[id(one)].append(time.perf_counter() - began)
    return min(taken[id(other)][1:]) < min(taken[id(plain)][1:])


def brisk_gelu(x: Tensor) -> Tensor:
    """Return the exact GELU of a small *x*, without the five microseconds that oneDNN adds."""
    if not torch.backends.mkldnn.enabled:
        return F.gelu(x)
    torch._C._set_mkldnn_enabled(False)
    try:
        return F.gelu(x)
    finally:
        torch._C._set_mkldnn_enabled(True)
