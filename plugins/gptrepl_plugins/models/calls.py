"""The weights of a GPT as the calls that a pass makes on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from gptrepl_plugins.models import kernels
from gptrepl_plugins.models.kernels import Linear

if TYPE_CHECKING:
    from torch import nn

    from gptrepl_plugins.models.modules import Block

CUT = 4096
"""Up to so many rows of an embedding are kept apart."""

Affine = tuple[Tensor, Tensor | None]
"""A weight and its bias, which may be absent."""


class Weights(NamedTuple):
    """The weights of one block, and what its attention scores are multiplied by."""

    ln_1: Affine
    qkv: Linear
    out: Linear
    ln_2: Affine
    up: Linear
    down: Linear
    scale: float | None

    def packed(self) -> Weights:
        """Return the same with large weights packed for several positions."""
        of = kernels.Packed.of
        return self._replace(qkv=of(self.qkv), out=of(self.out), up=of(self.up), down=of(self.down))


class Layers(NamedTuple):
    """The blocks and the head, by the calls that run a pass."""

    blocks: list[Weights]
    head: Linear


def take(block: Block) -> Weights:
    """Return the calls of a block on its weights as they are now."""
    return Weights(
        affine(block.ln_1),
        kernels.linear(block.attn.c_attn),
        kernels.linear(block.attn.c_proj),
        affine(block.ln_2),
        kernels.linear(block.mlp.c_fc),
        kernels.linear(block.mlp.c_proj),
        block.attn.scale,
    )


def affine(module: nn.Module) -> Affine:
    """Return the weight of a norm, and its bias."""
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert bias is None or isinstance(bias, Tensor)
    return weight, bias


def by_row(weight: Tensor) -> Callable[[int], Tensor]:
    """Return what gives one row of *weight*, (1, width); those of a small one are cut at once."""
    if len(weight) <= CUT:
        rows = [weight.narrow(0, row, 1) for row in range(len(weight))]
        return rows.__getitem__
    return lambda row: weight.narrow(0, row, 1)
