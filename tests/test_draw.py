"""The draw is torch's own, also where it is quicker."""

from __future__ import annotations

import math

import pytest
import torch

from gptrepl import draw


def logits_of(size, left, seed):
    made = torch.randn(size, generator=torch.Generator().manual_seed(seed)) * 3
    gone = torch.randperm(size, generator=torch.Generator().manual_seed(seed))[left:]
    return made.index_fill(0, gone, -math.inf)


@pytest.mark.parametrize(("size", "left"), [(65, 65), (65, 3), (5000, 1), (5000, 40), (5000, 5000)])
def test_it_takes_what_multinomial_takes_from_the_same_numbers(size, left):
    ours, theirs = (torch.Generator().manual_seed(left) for _ in range(2))
    for seed in range(40):
        logits = logits_of(size, left, seed)
        taken = int(torch.multinomial(logits.softmax(-1), 1, generator=theirs))
        assert draw.draw(logits, ours) == taken
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_this_torch_draws_its_noise_as_described():
    assert draw.noise_is_known()


def test_another_torch_is_left_to_its_own_draw(monkeypatch):
    monkeypatch.setattr(draw, "of_few", lambda probabilities, left, uniform: int(left[0]))
    draw.noise_is_known.cache_clear()
    try:
        assert not draw.noise_is_known()
        ours, theirs = (torch.Generator().manual_seed(0) for _ in range(2))
        logits = logits_of(5000, 40, 0)
        taken = int(torch.multinomial(logits.softmax(-1), 1, generator=theirs))
        assert draw.draw(logits, ours) == taken
    finally:
        draw.noise_is_known.cache_clear()


@pytest.mark.parametrize(("size", "left"), [(65, 65), (65, 3), (5000, 40), (5000, 5000)])
def test_noise_that_is_kept_takes_what_the_draw_takes(size, left):
    ours, theirs = (torch.Generator().manual_seed(left) for _ in range(2))
    for seed in range(40):
        noise = draw.Noise(size, ours)
        logits = logits_of(size, left, seed)
        assert torch.equal(noise.before, theirs.get_state())
        assert noise.take(logits) == noise.take(logits) == draw.draw(logits, theirs)
    assert torch.equal(ours.get_state(), theirs.get_state())
