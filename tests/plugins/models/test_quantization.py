"""Fewer bits give nearly the same logits, by the quick kernels and by the portable one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gptrepl.api import LoadError, LoadOptions
from gptrepl_plugins.models import kernels, nanogpt, quantization
from gptrepl_plugins.models.gpt import GPT, GPTConfig

COST = {"bf16": 1.001, "int8": 1.005, "int4": 1.03}
"""What the perplexity of a small model may be multiplied by."""
ROUNDING = 0.04
"""What a number that falls to the other side of a step may change of a logit."""


def load(golden: Path, precision: str) -> tuple[GPT, list[str]]:
    notes: list[str] = []
    options = LoadOptions(quantize=precision, note=notes.append)
    model, _ = nanogpt.load(str(golden / "nanogpt_char/out/ckpt.pt"), options)
    assert isinstance(model, GPT)
    return model, notes


def perplexity(model: GPT, ids: list[int]) -> float:
    logits = model.positions(ids[:-1], len(ids) - 1)
    return math.exp(float(F.cross_entropy(logits, torch.tensor(ids[1:]))))


@pytest.fixture(autouse=True)
def _kernels_are_found_anew() -> Iterator[None]:
    yield
    quantization.quick.cache_clear()


@pytest.fixture(scope="module")
def exact(golden: Path) -> GPT:
    return load(golden, "off")[0]


@pytest.fixture(scope="module")
def ids(exact: GPT) -> list[int]:
    generator = torch.Generator().manual_seed(2)
    made: list[int] = exact.generate(torch.tensor([[0]]), 64, 1.0, None, generator)[0].tolist()
    return made


@pytest.mark.filterwarnings("ignore:.*tokenizer")
@pytest.mark.parametrize("precision", COST)
@pytest.mark.parametrize("portable", [False, True])
def test_the_perplexity_hardly_changes(
    golden: Path,
    exact: GPT,
    ids: list[int],
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    portable: bool,
) -> None:
    if portable:
        monkeypatch.setattr(quantization, "quick", lambda precision: None)
    model, notes = load(golden, precision)
    assert model.quantize == precision
    assert any(note.startswith(f"quantize {precision}: ") for note in notes)
    assert any("saves memory only" in note for note in notes) >= portable
    assert perplexity(model, ids) < perplexity(exact, ids) * COST[precision]
    assert quantization.size_of(model) < quantization.size_of(exact)


@pytest.mark.parametrize("precision", COST)
def test_no_row_depends_on_those_beside_it_nor_on_what_came_before(
    golden: Path, ids: list[int], precision: str
) -> None:
    model, _ = load(golden, precision)
    rows = [ids[:9], ids[3:30], ids[20:25], ids[:40]]
    together = model.logits(rows)
    for row, own in zip(rows, together, strict=True):
        model.eval()  # nothing is cached
        alone = model.logits([row])[0]
        for length in range(1, len(row) + 1):
            stepped = model.logits([row[:length]])[0]
        torch.testing.assert_close(alone, own, rtol=0, atol=ROUNDING)
        torch.testing.assert_close(alone, stepped, rtol=0, atol=ROUNDING)


@torch.no_grad()
@pytest.mark.parametrize("kind", [quantization.Int8, quantization.DynamicInt8])
@pytest.mark.parametrize("narrow", [False, True])
def test_positions_are_rounded_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, kind: type[quantization.DynamicInt8], narrow: bool
) -> None:
    monkeypatch.setattr(quantization._EightBits, "narrow", narrow)
    monkeypatch.setattr(quantization, "QUICK", {"int8": (kind, quantization.DynamicInt8)})
    quantization.quick.cache_clear()
    torch.manual_seed(5)
    for inputs, outputs, has_bias in ((64, 48, True), (100, 17, False), (768, 96, True)):
        call = quantization.pack(nn.Linear(inputs, outputs, bias=has_bias), "int8")
        assert type(call) is (quantization.DynamicInt8 if narrow else kind)
        x = torch.randn(12, inputs) * torch.logspace(-3, 3, 12)[:, None]
        x[3], x[4], x[5] = 0.0, x[4].abs(), F.gelu(x[5])
        alone = torch.cat([call(row[None]) for row in x])
        error = (call(x) - alone).norm(dim=1) / alone.norm(dim=1).clamp(min=1e-6)
        assert float(error.max()) < 1e-5


def test_the_modules_still_run(golden: Path, ids: list[int]) -> None:
    model, _ = load(golden, "int8")
    logits = model(torch.tensor([ids[:9]]))[0][0, -1]
    torch.testing.assert_close(logits, model.logits([ids[:9]])[0], rtol=0.05, atol=0.1)


@torch.no_grad()
def test_odd_shapes_are_packed_too() -> None:
    for shape in ((17, 40), (65, 32), (3, 8)):
        torch.manual_seed(1)
        layer = nn.Linear(shape[1], shape[0])
        x = torch.randn(2, shape[1])
        for precision in COST:
            error = (quantization.pack(layer, precision)(x) - layer(x)).norm() / layer(x).norm()
            assert float(error) < 0.15


@torch.no_grad()
def test_a_weight_of_zeros_stays_one() -> None:
    layer = nn.Linear(64, 32)
    nn.init.zeros_(layer.weight)
    for precision in COST:
        y = quantization.pack(layer, precision)(torch.ones(1, 64))
        torch.testing.assert_close(y[0], layer.bias, rtol=0.02, atol=0.02)


def test_other_devices_are_refused() -> None:
    model = GPT(GPTConfig(8, 11, 1, 1, 8)).to("meta")
    with pytest.raises(LoadError, match=r"^quantize int8 is for the cpu, not meta"):
        quantization.quantize(model, "int8", lambda _: None)


def test_a_kernel_that_is_missing_or_wrong_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(weight: Tensor, bias: Tensor | None) -> kernels.Linear:
        raise ZeroDivisionError

    def missing(weight: Tensor, bias: Tensor | None) -> kernels.Linear:
        raise NotImplementedError

    right = quantization.BFloat16
    kinds = {"bf16": (broken,), "int8": (missing, kernels.Transposed, right), "int4": (missing,)}
    monkeypatch.setattr(quantization, "QUICK", kinds)
    find = quantization.quick.__wrapped__
    assert find("int4") is None
    assert find("int8") is kernels.Transposed
    monkeypatch.setattr(kernels.Transposed, "__call__", lambda self, x: x)
    assert find("int8") is right
    with pytest.raises(ZeroDivisionError):  # a fault of ours is no missing kernel
        find("bf16")
