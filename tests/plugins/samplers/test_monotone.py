"""A knob that is turned further keeps more, or less, as its definition says."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

share = st.floats(0.01, 0.99)
MORE = {
    "top_k": st.integers(1, 12),
    "top_p": share,
    "typical": share,
    "tail_free": share,
    "top_n_sigma": st.floats(0.1, 4),
    "top_h": share,
    "mirostat": st.floats(0.1, 6),
    "mirostat2": st.floats(0.1, 6),
}
"""The samplers that keep more tokens the larger their first field is."""
LESS = {"min_p": share, "epsilon": share, "eta": share, "top_a": share}
"""Those that keep fewer."""
LOWER = {
    "repetition_penalty": st.floats(0.1, 5),
    "presence_penalty": st.floats(-3, 3),
    "frequency_penalty": st.floats(-3, 3),
    "dry": st.floats(0, 3),
    "quadratic": st.floats(0.1, 3),
}
"""Those that lower logits, the more the larger it is."""

numbers = st.one_of(st.floats(-10, 10, width=32), st.sampled_from([0.0, 1.0]))
rows = st.lists(numbers, min_size=2, max_size=12).map(torch.tensor)
contexts = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def sampler(name: str) -> Any:
    (entry,) = entry_points(group="gptrepl.samplers", name=name)
    return entry.load()


def kept(name: str, value: Any, logits: torch.Tensor) -> set[int]:
    left = sampler(name)(value)(logits, [0])
    return set(left.isfinite().nonzero().flatten().tolist())


@pytest.mark.parametrize("name", [*MORE, *LESS])
@given(st.data(), rows)
@settings(max_examples=40, deadline=None)
def test_more_or_less_is_kept(name, data, logits):
    small, large = sorted(data.draw(st.tuples(*[(MORE | LESS)[name]] * 2)))
    if name in LESS:
        small, large = large, small
    assert kept(name, small, logits) <= kept(name, large, logits)


@pytest.mark.parametrize("name", LOWER)
@given(st.data(), rows, contexts)
@settings(max_examples=40, deadline=None)
def test_more_is_taken_away(name, data, logits, ids):
    small, large = sorted(data.draw(st.tuples(*[LOWER[name]] * 2)))
    assert (sampler(name)(large)(logits, ids) <= sampler(name)(small)(logits, ids)).all()


@given(st.tuples(share, share), rows)
@settings(max_examples=40, deadline=None)
def test_xtc_excludes_less_above_a_higher_threshold(thresholds, logits):
    low, high = (sampler("xtc")(1.0, value)(logits, [0]) for value in sorted(thresholds))
    assert (low <= high).all()


@given(st.tuples(st.floats(0.05, 5), st.floats(0.05, 5)), rows)
@settings(max_examples=40, deadline=None)
def test_a_higher_temperature_is_flatter(temperatures, logits):
    cold, hot = sorted(temperatures)
    assume(hot > cold * 1.01)
    peaks = [sampler("temperature")(value)(logits, [0]).softmax(-1).max() for value in (cold, hot)]
    assert peaks[1] <= peaks[0] + 1e-6


@given(st.floats(0, 2), rows)
@settings(max_examples=40, deadline=None)
def test_a_wider_dynamic_temperature_spreads_around_the_middle(width, logits):
    found = sampler("dynamic_temperature")(width, 1.0, 2.0)(logits, [0])
    if width == 0:
        assert found is logits
    else:
        spread = float(logits.max() - logits.min())
        assert float(found.max() - found.min()) >= spread / (2 + width) - 1e-4


@given(st.integers(2, 5), contexts)
@settings(max_examples=40, deadline=None)
def test_longer_ngrams_ban_less(size, ids):
    logits = torch.zeros(5)
    assert kept_after("no_repeat_ngram", size - 1, logits, ids) <= kept_after(
        "no_repeat_ngram", size, logits, ids
    )


def kept_after(name: str, value: Any, logits: torch.Tensor, ids: list[int]) -> set[int]:
    return set(sampler(name)(value)(logits, ids).isfinite().nonzero().flatten().tolist())


def test_adaptive_p_prefers_the_target():
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    best = [int(sampler("adaptive_p")(target)(logits, [0]).argmax()) for target in (0.5, 0.25, 0.1)]
    assert best == [0, 1, 3]
