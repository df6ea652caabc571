"""A linear layer as the call that is fastest on this machine, found by a race, once.

Some calls read a weight that lies as (in, out) in memory: a loader asks `lies_by_input` first.
Only `Packed` keeps a second copy of a large weight. All give the numbers of `F.linear` up to
rounding, and one that does not is left out: a torch without it runs everything by `F.linear`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gptrepl_plugins.models import raced

SMALL = 1 << 18
"""A weight of fewer elements costs its overhead, a larger one the reading of it."""
PARTS = 8
"""So many products share the work of one position; more threads than that gain nothing."""
SEVERAL = 8
"""So many positions a weight is packed for, where several come at once."""
_ROUNDS = 5
_ENOUGH = 1 << 26
"""So many bytes of weights do not stay in the caches."""


class Linear(Protocol):
    """A linear layer of a decoder, on inputs of shape (positions, in)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        ...

    def into(self, x: Tensor, room: Tensor) -> None:
        """Write the layer's outputs into *room*, shape (positions, out)."""
        ...

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*, which may be written over."""
        ...


class Plain:
    """`F.linear`, which runs everywhere."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return F.linear(x, self.weight, self.bias)

    def into(self, x: Tensor, room: Tensor) -> None:
        """Write the layer's outputs into *room*, shape (positions, out)."""
        room.copy_(self(x))

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*, which may be written over."""
        return residual + self(x)

    @classmethod
    def fits(cls, outputs: int, inputs: int) -> bool:  # noqa: ARG003 - others depend on them
        """Return whether it can be made of a weight of this shape."""
        return True


class Transposed(Plain):
    """`mm` on a transposed copy, a fifth quicker to call; for small weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight.t().contiguous(), bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        if self.bias is None:
            return torch.mm(x, self.weight)
        return torch.addmm(self.bias, x, self.weight)

    def into(self, x: Tensor, room: Tensor) -> None:
        """Write the layer's outputs into *room*, shape (positions, out)."""
        if self.bias is None:
            torch.mm(x, self.weight, out=room)
        else:
            torch.addmm(self.bias, x, self.weight, out=room)

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return *residual* with the layer's outputs added in place."""
        total = residual.addmm_(x, self.weight)
        return total if self.bias is None else total.add_(self.bias)


class OneDNN(Plain):
    """oneDNN's inner product on the weight as it lies in memory; for one position a gemv."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        return product()(x, self.weight, self.bias, "none", [], "")


class Packed(OneDNN):
    """The same on a copy of the weight in oneDNN's own order: quicker for several positions."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        pack = torch.ops.mkldnn._reorder_linear_weight
        super().__init__(pack(weight.contiguous(), SEVERAL), bias)

    @classmethod
    def of(cls, call: Linear) -> Linear:
        """Return it for the weight of *call*, if that is a large one and this torch can pack it."""
        if not isinstance(call, OneDNN):
            return call
        x = torch.linspace(-1, 1, 2 * call.weight.shape[1]).view(2, -1)
        try:
            packed = cls(call.weight, call.bias)
            fits = torch.allclose(packed(x), call(x), rtol=1e-3, atol=1e-3)
        except (AttributeError, RuntimeError, NotImplementedError):  # a torch without it
            return call
        return packed if fits else call


class _Split(OneDNN):
    """For one position a batch of products on parts of the weight, each by a thread of its own."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape (positions, out)."""
        if len(x) > 1:
            return super().__call__(x)
        y = self._of_one(x)
        return y if self.bias is None else y.add_(self.bias)

    def onto(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the layer's outputs added to *residual*."""
        return self(x).add_(residual)

    def _of_one(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class SplitOutputs(_Split):
    """Each part of the weight, (out, in) in memory, gives some of the outputs."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        self._parts = weight.view(PARTS, -1, weight.shape[1]).transpose(1, 2)

    @classmethod
    def fits(cls, outputs: int, inputs: int) -> bool:  # noqa: ARG003
        """Return whether the outputs fall into equal parts."""
        return outputs % PARTS == 0

    def _of_one(self, x: Tensor) -> Tensor:
        return torch.bmm(x.expand(PARTS, 1, -1), self._parts).view(1, -1)


class SplitInputs(_Split):
    """Each part of the weight, (in, out) in memory, gives what some of the inputs add."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight, bias)
        self._parts = weight.t().view(PARTS, -1, len(weight))

    @classmethod
    def fits(cls, outputs: int, inputs: int) -> bool:  # noqa: ARG003
        """Return whether the inputs fall into equal parts."""
        return inputs % PARTS == 0

    def _of_one(self, x: Tensor) -> Tensor:
        return torch.bmm(x.view(PARTS, 1, -1), self._parts).sum(0)


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
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        return Plain(weight, bias)
    return fastest(weight.shape, by_input=not weight.is_contiguous())(weight, bias)


def lies_by_input(shape: Sequence[int]) -> bool:
    """Return whether a float32 weight of this shape, (out, in), is best (in, out) in memory."""
    return math.prod(shape) >= SMALL and fastest(shape) is SplitInputs


def fastest(shape: Sequence[int], *, by_input: bool | None = None) -> type[Plain]:
    """Return the call that is the fastest on weights of a shape, (out, in).

    *by_input*: of those on a weight that lies so; None: of all of them. Where none fits: `Plain`.
    """
    key = (shape[0], shape[1])
    if key not in _taken:
        _taken[key] = _known(*key)
    taken = _taken[key]
    fit = [lane for lane in taken if by_input is None or lane.by_input == by_input]
    return min(fit, key=taken.__getitem__).kind if fit else Plain


class _Lane(NamedTuple):
    """A call, and whether the weight it reads lies as (in, out) in memory."""

    kind: type[Plain]
    by_input: bool

    @property
    def name(self) -> str:
        """What it is called where its times are kept."""
        return f"{self.kind.__name__}, by {'input' if self.by_input else 'output'}"


_LANES = (
    _Lane(Plain, False),
    _Lane(OneDNN, False),
    _Lane(SplitOutputs, False),
    _Lane(SplitInputs, True),
)
_taken: dict[tuple[int, int], dict[_Lane, float]] = {}


def _known(outputs: int, inputs: int) -> dict[_Lane, float]:
    """Return the seconds that each call takes, as an earlier race or a new one has found."""
    lanes = [lane for lane in _LANES if lane.kind.fits(outputs, inputs) and _works(lane)]
    race = f"{outputs} x {inputs}"
    times = raced.find(race)
    if times.keys() != {lane.name for lane in lanes}:
        times = {lane.name: seconds for lane, seconds in _race(lanes, outputs, inputs).items()}
        raced.keep(race, times)
    return {lane: times[lane.name] for lane in lanes}


def _race(lanes: Sequence[_Lane], outputs: int, inputs: int) -> dict[_Lane, float]:
    """Return the seconds that each call takes for one position, on weights beyond the caches."""
    rows = max(min(outputs, _ENOUGH // (8 * inputs)) // PARTS, 1) * PARTS
    count = max(_ENOUGH // (4 * rows * inputs), 2)
    memory = torch.ones(count * rows * inputs)
    x = torch.ones(1, inputs)
    calls = {}
    for lane in lanes:
        shape = (count, inputs, rows) if lane.by_input else (count, rows, inputs)
        weights = memory.view(shape)
        weights = weights.transpose(1, 2) if lane.by_input else weights
        calls[lane] = [lane.kind(weight, None) for weight in weights]
    taken = dict.fromkeys(calls, math.inf)
    for _ in range(_ROUNDS):
        for lane, own in calls.items():
            began = time.perf_counter()
            for call in own:
                call(x)
            taken[lane] = min(taken[lane], time.perf_counter() - began)
    return taken


@cache
def _works(lane: _Lane) -> bool:
    """Return whether a call exists in this torch, and gives what `F.linear` gives."""
    weight = torch.sin(torch.arange(PARTS * 8 * PARTS * 4.0)).view(PARTS * 8, PARTS * 4)
    x = torch.cos(torch.arange(PARTS * 8.0)).view(2, PARTS * 4)
    laid = weight.t().contiguous().t() if lane.by_input else weight
    try:
        call = lane.kind(laid, None)
        return all(
            torch.allclose(call(x[:rows]), F.linear(x[:rows], weight), rtol=1e-3, atol=1e-3)
            for rows in (1, 2)
        )
    except (AttributeError, RuntimeError, NotImplementedError):  # a torch without it
        return False
