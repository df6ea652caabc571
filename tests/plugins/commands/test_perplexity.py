"""The perplexity of a text, against sums done by hand."""

from __future__ import annotations

import math

import pytest
import torch

from fakes import Speller, Uniform, session_of
from gptrepl.api import GptreplError, Notice
from gptrepl_plugins.commands.perplexity import perplexity, windows
from gptrepl_plugins.models.gpt import GPT, GPTConfig


def said(session, path):
    return [event.text for event in perplexity(session, path) if isinstance(event, Notice)][-1]


@pytest.mark.parametrize("size", [2, 3, 8, 9, 12, 13, 40])
@pytest.mark.parametrize("context", [1, 2, 8])
def test_every_id_but_the_first_counts_once(size, context):
    foretold = []
    for row, count in windows(size, context):
        assert 0 < count <= len(row) <= context
        assert len(row) >= min(row.stop, context) or row.start == 0
        foretold += range(row.stop - count + 1, row.stop + 1)
    assert foretold == list(range(1, size))


def test_of_a_model_that_knows_nothing_it_is_the_vocabulary(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("some text")
    assert said(session_of(Uniform(256, 4)), path).startswith("perplexity 256.0000 of 8 tokens")
    assert ", 7.1111 bits a byte" in said(session_of(Uniform()), path)


def test_of_a_model_that_knows_the_text_it_is_one(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("?known")
    assert said(session_of(Speller("known")), path).startswith("perplexity 1.0000 of 5 tokens")


def test_it_is_the_loss_of_each_window(tmp_path):
    torch.manual_seed(0)
    model = GPT(GPTConfig(8, 256, 1, 2, 8)).eval()
    text = "a text of some length"
    path = tmp_path / "text.txt"
    path.write_text(text)
    ids, nats = list(text.encode()), 0.0
    for end in range(1, len(ids)):
        start = 0 if end <= 8 else ((end - 9) // 4 + 1) * 4
        logits = model.logits([ids[start:end]])[0]
        nats -= float(logits.log_softmax(-1)[ids[end]])
    expected = math.exp(nats / (len(ids) - 1))
    found = float(said(session_of(model), path).split()[1])
    assert found == pytest.approx(expected, rel=1e-3)


def test_texts_that_have_none_are_refused(tmp_path):
    path = tmp_path / "text.txt"
    with pytest.raises(GptreplError, match="cannot read the text"):
        said(session_of(Uniform()), path)
    path.write_text("a")
    with pytest.raises(GptreplError, match="has 1 tokens, and perplexity takes two or more"):
        said(session_of(Uniform()), path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(GptreplError, match="is no UTF-8 text"):
        said(session_of(Uniform()), path)
