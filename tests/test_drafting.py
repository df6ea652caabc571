"""What is drafted is the text of the plain loop, and so is what the generator gives next."""

from __future__ import annotations

import pytest
import torch

from fakes import Speller, Uniform, session_of
from gptrepl import chain, drafting, load
from gptrepl.api import Notice
from gptrepl.drafting import Plan, Way, draft, hindrance, lookup
from gptrepl.generate import generate
from gptrepl.rows import Row


class Several(Uniform):
    """Likes the id after the last one, gives several positions, and drafts with a rough copy."""

    def __init__(self, vocab_size=20, block_size=None, error=0.0):
        super().__init__(vocab_size, block_size)
        self.error = error
        self.asked = []

    def logits(self, rows):
        return torch.stack([self._of(row) for row in rows])

    def positions(self, row, count):
        self.asked.append(count)
        ends = range(len(row) - count + 1, len(row) + 1)
        return torch.stack([self._of(row[:end]) for end in ends])

    def rough(self):
        return [Several(self.vocab_size, self.block_size, 0.5)]

    def _of(self, row):
        chance = torch.Generator().manual_seed(sum(row[-3:]))
        logits = torch.randn(self.vocab_size, generator=chance)
        logits[(row[-1] + 1) % self.vocab_size] += 3
        noise = torch.randn(self.vocab_size, generator=chance)
        return logits + self.error * noise


def row(seed, *, temperature=1.0, ids=(0, 1, 2)):
    links = [("temperature", chain.build("temperature", temperature)),
             ("top_k", chain.build("top_k", 9))]  # fmt: skip
    greedy = temperature == 0
    return Row(list(ids), links, torch.Generator().manual_seed(seed), greedy)


@pytest.mark.parametrize("length", [0, 1, 3, 9])
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_the_picks_and_the_generator_are_those_of_the_loop(length, temperature):
    for seed in range(25):
        ours, theirs = (row(seed, temperature=temperature) for _ in range(2))
        model = Several()
        plain = list(generate(Several(), [theirs], 30, 18))
        assert list(draft(Plan(model, length), ours, 30, 18)) == plain
        assert ours.ids == theirs.ids
        assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())
        assert model.asked or not length


def test_a_row_that_ends_within_a_round_ends_there():
    ours, theirs = row(3), row(3)
    plain = [pick.token for pick in generate(Several(), [theirs], 7)]
    seen = []
    for pick in draft(Plan(Several(), 5), ours, 30):
        seen.append(pick.token)
        ours.done = len(seen) == 7
    assert seen == plain
    assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())


def test_no_pass_goes_beyond_the_block():
    ours, theirs = row(1), row(1)
    model = Several(block_size=12)
    plain = list(generate(Several(block_size=12), [theirs], 30))
    assert list(draft(Plan(model, 6), ours, 30)) == plain
    assert model.asked
    assert model.asked[-1] <= 12


def test_a_good_copy_is_believed_and_a_bad_one_is_not():
    plan = Plan(Several(error=0.0), 4)
    list(draft(plan, row(0), 60))
    assert 0.5 < plan.kept / plan.guessed <= 1
    worse = Plan(Several(), 4)
    worse.model.rough = lambda: [Several(error=9.0)]
    list(draft(worse, row(0), 60))
    assert worse.kept / worse.guessed < plan.kept / plan.guessed


def test_the_text_is_looked_up_behind_its_last_ids():
    assert lookup([1, 2, 3, 4, 9, 1, 2, 3], 3) == [4, 9, 1]
    assert lookup([1, 2, 3, 4, 9, 1, 2, 3], 1) == [4]
    assert lookup([7, 7, 7, 7], 5) == [7] * 5
    assert lookup([5, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert lookup([1, 2, 3, 4, 5], 4) == []
    assert lookup([1], 4) == []


def test_a_way_that_does_not_pay_rests_and_is_tried_again():
    way = Way(copied=True)
    for _ in range(3):
        way.learn(4, 1, 0.5, 1.0)
    assert way.pays(0.6)
    assert not way.pays(0.4)
    assert [way.pays(0.4) for _ in range(drafting.PAUSE)] == [False] * drafting.PAUSE
    assert way.pays(0.4)


def test_as_many_are_guessed_as_give_the_most_tokens_a_second():
    known = {"rounds": 9, "weight": 5.0, "guesses": 20.0, "kept": 9.0, "refused": 1.0}
    cheap = Way(copied=False, guessing=0.2, seconds=5.2, **known)  # a guess 0.01 s, the rest 1 s
    dear = Way(copied=False, guessing=20.0, seconds=25.0, **known)  # a guess 1 s as well
    assert cheap.length == drafting.MOST
    assert dear.length == 1
    rate = [(1 - 0.9 ** (n + 1)) / 0.1 / (1 + 0.1 * n) for n in range(1, drafting.MOST + 1)]
    middling = Way(copied=False, guessing=2.0, seconds=7.0, **known)
    assert middling.length == rate.index(max(rate)) + 1
    assert Way(copied=True).length == drafting.FIRST


def test_what_was_learned_is_known_to_the_next_sample():
    ways: list[Way] = []
    list(draft(Plan(Several(error=0.0), 0, ways), row(0), 30))
    rounds = ways[0].rounds
    assert rounds >= drafting.TRIALS
    assert Plan(Several(), 0, ways).each > 0


def test_what_hinders_is_said():
    mirostat = ("mirostat2", chain.build("mirostat2", 5.0))
    assert "one position at a time" in hindrance(Uniform(), [], "cpu")
    assert "mirostat2 keeps state" in hindrance(Several(), [mirostat], "cpu")
    assert "cpu alone" in hindrance(Several(), [], "cuda:0")
    assert hindrance(Several(), [], "cpu") == ""


def test_a_session_says_once_that_it_cannot_draft():
    session = session_of(Speller("abc"), draft="4", max_new_tokens=4)
    said = [event.text for event in session.stream("x") if isinstance(event, Notice)]
    assert any(text.startswith("draft 4 has no effect: this model gives") for text in said)
    assert session.generate("x") == "xabca"


@pytest.mark.parametrize("count", [2, 33])
def test_several_samples_are_not_drafted_and_that_is_said(count):
    session = session_of(Several(), draft="4", max_new_tokens=4)
    said = [event.text for event in session.stream("x", n=count) if isinstance(event, Notice)]
    assert said == ["draft 4 has no effect: several samples are decoded together, which is quicker"]
    assert not session.loaded.model.asked


@pytest.fixture(scope="module")
def session(golden):
    return load(str(golden / "nanogpt_char/out/ckpt.pt"), log=False)


@pytest.mark.parametrize("setting", ["auto", "5"])
def test_the_text_of_a_real_model_is_the_same_for_many_seeds(session, setting):
    for seed in range(100 if setting == "5" else 20):
        changes = {"seed": seed, "max_new_tokens": 30, "temperature": 0.7 + 0.02 * (seed % 20)}
        plain = session.generate("ROMEO:\nWhat", **changes)
        assert session.generate("ROMEO:\nWhat", draft=setting, **changes) == plain


def test_what_was_kept_is_told(session):
    events = list(session.stream("ROMEO:", draft=6, max_new_tokens=30))
    told = [event.text for event in events if isinstance(event, Notice)]
    assert any(text.startswith("draft: ") and "guesses kept" in text for text in told)
