"""The samplers that transformers lacks, on four tokens that a reader can check."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from gptrepl_plugins.samplers.adaptive_p import AdaptiveP
from gptrepl_plugins.samplers.cutoff import TopA
from gptrepl_plugins.samplers.dry import DRY
from gptrepl_plugins.samplers.dynamic_temperature import DynamicTemperature
from gptrepl_plugins.samplers.mirostat import Mirostat, Mirostat2
from gptrepl_plugins.samplers.ngram import NoRepeatNgram
from gptrepl_plugins.samplers.quadratic import Quadratic
from gptrepl_plugins.samplers.repetition import (
    FrequencyPenalty,
    PresencePenalty,
    RepetitionPenalty,
)
from gptrepl_plugins.samplers.sigma import TopNSigma
from gptrepl_plugins.samplers.tail_free import TailFree
from gptrepl_plugins.samplers.temperature import Temperature
from gptrepl_plugins.samplers.top_k import TopK
from gptrepl_plugins.samplers.top_p import TopP
from gptrepl_plugins.samplers.xtc import XTC

GONE = float("-inf")


def likely(*probabilities: float) -> Tensor:
    """Return logits for these probabilities."""
    return torch.tensor(probabilities).log()


def kept(left: Tensor) -> list[int]:
    return left.isfinite().nonzero().flatten().tolist()


def close(left: Tensor, expected: list[float]) -> bool:
    return torch.allclose(left, torch.tensor(expected), atol=1e-5)


# --- temperature --------------------------------------------------------------------------------


def test_greedy_takes_the_lowest_of_the_largest():
    for temperature in (0.0, 1e-9):
        sampler = Temperature(temperature)
        assert sampler.greedy
        left = sampler(torch.tensor([1.0, 3.0, 3.0, 2.0]), [0])
        assert left.tolist() == [GONE, 3.0, GONE, GONE]
    assert not Temperature(1e-8).greedy


def test_a_tiny_temperature_stays_a_number():
    left = Temperature(1e-8)(torch.tensor([1e31, 0.0, 1e31, GONE]), [0])
    assert left.tolist() == [0.0, GONE, 0.0, GONE]


@pytest.mark.parametrize(
    ("logits", "temperature"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1.5),  # all alike: the highest
        ([0.0, -1e4, -1e4, -1e4], 0.5),  # one is certain: the lowest
        ([1.0, 1.0, GONE, GONE], 1.5),  # alike among those left
    ],
)
def test_dynamic_temperature_runs_from_low_to_high(logits, temperature):
    left = DynamicTemperature(range=0.5)(torch.tensor(logits), [0])
    assert close(left, [value / temperature for value in logits])


def test_dynamic_temperature_between():
    # H = 1.75 bits of the 2 there could be: 0.5 + 1 * 0.875^2 = 1.265625
    logits = likely(0.5, 0.25, 0.125, 0.125)
    left = DynamicTemperature(range=0.5, exponent=2)(logits, [0])
    assert close(left, (logits / 1.265625).tolist())


def test_dynamic_temperature_down_to_zero_is_greedy():
    left = DynamicTemperature(range=1.0)(torch.tensor([0.0, 9e3, 0.0, 0.0]), [0])
    assert kept(left) == [1]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (1, [2.0, 1.5, 0.0, -6.0]),  # 2 - 0.5 d^2
        (2, [2.0, 1.5, -1.0, -18.0]),  # 2 - 0.25 d^2 + 0.25 d^3
        (3, [2.0, 1.5, -2.0, -30.0]),  # 2 + 0.5 d^3
    ],
)
def test_quadratic_bends_below_the_largest(curve, expected):
    left = Quadratic(0.5, curve)(torch.tensor([2.0, 1.0, 0.0, -2.0]), [0])
    assert close(left, expected)


# --- truncation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "expected"),
    [(0.4, [0, 1, 2, 3]), (0.5, [0, 1, 2]), (0.8, [0, 1]), (1.0, [0, 1])],
)
def test_top_a(a, expected):
    # The bound is a * 0.25: 0.1, 0.125, 0.2 and 0.25, which a probability may equal.
    assert kept(TopA(a)(likely(0.5, 0.25, 0.15, 0.1001), [0])) == expected


def test_top_n_sigma():
    # Mean 0 and variance 5: sigma is 2.236.
    logits = torch.tensor([3.0, 1.0, -1.0, -3.0])
    found = [kept(TopNSigma(n)(logits, [0])) for n in (0.5, 1, 2, 3)]
    assert found == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_top_n_sigma_does_not_count_removed_tokens():
    # Of 3, 1 and -1 the mean is 1 and sigma 1.633: the bound is 1.367.
    assert kept(TopNSigma(1.0)(torch.tensor([3.0, 1.0, -1.0, GONE]), [0])) == [0]


def test_tail_free():
    # The differences are 0.3, 0.22 and 0.06; theirs are 0.08 and 0.16, a third and two thirds.
    logits = likely(0.08, 0.6, 0.02, 0.3)
    found = [kept(TailFree(z)(logits, [0])) for z in (0, 0.3, 0.4, 0.99)]
    assert found == [[1], [1], [1, 3], [1, 3]]


def test_tail_free_finds_no_tail():
    for logits in (torch.zeros(4), torch.tensor([1.0, 0.0, GONE, GONE])):
        assert TailFree(0.1)(logits, [0]) is logits


# --- selection ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.2, [1, 2, 3]), (0.12, [2, 3]), (0.05, [3]), (0.3, [0, 1, 2, 3]), (0, [3])],
)
def test_xtc_keeps_the_least_likely_top_choice(threshold, expected):
    logits = likely(0.5, 0.25, 0.15, 0.1)
    assert kept(XTC(1.0, threshold)(logits, [0])) == expected


def test_xtc_draws_one_number_a_call():
    begun = XTC(0.5, 0.2).begin(Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    drawn = [float(torch.rand((), generator=generator)) for _ in range(20)]
    logits = likely(0.5, 0.25, 0.15, 0.1)
    struck = [len(kept(begun(logits, [0]))) == 3 for _ in range(20)]
    assert struck == [number < 0.5 for number in drawn]
    assert len(set(struck)) == 2


def test_xtc_says_when_it_cannot_strike():
    assert XTC(0.5, 0.6).idle(4)
    assert not XTC(0.5, 0.5).idle(4)


def test_mirostat2_follows_the_surprise():
    # Surprises of 1, 2, 3 and 3 bits; mu starts at 2.
    logits = likely(0.5, 0.25, 0.125, 0.125)
    begun = Mirostat2(tau=1.0, eta=1.0).begin(Generator())
    assert kept(begun(logits, [0])) == [0, 1]
    # Token 1 had 1/3 of what stayed, 1.585 bits: mu falls to 1.415.
    assert kept(begun(logits, [0, 1])) == [0]
    # Token 0 was certain, 0 bits: mu rises to 2.415.
    assert kept(begun(logits, [0, 1, 0])) == [0, 1]
    # Token 0 had 2/3, 0.585 bits: mu rises to 2.83, and a second time to 3.245.
    assert kept(begun(logits, [0, 1, 0, 0])) == [0, 1]
    assert kept(begun(logits, [0, 1, 0, 0, 0])) == [0, 1, 2, 3]


def test_mirostat2_keeps_the_likeliest():
    assert kept(Mirostat2(tau=0.01)(likely(0.1, 0.2, 0.3, 0.4), [0])) == [3]


def test_mirostat_fits_zipf():
    # p falls as 1 / rank^2, so s = 2, e = 1, and k = sqrt(2^mu / (1 - 1/4)), mu = 2 tau.
    logits = likely(1, 1 / 4, 1 / 9, 1 / 16)
    found = [len(kept(Mirostat(tau)(logits, [0]))) for tau in (0.1, 0.75, 0.8, 1.5, 2)]
    # sqrt of 1.53, 3.77, 4.04, 10.7 and 21.3
    assert found == [1, 1, 2, 3, 4]


def test_mirostat_on_zipf_itself():
    # s = 1, e = 0: k = 2^mu / ln 4.
    found = [len(kept(Mirostat(tau)(likely(1, 1 / 2, 1 / 3, 1 / 4), [0]))) for tau in (0.7, 1.05)]
    assert found == [1, 3]  # 1.90 and 3.09


def test_mirostat_learns():
    logits = likely(1, 1 / 4, 1 / 9, 1 / 16)
    begun = Mirostat(tau=0.8, eta=1.0).begin(Generator())
    assert kept(begun(logits, [0])) == [0, 1]
    # Token 1 had 1/5 of what stayed, 2.32 bits: mu falls from 1.6 to 0.08, and k to 1.
    assert kept(begun(logits, [0, 1])) == [0]


@pytest.mark.parametrize("kind", [Mirostat, Mirostat2])
def test_mirostat_keeps_a_number_however_hard_it_corrects(kind):
    logits = likely(40, 1)  # 0.04 and 5.36 bits
    begun = kind(tau=3.0, eta=1e308).begin(Generator())
    assert kept(begun(logits, [0])) == [0, 1]
    assert kept(begun(logits, [0, 1])) == [0]  # too much surprise
    assert kept(begun(logits, [0, 1, 0])) == [0, 1]  # too little


def test_mirostat_does_not_learn_from_another_row():
    logits = likely(1, 1 / 4, 1 / 9, 1 / 16)
    begun = Mirostat(tau=0.8, eta=1.0).begin(Generator())
    begun(logits, [0])
    assert kept(begun(logits, [0, 1, 2])) == [0, 1]


def test_adaptive_p_prefers_the_target():
    # Distances to 0.25 in units of 0.3: 0.8333, 0, 0.3333 and 0.5.
    left = AdaptiveP(0.25)(likely(0.5, 0.25, 0.15, 0.1), [0])
    assert close(left, [1.212121, 5.0, 4.166667, 3.333333])


def test_adaptive_p_corrects_itself():
    logits = likely(0.5, 0.25, 0.15, 0.1)
    begun = AdaptiveP(0.25, decay=0.6).begin(Generator())
    begun(logits, [0])
    # 0.5 was drawn: the average is 0.35, so that 0.15 is aimed at.
    assert int(begun(logits, [0, 0]).argmax()) == 2


def test_adaptive_p_aims_within_zero_and_one():
    logits = likely(0.96, 0.02, 0.01, 0.01)
    begun = AdaptiveP(0.3, decay=0).begin(Generator())
    begun(logits, [0])
    assert float(begun(logits, [0, 0])[2]) == pytest.approx(5 - 10 * (1 / 30) ** 2 / (31 / 30))


# --- penalties ----------------------------------------------------------------------------------

ROW = [0, 0, 1]
HALF = torch.tensor([2.0, 1.0, -1.0, 0.0])


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (RepetitionPenalty(2.0), [1.0, 0.5, -1.0, 0.0]),
        (RepetitionPenalty(2.0, 1), [2.0, 0.5, -1.0, 0.0]),
        (RepetitionPenalty(2.0, "off"), [2.0, 1.0, -1.0, 0.0]),
        (PresencePenalty(0.5), [1.5, 0.5, -1.0, 0.0]),
        (PresencePenalty(0.5, 1), [2.0, 0.5, -1.0, 0.0]),
        (PresencePenalty(0.5, "off"), [2.0, 1.0, -1.0, 0.0]),
        (FrequencyPenalty(0.5), [1.0, 0.5, -1.0, 0.0]),
        (FrequencyPenalty(0.5, 2), [1.5, 0.5, -1.0, 0.0]),
        (FrequencyPenalty(-0.5, 99), [3.0, 1.5, -1.0, 0.0]),
    ],
    ids=str,
)
def test_penalties_within_a_window(sampler, expected):
    assert sampler(HALF, ROW).tolist() == expected


def test_a_negative_logit_is_multiplied():
    assert RepetitionPenalty(2.0)(HALF, [2, 3]).tolist() == [2.0, 1.0, -2.0, 0.0]


@pytest.mark.parametrize("kind", [RepetitionPenalty, PresencePenalty, FrequencyPenalty, DRY])
def test_a_window_that_is_off_is_said(kind: Any):
    assert kind(2.0, window="off").idle(4) == "its window is off"
    assert kind(2.0, window=1).idle(4) == ""


@pytest.mark.parametrize(
    ("sampler", "lost"),
    [
        (DRY(1.0, 2.0), 1.0),  # 0 1 stood before 2: as long as allowed, M
        (DRY(1.0, 2.0, 1), 2.0),  # one longer, M * B
        (DRY(1.0, 2.0, 3), 0.0),  # too short
        (DRY(0.5, 1.0, 1), 0.5),  # a base of 1 does not grow
        (DRY(1.0, 2.0, 1, window=4), 1.0),  # of the last four, 1 2 0 1, only 1 stood before 2
        (DRY(1.0, 2.0, 1, window=3), 0.0),
    ],
    ids=str,
)
def test_dry_penalises_what_extends_a_repetition(sampler, lost):
    assert sampler(HALF, [3, 0, 1, 2, 0, 1]).tolist() == [2.0, 1.0, -1.0 - lost, 0.0]


def test_dry_never_loses_the_number():
    assert DRY(5.0, 9.0)(HALF, [0] * 999).isfinite().all()


def test_dry_takes_the_longest_match_of_each_token():
    # 1 stood before 2 alone, and after 0; 3 follows 1 once.
    left = DRY(1.0, 2.0, 1)(torch.zeros(4), [1, 2, 0, 1, 2, 1, 3, 0, 1])
    assert left.tolist() == [0.0, 0.0, -2.0, -1.0]


def test_an_ngram_that_leaves_nothing_leaves_all():
    logits = torch.zeros(2)
    assert NoRepeatNgram(1)(logits, [0, 1]) is logits


# --- edges --------------------------------------------------------------------------------------


def test_top_k_keeps_ties_and_says_when_it_is_idle():
    assert kept(TopK(2)(torch.tensor([1.0, 2.0, 1.0, 0.0]), [0])) == [0, 1, 2]
    assert TopK(65).idle(65) == "the vocabulary has 65"
    assert TopK(0).idle(65) == TopK(64).idle(65) == ""


def test_top_p_of_zero_keeps_one():
    assert kept(TopP(0.0)(torch.tensor([1.0, 2.0, 1.0, 0.0]), [0])) == [1]
    assert len(kept(TopP(0.0)(torch.zeros(4), [0]))) == 1
