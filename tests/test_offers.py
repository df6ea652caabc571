"""What Tab offers for values: each with a line of help, without torch and without a network."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fakes import Speller, session_of
from gptrepl import offers
from gptrepl.commands import candidates


def offered(line):
    session = session_of(Speller("x"))
    return {found.text: found.help for found in candidates(session, line)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    for name in ("out", "out-shakespeare", "empty", "hf/hub/models--org--small-gpt/snapshots"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("out", "out-shakespeare"):
        (tmp_path / name / "ckpt.pt").write_bytes(bytes(3_000_000))
    return tmp_path


@pytest.mark.parametrize("line", [":load ", ":model ", ":set model "])
def test_models_are_names_checkpoints_here_and_downloads(folder, line):
    found = offered(line)
    assert found["shakespeare"] == "by name"
    assert found["out-shakespeare/"] == "a checkpoint of 3 MB"
    assert found["org/small-gpt"] == "in the cache of the Hub"


def test_a_checkpoint_is_offered_once_beside_the_paths(folder):
    session = session_of(Speller("x"))
    texts = [found.text for found in candidates(session, ":load ")]
    assert texts.count("out/") == 1
    assert "empty/" in texts


def test_the_cache_of_the_hub_can_be_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    assert offers.cached() == {}


def test_profiles_settings_and_samplers_come_with_help():
    assert offered(":profile gre")["greedy"]
    assert offered(":set top_k")["top_k"].startswith("Keep")
    assert offered(":set num")["num_samples"] == "how many samples to draw"
    assert offered(":chain top_p")["top_p"]


def test_devices_are_those_of_this_machine_once_torch_is_there(monkeypatch):
    monkeypatch.setattr("gptrepl.devices.present", lambda: ["cuda:0", "cpu"])
    assert list(offered(":device ")) == ["auto", "cuda:0", "cpu"]
    monkeypatch.delitem(sys.modules, "torch")
    assert list(offered(":device ")) == ["auto", "cpu", "cuda", "mps"]


def test_tab_does_not_wait_for_torch():
    lines = [":load ", ":device ", ":tokenizer ", ":profile ", ":set ", ":chain ", ":dtype ", ":"]
    code = (
        "import sys\n"
        "from gptrepl.session import Session\n"
        "from gptrepl.commands import candidates\n"
        f"for line in {lines}:\n"
        "    assert list(candidates(Session(), line)), line\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
