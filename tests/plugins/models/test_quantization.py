"""Fewer bits give nearly the same logits, by the quick kernels and by the portable one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from gptrepl.api import LoadError, LoadOptions
from gptrepl_plugins.models import nanogpt, precisions, quantization
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
        monkeypatch.setattr(precisions, "quick", lambda precision: None)
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


def test_the_modules_still_run(golden: Path, ids: list[int]) -> None:
    model, _ = load(golden, "int8")
    logits = model(torch.tensor([ids[:9]]))[0][0, -1]
    torch.testing.assert_close(logits, model.logits([ids[:9]])[0], rtol=0.05, atol=0.1)


def test_other_devices_are_refused() -> None:
    model = GPT(GPTConfig(8, 11, 1, 1, 8)).to("meta")
    with pytest.raises(LoadError, match=r"^quantize int8 is for the cpu, not meta"):
        quantization.quantize(model, "int8", lambda _: None)
