"""The number of threads is measured, never raised, and left alone where somebody chose it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from gptrepl_plugins.models import threads
from gptrepl_plugins.models.gpt import GPT, GPTConfig


class Sleeper:
    """A model that takes as long as it is told for each number of threads."""

    vocab_size, block_size = 2, None

    def __init__(self, seconds: dict[int, float]):
        self.seconds = seconds

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        time.sleep(self.seconds[torch.get_num_threads()])
        return torch.zeros(len(rows), 2)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_most", 2)
    monkeypatch.setattr(threads, "_last", 0)
    monkeypatch.setattr(threads, "_PATIENCE", 0.01)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_faster_number_is_chosen() -> None:
    assert threads.choose(Sleeper({1: 0.001, 2: 0.005})) == 1
    assert threads.choose(Sleeper({1: 0.005, 2: 0.001})) == 2
    assert torch.get_num_threads() == 2


def test_what_was_set_here_is_no_limit_later() -> None:
    threads.use(1)
    assert threads.choose(Sleeper({1: 0.005, 2: 0.001})) == 2
    assert torch.get_num_threads() == 1


def test_a_number_somebody_chose_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    assert threads.choose(Sleeper({1: 0.005, 2: 0.001})) is None
    torch.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads.choose(Sleeper({1: 0.001, 2: 0.005})) is None


def test_a_model_runs_on_its_number() -> None:
    model = GPT(GPTConfig(8, 11, 1, 1, 8)).eval()
    model.logits([[1]])
    assert torch.get_num_threads() == 2
    model.threads = 1
    model.logits([[1]])
    assert torch.get_num_threads() == 1
