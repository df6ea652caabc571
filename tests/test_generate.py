"""The loop: nanoGPT's draw, one a token, and an error that names who left nothing to draw."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from fakes import Learned, Uniform
from gptrepl import chain, together
from gptrepl.api import GptreplError
from gptrepl.generate import generate
from gptrepl.rows import Row, begin


class Fixed:
    """Gives the same logits after every row."""

    block_size = None

    def __init__(self, *logits: float) -> None:
        self.vocab_size = len(logits)
        self._logits = torch.tensor(logits)

    def logits(self, rows):
        return self._logits.repeat(len(rows), 1)


def link(name, **fields):
    return (name, chain.build(name, fields))


def row(*links, seed=0, ids=(0,)):
    greedy = any(chain.is_greedy(sampler) for _, sampler in links)
    return Row(list(ids), list(links), torch.Generator().manual_seed(seed), greedy)


def tokens(model, *rows, n=1, known=None):
    return [pick.token for pick in generate(model, rows, n, known)]


def test_the_draw_is_multinomial_over_the_whole_vocabulary():
    model = Fixed(0.0, 1.0, 2.0, 3.0)
    generator = torch.Generator().manual_seed(5)
    probabilities = torch.tensor([0.0, 1.0, 2.0, 3.0]).softmax(-1)
    expected = [int(torch.multinomial(probabilities, 1, generator=generator)) for _ in range(50)]
    assert tokens(model, row(seed=5), n=50) == expected
    assert len(set(expected)) > 1


def test_a_greedy_row_draws_nothing():
    own = row(link("temperature", temperature=0))
    before = own.generator.get_state()
    assert tokens(Fixed(1.0, 3.0, 2.0), own, n=4) == [1, 1, 1, 1]
    assert torch.equal(own.generator.get_state(), before)


def test_a_row_that_cannot_choose_still_draws_once_a_token():
    own, other = row(link("top_k", top_k=1), seed=3), torch.Generator().manual_seed(3)
    tokens(Fixed(1.0, 3.0), own, n=2)
    for _ in range(2):
        torch.multinomial(torch.tensor([0.0, 1.0]), 1, generator=other)
    assert torch.equal(own.generator.get_state(), other.get_state())


def test_the_logprob_is_the_models_before_the_chain():
    (pick,) = generate(Fixed(0.0, math.log(3)), [row(link("temperature", temperature=0))], 1)
    assert pick.logprob == pytest.approx(math.log(3 / 4))


def test_rows_are_independent_of_each_other():
    model = Uniform(50)
    alone = [tokens(model, row(seed=seed), n=20) for seed in range(3)]
    rows = [row(seed=seed) for seed in range(3)]
    together: list[list[int]] = [[], [], []]
    for pick in generate(model, rows, 20):
        together[pick.row].append(pick.token)
    assert together == alone


CHAINS = [
    (),
    (link("temperature", temperature=0.8), link("top_k", top_k=5)),
    (link("temperature", temperature=1e-38), link("min_p", min_p=0.1)),
    (link("temperature", temperature=0.8), link("top_p", top_p=0.8)),
]


@pytest.mark.parametrize("links", CHAINS)
@pytest.mark.parametrize("measure", [False, True])
@pytest.mark.parametrize(("size", "known"), [(20, None), (20, 7), (5000, None), (5000, 4999)])
def test_rows_that_share_a_chain_are_drawn_as_each_alone(links, measure, size, known):
    model = Learned(size)
    starts = [[1], [2, 3], [4], [1]]
    alone = [
        list(generate(model, [row(*links, seed=k, ids=ids)], 9, known, measure=measure))
        for k, ids in enumerate(starts)
    ]
    rows = [row(*links, seed=k, ids=ids) for k, ids in enumerate(starts)]
    found = list(generate(model, rows, 9, known, measure=measure))
    for k, own in enumerate(rows):
        mine = [dataclasses.replace(pick, row=0) for pick in found if pick.row == k]
        assert mine == alone[k]
        assert own.ids == [*starts[k], *(pick.token for pick in mine)]


def test_a_chain_is_shared_where_every_sampler_takes_rows_at_once():
    shared = [row(*CHAINS[1], seed=seed) for seed in range(2)]
    assert together.can_share(shared)
    assert not together.can_share(shared[:1])
    assert not together.can_share([shared[0], row(*CHAINS[0])])
    assert not together.can_share([row(*CHAINS[3]), row(*CHAINS[3])])
    greedy = [row(link("temperature", temperature=0)) for _ in range(2)]
    assert not together.can_share(greedy)


def test_a_row_without_finite_logits_is_said_as_if_it_were_alone():
    class Half(Fixed):
        def logits(self, rows):
            given = super().logits(rows)
            given[1:] = math.nan
            return given

    found = generate(Half(0.0, 1.0), [row(), row()], 1)
    assert next(found).row == 0
    with pytest.raises(GptreplError, match="the model produced nan"):
        next(found)


def test_a_sampler_that_fails_on_several_rows_is_asked_for_each():
    class OneRow:
        rowwise = True

        def __call__(self, logits, ids):
            assert logits.dim() == 1
            return logits

    rows = [row(("one", OneRow())) for _ in range(2)]
    rows[1].chain = rows[0].chain
    assert together.can_share(rows)
    assert [pick.row for pick in generate(Uniform(), rows, 2)] == [0, 1, 0, 1]


def test_a_row_that_is_done_gets_no_more():
    rows = [row(), row()]
    seen = []
    for pick in generate(Uniform(), rows, 5):
        seen.append(pick.row)
        rows[0].done = True
    assert seen == [0, 1, 1, 1, 1, 1]
    assert len(rows[0].ids) == 2


def test_ids_the_tokenizer_does_not_know_are_never_drawn():
    drawn = tokens(Uniform(10), row(), n=200, known=3)
    assert set(drawn) == {0, 1, 2}
    assert tokens(Fixed(0.0, 1.0, 9.0), row(link("temperature", temperature=0)), known=2) == [1]
    assert tokens(Fixed(0.0, 1.0, 9.0), row(link("top_k", top_k=1)), known=2) == [1]


def test_masking_leaves_a_draw_of_known_ids_as_it_was():
    logits = torch.linspace(-1, 1, 20).tolist()
    free = tokens(Fixed(*logits), row(link("top_k", top_k=5), seed=1), n=100)
    known = tokens(Fixed(*logits), row(link("top_k", top_k=5), seed=1), n=100, known=19)
    assert 19 in free
    assert all(ours == theirs for ours, theirs in zip(known, free, strict=True) if theirs != 19)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ((0.0, math.nan), "the model produced nan"),
        ((0.0, math.inf), "the model produced inf alone"),
        ((-math.inf, -math.inf), "the model produced -inf alone"),
    ],
)
@pytest.mark.parametrize("links", [(), (link("temperature", temperature=0),)])
def test_a_broken_model_is_said(logits, message, links):
    with pytest.raises(GptreplError, match=message):
        tokens(Fixed(*logits), row(*links))


class Emptying:
    def __call__(self, logits, ids):
        return logits - math.inf


class Spoiling:
    def __call__(self, logits, ids):
        return logits * math.nan


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (Emptying(), "worst left no token to draw from"),
        (Spoiling(), "worst turned the logits into nan"),
    ],
)
def test_a_sampler_that_leaves_nothing_is_named(sampler, message):
    with pytest.raises(GptreplError, match=message):
        tokens(Uniform(), row(("worst", sampler)))


class Drawing:
    """A sampler that draws, and shows what it drew."""

    def __init__(self, generator=None):
        self.generator = generator

    def begin(self, generator):
        return Drawing(generator)

    def __call__(self, logits, ids):
        torch.rand((), generator=self.generator)
        return logits


def test_a_sampler_that_draws_never_moves_the_draw():
    plain = tokens(Uniform(), row(seed=4), n=30)
    begun = begin([("drawing", Drawing())], 4)
    assert tokens(Uniform(), row(*begun, seed=4), n=30) == plain
    assert begun[0][1].generator.initial_seed() != 4
