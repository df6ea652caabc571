"""Models tell how far a long pass has come, and compute the same whether they do or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from gptrepl_plugins.models.causal import CausalModel
from gptrepl_plugins.models.gpt import GPT, GPTConfig
from gptrepl_plugins.models.layers import LONG, layers_of, told

SIZE = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 200}


def engine() -> GPT:
    torch.manual_seed(1)
    shape = GPTConfig(block_size=200, vocab_size=50, n_layer=3, n_head=2, n_embd=8)
    return GPT(shape).eval()


def causal() -> CausalModel:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**SIZE, **HEADS)
    return CausalModel(transformers.AutoModelForCausalLM.from_config(config).eval())


@pytest.mark.parametrize("made", [engine, causal])
def test_each_layer_of_a_long_pass_is_told_and_no_bit_changes(made: Any) -> None:
    row = [at * 7 % 50 for at in range(LONG + 1)]
    expected = made().logits([row])
    model, calls = made(), []
    model.progress = lambda done, total: calls.append((done, total))
    assert torch.equal(model.logits([row]), expected)
    assert calls == [(1, 3), (2, 3), (3, 3)]
    model.logits([[*row, 1]])  # one id: nobody waits for that
    model.logits([row[::-1][:LONG]])
    assert len(calls) == 3
    model.progress = None
    model.logits([row[1:]])
    assert len(calls) == 3


@pytest.mark.parametrize("made", [engine, causal])
def test_a_pass_that_is_stopped_between_two_layers_leaves_nothing_behind(made: Any) -> None:
    row = [at * 7 % 50 for at in range(LONG + 1)]
    expected = made().logits([row])
    model = made()

    def stop(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    model.progress = stop
    with pytest.raises(KeyboardInterrupt):
        model.logits([row])
    model.progress = None
    assert torch.equal(model.logits([row]), expected)


def test_the_layers_are_the_longest_list_that_is_no_part_of_another() -> None:
    layers = nn.ModuleList([nn.ModuleList([nn.Linear(1, 1) for _ in range(9)]) for _ in range(2)])
    network = nn.Sequential(nn.ModuleList([nn.Linear(1, 1)]), nn.Sequential(layers))
    assert layers_of(network) == list(layers)
    assert layers_of(nn.Linear(1, 1)) == []
    with told(nn.Linear(1, 1), print):
        pass
