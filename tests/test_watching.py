"""`:watch`: a checkpoint is sampled once it is complete, and each new one again."""

from __future__ import annotations

import shutil

import pytest
import torch

from gptrepl import watching
from gptrepl.api import GptreplError, Notice, Progress, SampleEnded
from gptrepl.commands import evaluate
from gptrepl.session import Session
from gptrepl.settings import Settings


@pytest.fixture
def out(golden, tmp_path, monkeypatch):
    """The folder of a training that has written nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watching, "PAUSE", 0.01)
    shutil.copytree(golden / "nanogpt_char/data", tmp_path / "data")
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def checkpoint(golden):
    return golden / "nanogpt_char/out/ckpt.pt"


def session():
    return Session(Settings().but("command line", max_new_tokens=5))


def said(events):
    return [event.text for event in events if isinstance(event, Notice)]


def test_it_waits_for_the_first_complete_checkpoint(out, checkpoint):
    whole = checkpoint.read_bytes()
    (out / "ckpt.pt").write_bytes(whole[: len(whole) // 2])
    events, shown = evaluate(session(), ":watch out/ 1"), []
    for event in events:
        shown.append(event)
        if len([event for event in shown if isinstance(event, Progress)]) == 3:
            (out / "ckpt.pt").write_bytes(whole)
    assert sum(isinstance(event, SampleEnded) for event in shown) == 1
    (loaded,) = [text for text in said(shown) if text.startswith("loaded")]
    assert loaded.startswith("loaded out/: iteration ")
    assert ", validation loss 1.88" in loaded


def test_each_new_checkpoint_is_sampled_once(out, checkpoint):
    shutil.copy(checkpoint, out / "ckpt.pt")
    content = torch.load(checkpoint, weights_only=True)
    shown, samples = [], 0
    for event in evaluate(session(), ":watch out 2"):
        shown.append(event)
        if isinstance(event, SampleEnded) and (samples := samples + 1) == 1:
            content |= {"iter_num": 4321, "best_val_loss": torch.tensor(1.5)}
            torch.save(content, out / "ckpt.pt")
    assert samples == 2
    assert "loaded out: iteration 4321, validation loss 1.5000" in said(shown)


def test_a_checkpoint_that_cannot_be_loaded_is_said_and_the_next_one_taken(out, checkpoint):
    torch.save({"no": "model"}, out / "ckpt.pt")
    shown = []
    for event in evaluate(session(), ":watch out 1"):
        shown.append(event)
        if isinstance(event, Notice) and event.warning:
            shutil.copy(checkpoint, out / "ckpt.pt")
    assert any(text.startswith("not loaded: ") for text in said(shown))
    assert isinstance(shown[-1], SampleEnded)


def test_ctrl_c_ends_it_and_keeps_the_model(out, checkpoint):
    shutil.copy(checkpoint, out / "ckpt.pt")
    own = session()
    events = evaluate(own, ":watch out")
    for event in events:
        if isinstance(event, SampleEnded):
            break
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt)
    assert own.source == "out"


def test_it_cannot_end_before_the_first_checkpoint(out):
    for times in ("0", "-1"):
        with pytest.raises(GptreplError, match=f"times must be 1 or more, not {times}"):
            list(evaluate(session(), f":watch out {times}"))


def test_a_name_cannot_be_watched():
    with pytest.raises(GptreplError, match="'shakespeare' is no folder and no checkpoint file"):
        list(evaluate(session(), ":watch shakespeare"))
