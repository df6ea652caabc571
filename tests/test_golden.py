"""The text of the shell is nanoGPT's, held to what its own code said with these weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gptrepl import load

GENERATE = sorted((Path(__file__).parent / "golden/nanogpt_char/generate").glob("*.json"))


@pytest.fixture(scope="module")
def session(golden):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(golden / "nanogpt_char")
        yield load("out/")


@pytest.fixture(scope="module")
def reference(golden):
    """The same weights in transformers: it knows no cache of ours and no loop of ours."""
    from transformers import GPT2LMHeadModel

    return GPT2LMHeadModel.from_pretrained(golden / "gpt2_char_hf").eval()


def recorded(path):
    case = json.loads(path.read_text())
    changes = {name: case[name] for name in ("temperature", "top_k", "max_new_tokens")}
    return case, changes, case["start"]


@torch.inference_mode()
def draw(model, ids, seed, temperature, top_k, max_new_tokens, block_size=64):
    """The rule of nanoGPT's generate, with a generator seeded right before it."""
    generator, ids = torch.Generator().manual_seed(seed), list(ids)
    for _ in range(max_new_tokens):
        logits = model(torch.tensor([ids[-block_size:]])).logits[:, -1] / temperature
        least = logits.topk(min(top_k, logits.shape[-1])).values[:, [-1]]
        probabilities = logits.masked_fill(logits < least, -torch.inf).softmax(-1)
        ids.append(int(torch.multinomial(probabilities, 1, generator=generator)))
    return ids


@pytest.mark.parametrize("path", GENERATE, ids=lambda path: path.stem)
def test_the_first_sample_is_nanogpts(session, path):
    case, changes, start = recorded(path)
    text = session.generate(start=start, seed=case["seed"], **changes)
    assert text == case["samples"][0]["text"]


@pytest.mark.parametrize("path", GENERATE, ids=lambda path: path.stem)
def test_the_next_samples_are_nanogpts_with_the_next_seeds(session, reference, path):
    case, changes, start = recorded(path)
    texts = session.generate(start=start, n=3, seed=case["seed"], **changes)
    for index in (1, 2):
        ids = draw(reference, case["prompt_ids"], case["seed"] + index, **changes)
        tokenizer = session.tokenizer
        assert texts[index] == b"".join(map(tokenizer.token_bytes, ids)).decode()


@pytest.mark.parametrize("path", GENERATE, ids=lambda path: path.stem)
def test_a_batch_gives_each_row_as_if_it_were_alone(session, path):
    case, changes, start = recorded(path)
    together = session.generate(start=start, n=4, seed=case["seed"], **changes)
    for index in (3, 0, 1):
        alone = session.generate(start=start, seed=case["seed"] + index, **changes)
        assert alone == together[index]


def test_greedy_is_the_same_for_every_seed(session):
    texts = {session.generate("ROMEO:", temperature=0, seed=seed) for seed in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize("tiny", ["1e-10", "1e-40", "1e-320"])
def test_a_tiny_temperature_behaves_as_zero(session, tiny):
    zero = session.generate("ROMEO:", temperature=0, max_new_tokens=60)
    assert session.generate("ROMEO:", temperature=tiny, max_new_tokens=60) == zero
