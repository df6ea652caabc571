"""Kernels in fewer bits: each is nearly the linear layer; one that is missing is done without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gptrepl_plugins.models import kernels, precisions


@pytest.fixture(autouse=True)
def _kernels_are_found_anew() -> Iterator[None]:
    yield
    precisions.quick.cache_clear()


@torch.no_grad()
@pytest.mark.parametrize("kind", [precisions.Int8, precisions.DynamicInt8])
@pytest.mark.parametrize("narrow", [False, True])
def test_positions_are_rounded_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, kind: type[precisions.DynamicInt8], narrow: bool
) -> None:
    monkeypatch.setattr(precisions.EightBits, "narrow", narrow)
    monkeypatch.setattr(precisions, "QUICK", {"int8": (kind, precisions.DynamicInt8)})
    precisions.quick.cache_clear()
    torch.manual_seed(5)
    for inputs, outputs, has_bias in ((64, 48, True), (100, 17, False), (768, 96, True)):
        call = precisions.pack(nn.Linear(inputs, outputs, bias=has_bias), "int8")
        assert type(call) is (precisions.DynamicInt8 if narrow else kind)
        x = torch.randn(12, inputs) * torch.logspace(-3, 3, 12)[:, None]
        x[3], x[4], x[5] = 0.0, x[4].abs(), F.gelu(x[5])
        alone = torch.cat([call(row[None]) for row in x])
        error = (call(x) - alone).norm(dim=1) / alone.norm(dim=1).clamp(min=1e-6)
        assert float(error.max()) < 1e-5


@torch.no_grad()
def test_odd_shapes_are_packed_too() -> None:
    for shape in ((17, 40), (65, 32), (3, 8)):
        torch.manual_seed(1)
        layer = nn.Linear(shape[1], shape[0])
        x = torch.randn(2, shape[1])
        for precision in precisions.QUICK:
            error = (precisions.pack(layer, precision)(x) - layer(x)).norm() / layer(x).norm()
            assert float(error) < 0.15


@torch.no_grad()
def test_a_weight_of_zeros_stays_one() -> None:
    layer = nn.Linear(64, 32)
    nn.init.zeros_(layer.weight)
    for precision in precisions.QUICK:
        y = precisions.pack(layer, precision)(torch.ones(1, 64))
        torch.testing.assert_close(y[0], layer.bias, rtol=0.02, atol=0.02)


def test_a_kernel_that_is_missing_or_wrong_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(weight: Tensor, bias: Tensor | None) -> kernels.Linear:
        raise ZeroDivisionError

    def missing(weight: Tensor, bias: Tensor | None) -> kernels.Linear:
        raise NotImplementedError

    right = precisions.BFloat16
    kinds = {"bf16": (broken,), "int8": (missing, kernels.Transposed, right), "int4": (missing,)}
    monkeypatch.setattr(precisions, "QUICK", kinds)
    find = precisions.quick.__wrapped__
    assert find("int4") is None
    assert find("int8") is kernels.Transposed
    monkeypatch.setattr(kernels.Transposed, "__call__", lambda self, x: x)
    assert find("int8") is right
    with pytest.raises(ZeroDivisionError):  # a fault of ours is no missing kernel
        find("bf16")
