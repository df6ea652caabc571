"""What holds for every sampler, found through the entry points: a new one is covered by itself."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from gptrepl.api import Knob
from gptrepl_plugins.samplers.temperature import Temperature

STAGES = ("penalty", "temperature", "truncation", "selection")
TEXTS = {
    "logit_bias": ("", "1=-inf", "0=2.5, 3=-1", "0=-inf,1=-inf,2=-inf,3=-inf", '"ab"=-0.5'),
    "banned": ("", "a", "ab, ba", "a,b,c,d,e,f,g,h,i,j,k,l"),
    "end": ("ab", "b"),
    "breakers": ("", "a", "cd"),
}
"""Values for fields that hold a text."""


class Letters:
    """Token 0 is `ab`, the others are the letters from b on, so that texts split in two ways."""

    vocab_size = 12

    def encode(self, text: str) -> list[int]:
        return [0] if text == "ab" else [(ord(letter) - ord("a")) % 12 for letter in text]

    def token_bytes(self, token: int) -> bytes:
        return b"ab" if token == 0 else bytes([ord("a") + token])


def values(annotation: Any, limits: Knob) -> st.SearchStrategy[Any]:
    """Return every number or word that a field can hold."""
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if annotation is int:
        return st.integers(int(limits.ge or 0), 20)
    if annotation is float:
        low = limits.ge if limits.gt is None else limits.gt
        high = limits.le if limits.lt is None else limits.lt
        return st.floats(
            -3 if low is None else low,
            (low or 0) + 5 if high is None else high,
            exclude_min=limits.gt is not None,
            exclude_max=limits.lt is not None,
        )
    return st.one_of([values(kind, limits) for kind in get_args(annotation)])


def samplers(sampler_class: Any) -> st.SearchStrategy[Any]:
    """Every setting of a sampler."""
    hints = get_type_hints(sampler_class)
    fields = {
        field.name: st.sampled_from(TEXTS.get(field.name, (field.default,)))
        if hints[field.name] is str
        else values(hints[field.name], field.metadata["knob"])
        for field in dataclasses.fields(sampler_class)
    }
    return st.builds(sampler_class, **fields)


numbers = st.one_of(
    st.floats(-30, 30, width=32),
    st.sampled_from([0.0, 1.0, -1.0]),
    st.just(float("-inf")),
)
logits = (
    st.lists(numbers, min_size=1, max_size=12)
    .filter(lambda row: max(row) > float("-inf"))
    .map(torch.tensor)
)
rows = st.lists(st.integers(0, 11), min_size=1, max_size=20)


def start(sampler: Any, prompt_length: int = 1) -> Any:
    """Return what a sample is called through."""
    if hasattr(sampler, "bind"):
        sampler = sampler.bind(Letters(), prompt_length)
    return sampler.begin(Generator().manual_seed(7)) if hasattr(sampler, "begin") else sampler


def walk(sampler: Any, logits: Tensor, row: list[int]) -> list[Tensor]:
    """Return what the sampler makes of three steps, the likeliest token drawn at each."""
    begun, row, found = start(sampler), list(row), []
    for _ in range(3):
        found.append(begun(logits, row))
        row.append(int(found[-1].argmax()))
    return found


@given(st.data(), logits, rows)
@settings(max_examples=30, deadline=None)
def test_it_leaves_a_distribution(sampler_class, data, logits, row):
    sampler = data.draw(samplers(sampler_class))
    before, ids = logits.clone(), list(row)
    for left in walk(sampler, logits, row):
        assert left.shape == logits.shape
        assert left.dtype == torch.float32
        assert left.isfinite().any()
        assert not left.isnan().any()
        assert left.max() < float("inf")
        assert (left[before == float("-inf")] == float("-inf")).all()
    assert torch.equal(logits, before)
    assert row == ids


@given(st.data(), logits, rows)
@settings(max_examples=10, deadline=None)
def test_the_same_comes_out_twice(sampler_class, data, logits, row):
    sampler = data.draw(samplers(sampler_class))
    pairs = zip(walk(sampler, logits, row), walk(sampler, logits, row), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@given(st.data(), st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_rows_together_are_as_each_alone(sampler_class, data, several):
    if not getattr(sampler_class, "rowwise", False):
        return
    sampler = data.draw(samplers(sampler_class))
    together = torch.tensor([[*row, 1.0] for row in several])
    alone = torch.stack([sampler(row, ()) for row in together])
    assert torch.equal(sampler(together, ()).view(torch.int32), alone.view(torch.int32))


def test_greedy_takes_the_largest_of_each_row():
    left = Temperature(0.0)(torch.tensor([[1.0, 3.0, 3.0], [5.0, 4.0, -1.0]]), ())
    gone = float("-inf")
    assert left.tolist() == [[gone, 3.0, gone], [5.0, gone, gone]]


@given(logits, rows)
@settings(max_examples=10, deadline=None)
def test_off_changes_no_bit(sampler_class, logits, row):
    for left in [sampler_class()(logits, row), *walk(sampler_class(), logits, row)]:
        assert torch.equal(left.view(torch.int32), logits.view(torch.int32))


def test_it_says_what_it_is(sampler_class):
    assert sampler_class.__dataclass_params__.frozen
    assert sampler_class.stage in STAGES
    first, *rest = sampler_class.__doc__.splitlines()
    assert first.endswith(".")
    assert re.search(r"\boff (at|if) ", " ".join(" ".join(rest).lower().split()))
    for field in dataclasses.fields(sampler_class):
        assert field.metadata["knob"].help
        assert field.default is not dataclasses.MISSING


def test_places_and_names_are_their_own():
    found = {entry.name: entry.load() for entry in entry_points(group="gptrepl.samplers")}
    places = [(sampler.stage, sampler.rank) for sampler in found.values() if sampler.rank != 50]
    assert len(set(places)) == len(places)
    names = [name for sampler in found.values() for name in getattr(sampler, "aliases", ())]
    names += list(found)
    assert len({name.replace("_", "") for name in names}) == len(names)


def test_knowing_them_needs_no_torch():
    code = (
        "import sys; from importlib.metadata import entry_points\n"
        "for entry in entry_points(group='gptrepl.samplers'):\n"
        "    if entry.value.startswith('gptrepl_plugins'): entry.load()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
