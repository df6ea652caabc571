"""Products with weights in fewer bits, each packed once for the kernel that is fastest here.

What goes in and comes out is float32. Some kernels are torch's own affair or on their way out of
it: each is tried before it is used, and where none works the portable one does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gptrepl_plugins.models import kernels
from gptrepl_plugins.models.kernels import Linear

_LEAST_STEP = 6.1e-5  # torch's own
AT_ONCE = 4096
"""So many rows of a weight are rounded at once: a large one would be held thrice otherwise."""
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


class EightBits(_Kernel):
    """fbgemm's product: a scale for each output, activations rounded to 8 bits as they come.

    The product rounds all that it is given by one scale. So that no position depends on those
    beside it, each is rounded here by the scale that it would have alone.
    """

    # Without these instructions sums of two products overflow unless activations have 7 bits.
    narrow = not torch.cpu._is_vnni_supported()

    def __init__(self, weight: Tensor, bias: Tensor | None):
        scale = weight.abs().amax(1).clamp(min=1e-9) / 127
        rounded = _rounded(weight, scale[:, None])
        bias = torch.zeros_like(scale) if bias is None else bias
        self._most, self._middle = (127, 64) if self.narrow else (255, 128)
        self._ends = torch.zeros(1, weight.shape[1])
        self._ends[0, 0], self._ends[0, -1] = -self._middle, self._most - self._middle
        self._sums = torch.stack((_sums(rounded) * scale, bias))
        self._product = self._pack(rounded, scale, bias)
        self.nbytes = rounded.nbytes + scale.nbytes + self._sums.nbytes

    def _pack(self, rounded: Tensor, scale: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the product of some positions with whole numbers times a *scale* for each row."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        if len(x) > 1:
            return self._each(x)
        return self._product(x)

    def _each(self, x: Tensor) -> Tensor:
        """Return the outputs of several positions, each up to rounding what it is alone.

        The product is given whole numbers, with a row behind them that holds the least and the
        most, so that it takes them as they are; step and zero of each position come after it.
        """
        step, zero = _steps(x, self._most)
        numbers = torch.addcmul(zero, x, 1 / step).round_().clamp_(0, self._most)
        whole = torch.cat((numbers.sub_(self._middle), self._ends))
        y = self._product(whole)[:-1].mul_(step)
        return y.addmm_(torch.cat(((self._middle - zero).mul_(step), 1 - step), 1), self._sums)


class Int8(EightBits):
    """The same by torch's older call, which has half as much around it; it knows one scale."""

    def _pack(self, rounded: Tensor, scale: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
        if self.narrow:
            raise NotImplementedError("it always rounds to 8 bits")
        call = torch.fbgemm_linear_int8_weight_fp32_activation
        packed = torch.fbgemm_pack_quantized_matrix(rounded)
        shape = rounded[:1, :1].clone().expand_as(rounded)  # of this argument nothing else counts
        given = shape, packed, _sums(rounded), 1.0, 0, torch.zeros_like(bias)
        return lambda x: torch.addcmul(bias, call(x, *given), scale)


class DynamicInt8(EightBits):
    """The same by the call that torch gives its dynamic quantization."""

    def _pack(self, rounded: Tensor, scale: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
        zero = torch.zeros(len(scale), dtype=torch.long)
        made = torch._make_per_channel_quantized_tensor(rounded, scale.double(), zero, 0)
        packed = torch.ops.quantized.linear_prepack(made, bias)
        call = torch.ops.quantized.linear_dynamic.default
        return lambda x: call(x, packed, self.narrow)


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
        y: Tensor = product(x.bfloat16(), self.packed, GROUP, self.scales)
        return y.float() if self.bias is None else self.bias + y


QUICK: dict[str, tuple[Callable[[Tensor, Tensor | None], Linear], ...]] = {
    "bf16": (BFloat16,),
    "int8": (Int8, DynamicInt8),
    "int4": (Int4,),
}
"""The kernels of each precision, the quickest first."""


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


def pack(linear: nn.Linear, precision: str) -> Linear:
    """Return the call of a linear layer in fewer bits; the portable one where no other works."""
    weight = linear.weight.detach().float()
    bias = None if linear.bias is None else linear.bias.detach().float()
    fits = precision != "int4" or not (weight.shape[1] % GROUP or len(weight) % 16)
    with warnings.catch_warnings():  # torch means to drop some calls, and has no other way yet
        warnings.simplefilter("ignore", UserWarning)
        kernel = quick(precision) if fits else None
        return kernel(weight, bias) if kernel is not None else Portable(weight, bias, precision)


@cache
def quick(precision: str) -> Callable[[Tensor, Tensor | None], Linear] | None:
    """Return the quickest kernel of a precision that exists here and gives what it should."""
    weight = torch.sin(torch.arange(64.0 * 64)).view(64, 64)
    x = torch.linspace(-1, 1, 128).view(2, 64)
    expected = Portable(weight, None, precision)(x)
    for kernel in QUICK[precision]:
        try:
            call = kernel(weight, None)
            found = torch.cat((call(x[:1]), call(x[1:]), call(x)))
        except (AttributeError, RuntimeError, NotImplementedError):  # it, or this machine, lacks it
            continue
        difference = found - torch.cat((expected, expected))
        if difference.norm() < 0.05 * expected.norm():
            return kernel
    return None


def _rounded(weight: Tensor, scale: Tensor) -> Tensor:
    """Return a weight, (out, in), over its *scale*, (out, 1), in whole numbers of 8 bits."""
    rounded = torch.empty_like(weight, dtype=torch.int8)
    for start in range(0, len(weight), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        rounded[rows] = (weight[rows] / scale[rows]).round_().clamp_(-127, 127)
    return rounded


def _sums(rounded: Tensor) -> Tensor:
    """Return the sum of each row of whole numbers, as int32."""
    return torch.cat([part.sum(1, dtype=torch.int32) for part in torch.split(rounded, AT_ONCE)])


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
