"""The bench: every figure once a round, peers by their protocol; no test asserts a time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fakes import Speller, session_of
from gptrepl import bench, cli
from gptrepl.api import GptreplError
from gptrepl.bench import Bench, Figure
from gptrepl.cli.peers import Peer

PEER = """
import json, sys
print(json.dumps({"ready": "fake"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["tokens"] == 13:
        print(json.dumps({"error": "13 is too many"}), flush=True)
    elif asked["tokens"] == 14:
        print("what", flush=True)
    else:
        print(json.dumps({"first": 0.5, "seconds": 0.5 + asked["tokens"]}), flush=True)
"""


@pytest.fixture
def peer(tmp_path):
    path = tmp_path / "peer.py"
    path.write_text(PEER)
    return path


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(bench, "BYTES", 1 << 12)
    session = session_of(Speller("some text", block_size=32))
    made = Bench(session.loaded, session.settings, 8)
    assert list(made.rounds(2)) == [1, 2]
    return made


def test_each_figure_is_taken_once_a_round(measured):
    assert all(len(figure.values) == 2 for figure in measured.figures.values())
    assert all(min(figure.values) > 0 for figure in measured.figures.values())
    assert {"decode", "prefill", "chain and draw"} <= set(measured.figures)
    assert "share of the roofline" not in measured.figures  # this model reads no weights


def test_the_first_token_of_a_turn_is_timed_as_a_chat_grows(measured):
    names = [name for name in measured.figures if name.startswith("first token of a turn")]
    assert names == [f"first token of a turn after {before} tokens" for before in (9, 22)]
    roomy = session_of(Speller("some text"))
    assert Bench(roomy.loaded, roomy.settings).before == [9, 100, 300, 900]
    narrow = session_of(Speller("some text", block_size=4))
    assert Bench(narrow.loaded, narrow.settings).before == [1]


def test_a_turn_begins_where_the_chat_is_in_memory(measured):
    calls = measured.loaded.model.calls
    calls.clear()
    assert measured._follow(9) > 0
    (before,), (after,) = calls
    assert (len(before), len(after)) == (9, 18)
    assert after[:9] == before


def test_no_prompt_is_the_beginning_of_another(measured):
    assert measured.ids(9) != measured.ids(9)
    assert measured.prompt + measured.new <= 32


def test_the_median_and_the_range():
    figure = Figure("ms", [3.0, 1.0, 2.0])
    assert (figure.median, figure.range) == (2.0, (1.0, 3.0))


def test_a_noisy_machine_is_said(measured):
    measured.figures["memory bandwidth"] = Figure("GB/s", [10.0, 12.0])
    assert measured.noise == ""
    measured.figures["memory bandwidth"] = Figure("GB/s", [10.0, 20.0])
    assert measured.noise.startswith("the machine was too noisy: its memory gave 10.0 to 20.0 GB/s")


def test_a_peer_answers_lines(peer):
    other = Peer(str(peer), "any")
    assert other.name == "fake"
    assert other.ask([1, 2], 4, 0.8, 200) == (0.5, 4.5)
    with pytest.raises(GptreplError, match="the peer fake: 13 is too many"):
        other.ask([1], 13, 0.8, 200)


def test_a_peer_that_breaks_the_protocol_is_said(peer):
    other = Peer(str(peer), "any")
    with pytest.raises(GptreplError, match="the peer fake said 'what', which is no object"):
        other.ask([1], 14, 0.8, 200)
    with pytest.raises(
        GptreplError, match="no peer 'llama': it is nanogpt, transformers or a file"
    ):
        Peer("llama", "any")
    peer.write_text("")
    with pytest.raises(GptreplError, match="ended by itself"):
        Peer(str(peer), "any")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_command_writes_json(peer, golden, capsys, monkeypatch):
    monkeypatch.setattr(bench, "BYTES", 1 << 12)
    source = str(golden / "nanogpt_char/out/ckpt.pt")
    words = ["bench", source, "--rounds", "1", "--tokens", "4", "--json", "--against", str(peer)]
    assert cli.run(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["fake: decode"]["median"] == pytest.approx(3 / 4)
    assert found["figures"]["share of the roofline"]["unit"] == "%"
    assert cli.run(["bench", "nowhere/at/all"]) == 3


def test_the_peer_of_nanogpt_runs_its_loop(golden):
    source = str(golden / "nanogpt_char/out/ckpt.pt")
    asked = json.dumps({"ids": [1, 2], "tokens": 3, "temperature": 0.8, "top_k": 5})
    done = subprocess.run(
        [sys.executable, "-m", "gptrepl.cli.peers.nanogpt", source],
        input=asked + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    ready, answer = map(json.loads, done.stdout.splitlines())
    assert ready == {"ready": "nanogpt"}
    assert 0 < answer["first"] <= answer["seconds"]
