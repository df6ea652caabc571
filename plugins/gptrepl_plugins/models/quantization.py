"""Linear layers in fewer bits: each weight is packed once for the kernel that is fastest here.

Activations between the layers, norms and attention stay float32; the embeddings become bfloat16.
A weight in float32 is let go as soon as it is packed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gptrepl.api import LoadError
from gptrepl_plugins.models import kernels
from gptrepl_plugins.models.gpt import GPT
from gptrepl_plugins.models.kernels import Linear

_LEAST_STEP = 6.1e-5  # torch's own
GROUP = 32
"""So many weights of a row share a scale and an offset in int4."""


class _Kernel:
    """A call on packed weights; inputs and outputs are float32."""

    def __call__(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def into(self, x: Tensor, room: Tensor) -> None:
        """Write the layer's outputs into *room*, shape (positions, out)."""
        room.copy_(self(x))

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*."""
        return residual + self(x)


class BFloat16(_Kernel):
    """oneDNN's product of bfloat16 weights, packed, with bfloat16 activations."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        pack = torch.ops.mkldnn._reorder_linear_weight
        self.packed = pack(weight.bfloat16(), 1)
        self.bias = None if bias is None else bias.bfloat16()
        self._product = kernels.product()

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return self._product(x.bfloat16(), self.packed, self.bias, "none", [], "").float()


class Int8(_Kernel):
    """fbgemm's product: a scale for each output, activations rounded to 8 bits as they come.

    The product rounds all that it is given by one scale. So that no position depends on those
    beside it, each is rounded here by the scale that it would have alone.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None):
        scale = weight.abs().amax(1).clamp(min=1e-9) / 127
        zero = torch.zeros(len(scale), dtype=torch.long)
        rounded = _rounded(weight, scale[:, None])
        with warnings.catch_warnings():  # torch means to drop such tensors, and has no other way
            warnings.simplefilter("ignore", UserWarning)
            made = torch._make_per_channel_quantized_tensor(rounded, scale.double(), zero, 0)
            self.packed = torch.ops.quantized.linear_prepack(made, bias)
        # Without these instructions sums of two products overflow unless activations have 7 bits.
        self._narrow = not torch.cpu._is_vnni_supported()
        self._most, self._middle = (127, 64) if self._narrow else (255, 128)
        self._ends = torch.zeros(1, weight.shape[1])
        self._ends[0, 0], self._ends[0, -1] = -self._middle, self._most - self._middle
        sums = rounded.sum(1, dtype=torch.float32) * scale
        self._sums = torch.stack((sums, torch.zeros_like(sums) if bias is None else bias))
        self._product = torch.ops.quantized.linear_dynamic.default

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        if len(x) > 1:
            return self._each(x)
        product: Tensor = self._product(x, self.packed, self._narrow)
        return product

    def _each(self, x: Tensor) -> Tensor:
        """Return the outputs of several positions, each up to rounding what it is alone.

        The product is given whole numbers, with a row behind them that holds the least and the
        most, so that it takes them as they are; step and zero of each position come after it.
        """
        step, zero = _steps(x, self._most)
        numbers = torch.addcmul(zero, x, 1 / step).round_().clamp_(0, self._most)
        whole = torch.cat((numbers.sub_(self._middle), self._ends))
        y: Tensor = self._product(whole, self.packed, self._narrow)[:-1].mul_(step)
        return y.addmm_(torch.cat(((self._middle - zero).mul_(step), 1 - step), 1), self._sums)


class Int4(_Kernel):
    """The product of 4-bit weights in groups with bfloat16 activations."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        numbers, scale, offset = _grouped(weight)
        pack = torch._convert_weight_to_int4pack_for_cpu
        self.packed = pack(numbers.to(torch.int32), 1)
        self.scales = torch.stack((scale, offset), -1).transpose(0, 1).contiguous().bfloat16()
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        product = torch._weight_int4pack_mm_for_cpu
        y: Tensor = product(x.bfloat16(), self.packed, GROUP, self.scales).float()
        return y if self.bias is None else y + self.bias


QUICK: dict[str, Callable[[Tensor, Tensor | None], Linear]] = {
    "bf16": BFloat16,
    "int8": Int8,
    "int4": Int4,
}
"""The kernel of each precision."""


class Portable(_Kernel):
    """Weights in few bits that are made float32 again at each call: small, and slow."""

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: str):
        self.bias = bias
        if precision == "bf16":
            self.numbers, self.scale, self.offset = weight.bfloat16(), None, None
        elif precision == "int8" or weight.shape[1] % GROUP:
            scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127
            self.numbers, self.scale, self.offset = _rounded(weight, scale), scale, None
        else:
            numbers, self.scale, self.offset = _grouped(weight)
            self.numbers = (numbers - 8).to(torch.int8)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return F.linear(x, self.weight(), self.bias)

    def weight(self) -> Tensor:
        """Return the weight as float32, shape (out, in)."""
        weight = self.numbers.float()
        if self.scale is None:
            return weight
        if self.offset is None:
            return weight * self.scale
        groups = weight.view(*self.scale.shape, GROUP)
        return (groups * self.scale[..., None] + self.offset[..., None]).view_as(weight)


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


def pack(linear: nn.Linear, precision: str) -> Linear:
    """Return the call of a linear layer in fewer bits; the portable one where no other works."""
    weight = linear.weight.detach().float()
    bias = None if linear.bias is None else linear.bias.detach().float()
    fits = precision != "int4" or not (weight.shape[1] % GROUP or len(weight) % 16)
    if fits and works(precision):
        return QUICK[precision](weight, bias)
    return Portable(weight, bias, precision)


@cache
def works(precision: str) -> bool:
    """Return whether the quick kernel of a precision exists here and gives what it should."""
    weight = torch.sin(torch.arange(64.0 * 64)).view(64, 64)
    x = torch.linspace(-1, 1, 128).view(2, 64)
    try:
        found = QUICK[precision](weight, None)(x)
    except (AttributeError, RuntimeError, NotImplementedError):  # it, or this machine, lacks it
        return False
    expected = Portable(weight, None, precision)(x)
    return bool((found - expected).norm() < 0.05 * expected.norm())


def size_of(model: nn.Module) -> int:
    """Return how many bytes the weights of *model* take, packed ones included."""
    own = {weight.data_ptr(): weight.nbytes for weight in model.parameters()}
    packed = [part._call for part in model.modules() if isinstance(part, Quantized)]
    return sum(own.values()) + sum(map(_bytes, packed))


def _bytes(call: Linear) -> int:
    if isinstance(call, Int8):
        weight, bias = torch.ops.quantized.linear_unpack(call.packed)
        return int(weight.numel()) + (0 if bias is None else int(bias.nbytes))
    tensors = [value for value in vars(call).values() if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in tensors)


def _layers(model: GPT) -> Iterator[tuple[nn.Module, str]]:
    """Yield each linear layer as the module that holds it and its name there."""
    for block in model.transformer.blocks:
        yield from ((block.attn, "c_attn"), (block.attn, "c_proj"))
        yield from ((block.mlp, "c_fc"), (block.mlp, "c_proj"))
    yield model, "lm_head"


def _rounded(weight: Tensor, scale: Tensor) -> Tensor:
    return (weight / scale).round_().clamp_(-127, 127).to(torch.int8)


def _steps(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the step and the zero, both (rows, 1), by which each row goes into 0 to *most*.

    They are those that torch chooses for a row alone.
    """
    least, largest = torch.aminmax(x, dim=1, keepdim=True)
    low, high = least.double().clamp_(max=0), largest.double().clamp_(min=0)
    step = high.sub_(low).div_(most).clamp_(min=_LEAST_STEP)
    return step.float(), low.div_(step).neg_().round_().float()


def _grouped(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers from 0 to 15, (out, in), and (out, groups) scales and offsets of theirs.

    A weight is (number - 8) * scale + offset; both are rounded to bfloat16 before the numbers
    are chosen, since that is how the kernel reads them.
    """
    groups = weight.reshape(len(weight), -1, GROUP)
    least, most = groups.amin(-1), groups.amax(-1)
    scale = ((most - least) / 15).clamp(min=1e-6).bfloat16().float()
    offset = (least + 8 * scale).bfloat16().float()
    numbers = ((groups - offset[..., None]) / scale[..., None] + 8).round_().clamp_(0, 15)
    return numbers.flatten(1), scale, offset
