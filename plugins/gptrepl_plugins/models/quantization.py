"""A GPT in fewer bits: its linear layers packed, its embeddings in bfloat16.

Activations between the layers, norms and attention stay float32. A weight in float32 is let go as
soon as it is packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from gptrepl.api import LoadError
from gptrepl_plugins.models.gpt import GPT
from gptrepl_plugins.models.kernels import Linear
from gptrepl_plugins.models.precisions import EightBits, Portable, pack


class Quantized(nn.Module):
    """A linear layer that holds its weight packed, and nothing else of it."""

    def __init__(self, call: Linear):
        super().__init__()
        self._call = call

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (..., out)."""
        return self._call(x.flatten(0, -2)).view(*x.shape[:-1], -1)

    def kernel(self) -> Linear:
        """Return the call that a decoder makes."""
        return self._call


def quantize(model: GPT, precision: str, note: Callable[[str], None]) -> None:
    """Replace the linear layers of *model* by packed ones, one after the other.

    Raise LoadError where the model is not on the CPU.
    """
    body, device = model.transformer, model.transformer.wpe.weight.device
    if device.type != "cpu":
        raise LoadError(f"quantize {precision} is for the cpu, not {device}: set one of them off")
    before, slow = size_of(model), False
    with torch.no_grad():
        for parent, name in _layers(model):
            is_head = parent is model
            call = pack(
                getattr(parent, name), "int8" if is_head and precision == "int4" else precision
            )
            slow |= isinstance(call, Portable)
            setattr(parent, name, Quantized(call))
        body.wte.weight = nn.Parameter(body.wte.weight.bfloat16(), requires_grad=False)
    model.quantize = precision
    model.eval()
    after = size_of(model)
    note(f"quantize {precision}: {after / 1e6:.0f} MB of weights instead of {before / 1e6:.0f} MB")
    if slow:
        note(f"quantize {precision} saves memory only: this torch has no quick kernel for it here")


def rough_copy(model: GPT) -> list[GPT]:
    """Return a copy of *model* in 4 bits; none if it has few bits itself or is not on the CPU."""
    weight = model.transformer.wpe.weight
    if model.quantize != "off" or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return []
    with torch.device("meta"):
        copy = GPT(model.config)
    copy.load_state_dict(model.state_dict(), assign=True)  # no copy yet: the same memory
    quantize(copy.eval(), "int4", lambda _note: None)
    copy.threads = model.threads
    return [copy]


def size_of(model: nn.Module) -> int:
    """Return how many bytes the weights of *model* take, packed ones included."""
    own = {weight.data_ptr(): weight.nbytes for weight in model.parameters()}
    packed = [part._call for part in model.modules() if isinstance(part, Quantized)]
    return sum(own.values()) + sum(map(_bytes, packed))


def _bytes(call: Linear) -> int:
    if isinstance(call, EightBits):
        return call.nbytes
    tensors = [value for value in vars(call).values() if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in tensors)


def _layers(model: GPT) -> Iterator[tuple[nn.Module, str]]:
    """Yield each linear layer as the module that holds it and its name there."""
    for block in model.transformer.blocks:
        yield from ((block.attn, "c_attn"), (block.attn, "c_proj"))
        yield from ((block.mlp, "c_fc"), (block.mlp, "c_proj"))
    yield model, "lm_head"
