"""Quick sorting gives what plain sorting gives, so the kept sets are those of transformers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from transformers.generation import logits_process

from gptrepl_plugins.samplers.ranking import ascending, kth_largest, nearest, not_below

GONE = float("-inf")
SIZES = (2, 17, 100, 5000, 50257)


def some_removed(logits: Tensor, keep: int) -> Tensor:
    """Return the logits with a few left, here and there."""
    step = max(1, len(logits) // keep)
    left = torch.full_like(logits, GONE)
    left[::step] = logits[::step]
    return left


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "normal": lambda noise: noise * 3,
    "ties": lambda noise: (noise * 2).round() / 2,
    "bfloat16": lambda noise: (noise * 3).bfloat16().float(),
    "all equal": lambda noise: torch.full_like(noise, float(noise[0])),
    "few left": lambda noise: some_removed(noise * 3, 50),
    "few left, tied": lambda noise: some_removed(noise.round(), 50),
    "half left": lambda noise: some_removed(noise * 3, len(noise) // 2),
    "one left": lambda noise: some_removed(noise, 1),
    "very flat": lambda noise: noise * 1e-5,
    "peaked": lambda noise: noise * 20,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[Tensor], Tensor]:
    return KINDS[request.param]


@pytest.fixture(params=SIZES)
def logits(request: pytest.FixtureRequest, kind: Callable[[Tensor], Tensor]) -> Tensor:
    return kind(torch.randn(request.param, generator=Generator().manual_seed(request.param)))


def test_ascending(logits):
    assert torch.equal(ascending(logits), logits.sort().values)


def test_nearest(logits):
    distances = -logits + logits.max()
    values, places = nearest(distances)
    assert torch.equal(values, distances.sort().values[: len(values)])
    assert torch.equal(values, distances[places])
    assert len(values) >= int(distances.isfinite().sum())


def test_kth_largest(logits):
    descending = logits.sort(descending=True).values
    for k in {min(k, len(logits)) for k in (1, 50, 701, 5000)}:
        assert kth_largest(logits, k) == descending[k - 1]


@pytest.mark.parametrize("least", [GONE, -1.0, -0.0, 0.0, 1e-45, 0.5])
def test_not_below(least):
    logits = torch.tensor([GONE, -1.0, -1e-45, -0.0, 0.0, 1e-45, 0.5, 3.0])
    expected = logits.masked_fill(logits < least, GONE)
    assert torch.equal(not_below(logits, torch.tensor(least)), expected)


def ours(name: str) -> Any:
    (entry,) = entry_points(group="gptrepl.samplers", name=name)
    return entry.load()


PAIRS: list[tuple[str, float, Any]] = [
    *[("top_p", value, logits_process.TopPLogitsWarper) for value in (0.0, 0.1, 0.5, 0.9, 0.99)],
    *[("typical", value, logits_process.TypicalLogitsWarper) for value in (0.1, 0.5, 0.9)],
    *[("top_k", value, logits_process.TopKLogitsWarper) for value in (1, 40, 3000)],
    *[("min_p", value, logits_process.MinPLogitsWarper) for value in (0.05, 1.0)],
    *[("epsilon", value, logits_process.EpsilonLogitsWarper) for value in (3e-4, 0.1)],
    *[("eta", value, logits_process.EtaLogitsWarper) for value in (3e-4, 0.1)],
    *[("top_h", value, logits_process.TopHLogitsWarper) for value in (0.1, 0.5)],
]


def test_the_same_as_transformers(logits: Tensor):
    for name, value, theirs in PAIRS:
        expected = theirs(value)(torch.zeros(1, 1, dtype=torch.long), logits[None].clone())[0]
        assert torch.equal(ours(name)(value)(logits, [0]), expected), (name, value)


def test_the_input_is_not_edited_by_a_quick_sort(logits):
    before = logits.clone()
    for name, value in (("top_p", 0.9), ("typical", 0.9), ("tail_free", 0.9), ("top_k", 800)):
        ours(name)(value)(logits, [0])
    assert torch.equal(logits, before)


@pytest.mark.parametrize("where", [0, 31, 32, 5000, 50256])
@pytest.mark.parametrize("k", [1, 40])
def test_a_nan_is_no_reason_to_fail(where, k):
    logits = torch.randn(50257, generator=Generator().manual_seed(k))
    logits[where] = float("nan")
    expected = logits.topk(k).values[-1]
    torch.testing.assert_close(kth_largest(logits, k), expected, equal_nan=True)
