"""The engine against nanoGPT: recorded logits and texts, and its own full recomputation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gptrepl.api import GptreplError
from gptrepl_plugins.models import kernels
from gptrepl_plugins.models.activations import ACTIVATIONS
from gptrepl_plugins.models.gpt import GPT, GPTConfig

SMALL = GPTConfig(block_size=8, vocab_size=11, n_layer=2, n_head=2, n_embd=8)


@pytest.fixture(scope="module")
def trained(golden: Path) -> GPT:
    """The recorded checkpoint, loaded as nanoGPT's sample.py loads it."""
    checkpoint = torch.load(golden / "nanogpt_char/out/ckpt.pt", weights_only=True)
    model = GPT(GPTConfig(**checkpoint["model_args"]))
    model.load_state_dict(checkpoint["model"])
    model.eval()
    return model.to("cpu")


@pytest.fixture
def small() -> GPT:
    return fresh(SMALL)


def fresh(config: GPTConfig) -> GPT:
    """A model with random weights; large ones, so that each id matters."""
    torch.manual_seed(5)
    model = GPT(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.5)
    return model.eval()


def recompute(model: GPT, row: Sequence[int]) -> Tensor:
    """The last logits of a row through the modules, without any cache."""
    with torch.no_grad():
        return model(torch.tensor([row[-model.block_size :]]))[0][0, -1]


def agree(model: GPT, rows: Sequence[Sequence[int]]) -> None:
    expected = torch.stack([recompute(model, row) for row in rows])
    torch.testing.assert_close(model.logits(rows), expected, rtol=1e-4, atol=1e-4)


def references(golden: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((golden / "nanogpt_char/generate").glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def draw(logits: Tensor, generator: torch.Generator, temperature: float, top_k: int) -> int:
    """Draw as nanoGPT: every logit tied with the k-th stays, multinomial over the vocabulary."""
    logits = logits / temperature
    least = torch.topk(logits, min(top_k, len(logits))).values[-1]
    logits = torch.where(logits < least, -torch.inf, logits)
    return int(torch.multinomial(torch.softmax(logits, -1), 1, generator=generator))


# --- against the records ------------------------------------------------------------------------


def test_logits_are_those_recorded(trained: GPT, golden: Path) -> None:
    for row in json.loads((golden / "nanogpt_char/logits.json").read_text())["rows"]:
        logits = trained.logits([row["ids"]])[0]
        assert logits.dtype == torch.float32
        torch.testing.assert_close(logits, torch.tensor(row["last_logits"]), rtol=0, atol=1e-5)


def test_generate_gives_every_sample_from_one_stream(trained: GPT, golden: Path) -> None:
    for record in references(golden):
        torch.manual_seed(record["seed"])
        prompt = torch.tensor(record["prompt_ids"])[None]
        for sample in record["samples"]:
            y = trained.generate(
                prompt, record["max_new_tokens"], record["temperature"], record["top_k"]
            )
            assert y[0].tolist() == sample["ids"]


def test_cached_batched_and_recomputed_ids_are_the_same(trained: GPT) -> None:
    prompt, seeds, steps = [30, 27, 25, 17, 27, 10], range(3), 75
    batched = [list(prompt) for _ in seeds]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(steps):
        logits = trained.logits(batched)
        for row, ids, generator in zip(logits, batched, generators, strict=True):
            ids.append(draw(row, generator, 0.8, 200))
    for seed in seeds:
        alone, recomputed = list(prompt), list(prompt)
        one, other = (torch.Generator().manual_seed(seed) for _ in range(2))
        for _ in range(steps):
            alone.append(draw(trained.logits([alone])[0], one, 0.8, 200))
            recomputed.append(draw(recompute(trained, recomputed), other, 0.8, 200))
        assert batched[seed] == alone == recomputed


# --- rows of any kind ---------------------------------------------------------------------------

SCENES: dict[str, list[list[list[int]]]] = {
    "one row, token by token": [[[1]], [[1, 2]], [[1, 2, 3]]],
    "the window slides": [[list(range(7))], [list(range(8))], [list(range(9))], [[*range(9), 1]]],
    "undo": [[[1, 2, 3, 4]], [[1, 2]], [[1, 2, 5, 6]]],
    "another text": [[[1, 2, 3]], [[4, 5]]],
    "a follow-up turn": [[[1, 2, 3]], [[1, 2, 3, 4, 5, 6]]],
    "the same again": [[[1, 2, 3]], [[1, 2, 3]]],
    "equal rows part": [[[1, 2], [1, 2], [1, 2]], [[1, 2, 3], [1, 2, 3], [1, 2, 4]],
                        [[1, 2, 3, 5], [1, 2, 3, 6], [1, 2, 4, 5]]],
    "a row drops out": [[[1, 2], [3, 4], [5, 6]], [[1, 2, 7], [5, 6, 7]], [[5, 6, 7, 8]]],
    "rows change places": [[[1, 2], [3, 4]], [[3, 4, 5], [1, 2, 5]]],
    "rows join": [[[1, 2]], [[1, 2, 3], [4, 5]], [[4, 5, 6], [1, 2, 3, 4], [4, 5, 7]]],
    "different lengths": [[[1], [2, 3, 4]], [[1, 5], [2, 3, 4, 6]], [[1, 5, 6], [2, 3, 4, 6, 7]]],
    "some beyond the window": [[[1], list(range(8))], [[1, 5], [*range(8), 1], [3]],
                               [[1, 5, 7], [*range(8), 1, 2], [3, 4]]],
    "alternatives for the last id": [[[1, 2, 3]], [[1, 2, 4], [1, 2, 5], [1, 2, 6]]],
    "long and short gaps": [[[1, 2], [3, 4]], [[1, 2, 3, 4], [3, 5], [1, 2, 3, 5]]],
    "very long": [[[1] * 50], [[2] * 5 + [1] * 45]],
}  # fmt: skip


@pytest.mark.parametrize("calls", SCENES.values(), ids=SCENES.keys())
@pytest.mark.parametrize("bias", [True, False])
def test_calls_do_not_influence_each_other(calls: list[list[list[int]]], bias: bool) -> None:
    model = fresh(GPTConfig(8, 11, 2, 2, 8, bias=bias))
    for rows in calls:
        agree(model, rows)


def test_random_calls_do_not_influence_each_other(small: GPT) -> None:
    chance = torch.Generator().manual_seed(3)

    def number(below: int) -> int:
        return int(torch.randint(below, (), generator=chance))

    rows = [[1]]
    for _ in range(150):
        grown = [row[: 1 + number(len(row))] if number(8) == 0 else row for row in rows]
        rows = [[*row, *(number(3) for _ in range(number(3) // 2 + 1))] for row in grown]
        rows += [list(rows[number(len(rows))]) for _ in range(number(3) // 2)]
        rows = [row for row in rows if number(6)] or [[number(11)]]
        rows = rows[-5:]
        agree(small, rows)


def test_room_not_yet_written_is_never_seen(small: GPT) -> None:
    small.logits([[1]])
    decoder = small._decoder
    assert decoder is not None
    room = decoder._cache._layer(2, 8)
    assert not room.room.any()  # a nan there would go through the mask of rows of unequal length


@pytest.mark.parametrize("is_small", [True, False])
def test_room_grows_with_the_text_and_never_beyond_the_block(
    monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if not is_small:
        monkeypatch.setattr(kernels, "SMALL", 0)
        monkeypatch.setattr(kernels, "fastest", lambda shape, **_how: kernels.Plain)
    model = fresh(GPTConfig(150, 11, 1, 2, 8))
    text = [n % 11 for n in range(160)]
    for length in (1, 63, 64, 65, 66, 128, 129, 149, 150, 151, 160, 70, 71, 72, 130):
        agree(model, [text[:length], [3, *text[: length - 1]]])
    decoder = model._decoder
    assert decoder is not None
    parts = 3 if is_small else 2  # queries, keys, values
    assert decoder._cache._layers[0].room.shape == (2, 150, parts, 2, 4)


def test_rows_are_not_kept_or_changed(small: GPT) -> None:
    row = [1, 2, 3]
    before = small.logits([row])
    assert row == [1, 2, 3]
    row[1] = 4  # the caller's list is the caller's
    agree(small, [row])
    agree(small, [(1, 2, 3), [1, 2, 3]])
    torch.testing.assert_close(small.logits([[1, 2, 3]]), before)


def test_an_interrupt_at_any_place_leaves_the_logits_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = -1

    def trips(x: Tensor) -> Tensor:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return torch.relu(x)

    monkeypatch.setitem(ACTIVATIONS, "trips", trips)
    model = fresh(GPTConfig(8, 11, 3, 2, 8, activation="trips"))
    calls = [[[1, 2, 3]], [[1, 2, 3, 4], [1, 2, 5]], [[1, 2, 5, 6], [1, 2, 3, 4, 7]]]
    for rows in calls:
        for place in (1, 2, 3):
            for before in calls:
                model.logits(before)
                left = place
                with pytest.raises(KeyboardInterrupt):
                    model.logits(rows)
                left = -1
                agree(model, rows)


def test_the_cache_is_used(trained: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_seen: list[int] = []

    def counts(x: Tensor) -> Tensor:
        rows_seen.append(len(x))
        return torch.relu(x)

    monkeypatch.setitem(ACTIVATIONS, "counts", counts)
    model = fresh(GPTConfig(16, 11, 2, 2, 8, activation="counts"))

    def first_layer(rows: list[list[int]]) -> int:
        rows_seen.clear()
        model.logits(rows)
        return sum(rows_seen[::2])

    assert first_layer([[1, 2, 3, 4]] * 5) == 4  # five samples of one prompt: one prefill
    assert first_layer([[1, 2, 3, 4, n] for n in range(5)]) == 5  # then one batch
    assert first_layer([[1, 2, 3, 4, n, n] for n in (0, 3)]) == 2  # rows that stopped are gone
    assert first_layer([[1, 2, 3, 4, 3, 3, 7, 8]]) == 2  # a follow-up turn
    assert first_layer([[1, 2, 3, 4, 3, 3, 7, 9]]) == 1  # another last id
    assert first_layer([[5, 6, 7]]) == 3


def test_bad_rows_are_refused_in_one_line(small: GPT) -> None:
    small.logits([[1, 2]])
    with pytest.raises(GptreplError, match=r"^id 11 is outside the model's vocabulary of 11$"):
        small.logits([[1, 2, 11]])
    with pytest.raises(GptreplError, match=r"^id -1 is outside"):
        small.logits([[1, -1]])
    with pytest.raises(GptreplError, match="holds no ids"):
        small.logits([[1], []])
    agree(small, [[1, 2, 3]])


def test_no_rows_are_no_logits(small: GPT) -> None:
    assert small.logits([]).shape == (0, 11)


def test_drawing_uses_no_random_numbers_of_the_model(small: GPT) -> None:
    before = torch.get_rng_state()
    small.logits([[1, 2, 3]])
    assert torch.equal(torch.get_rng_state(), before)


# --- code written for nanoGPT -------------------------------------------------------------------


def test_generate_takes_a_batch_as_nanogpt_does(small: GPT) -> None:
    prompt = torch.tensor([[1, 2], [3, 4], [1, 2]])
    torch.manual_seed(9)
    y = small.generate(prompt, 12, temperature=0.9, top_k=5)
    assert y.shape == (3, 14)
    assert y.dtype == prompt.dtype
    torch.manual_seed(9)
    ids = prompt
    for _ in range(12):
        with torch.no_grad():
            logits = small(ids[:, -8:])[0][:, -1] / 0.9
        logits[logits < logits.topk(5).values[:, [-1]]] = -torch.inf
        ids = torch.cat((ids, torch.multinomial(logits.softmax(-1), 1)), 1)
    assert torch.equal(y, ids)


def test_weights_changed_in_place_are_noticed(small: GPT) -> None:
    small.logits([[1, 2, 3]])
    with torch.no_grad():
        small.transformer.wpe.weight.mul_(2)
    agree(small, [[1, 2, 3, 4]])
    other = fresh(SMALL)
    torch.nn.init.normal_(other.transformer.wpe.weight)
    small.load_state_dict(other.state_dict())
    agree(small, [[1, 2, 3, 4]])
    assert small.to(torch.float64).logits([[1, 2, 3]]).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_float32_logits_near_the_exact_ones(
    trained: GPT, dtype: torch.dtype
) -> None:
    half = GPT(trained.config)
    half.load_state_dict(trained.state_dict())
    logits = half.eval().to(dtype).logits([[30, 27, 25]])
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, trained.logits([[30, 27, 25]]), rtol=0.1, atol=0.3)


def test_loss_and_logits_of_training_code(small: GPT) -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    logits, loss = small(ids, torch.tensor([[2, 3, 4, 5]]))
    assert logits.shape == (1, 4, 11)
    expected = torch.nn.functional.cross_entropy(logits[0], torch.tensor([2, 3, 4, 5]))
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert small.transformer.h[0].attn.c_attn.weight.grad is not None
    assert small(ids)[0].shape == (1, 1, 11)


def test_crop_block_size(small: GPT) -> None:
    small.crop_block_size(4)
    assert small.block_size == 4
    agree(small, [[1, 2, 3, 4, 5, 6]])
    with pytest.raises(GptreplError, match="block_size 9 is above 4"):
        small.crop_block_size(9)


def test_the_variants_of_gpt2_configurations() -> None:
    for change in (
        {"activation": "gelu_new"},
        {"n_inner": 12},
        {"tied": False},
        {"layer_norm_eps": 0.5},
        {"scale_attn_weights": False},
        {"scale_attn_by_inverse_layer_idx": True},
    ):
        model = fresh(GPTConfig(8, 11, 2, 2, 8, **change))
        agree(model, [[1, 2, 3], [1, 2, 4]])
        assert not torch.allclose(model.logits([[1, 2, 3]]), fresh(SMALL).logits([[1, 2, 3]]))


def test_impossible_configurations_are_refused() -> None:
    with pytest.raises(GptreplError, match="n_embd 10 cannot be divided among n_head 4 heads"):
        GPTConfig(n_embd=10, n_head=4)
    with pytest.raises(GptreplError, match="no activation named 'tanhh'"):
        GPTConfig(activation="tanhh")
