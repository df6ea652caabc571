"""`gptrepl sample` leaves receipts, and they are drawn again to the token."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from gptrepl import cli
from gptrepl.commands import evaluate
from gptrepl.log import Log, default_path
from gptrepl.receipts import UNFINISHED
from gptrepl.session import Session

SEPARATOR = "\n---------------\n"
RECORDED = "sample_py/08_romeo_k200.json"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, golden):
    """Run the command where `out/` is, with folders of its own; return status and output."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home/gptrepl").mkdir(parents=True)
    for name in ("out", "data"):
        (tmp_path / name).symlink_to(golden / "nanogpt_char" / name)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = cli.run(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def begin(*words):
    """Begin `gptrepl sample` on a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "gptrepl", "sample", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


# --- drawn again --------------------------------------------------------------------------------


def test_a_recorded_output_of_sample_py_is_a_receipt(run, golden):
    case = json.loads((golden / "nanogpt_char" / RECORDED).read_text())
    status, out, _ = run("sample", *case["args"])
    assert (status, out) == (0, case["stdout"].partition("meta.pkl...\n")[2])
    (receipt,) = Log().find()
    assert [one.text for one in receipt.samples] == out.split(SEPARATOR)[:-1]
    assert [(one.seed, one.stream) for one in receipt.samples] == [
        (1337, 0),
        (1337, 300),
        (1337, 600),
    ]
    assert run("replay", "1")[:2] == (0, "receipt 1\nidentical: 900 tokens in 3 samples\n")
    assert "sample 2: seed 1337 after 300 draws of one stream" in run("log", "show", "1")[1]
    run("log", "export", "all.jsonl")
    assert run("replay", "all.jsonl")[0] == 0
    assert run("sample", *case["args"])[1] == out


@pytest.mark.parametrize(
    "options",
    [
        ["--num_samples=33", "--max_new_tokens=3"],
        ["--num_samples=33", "--max_new_tokens=3", "--independent"],
        ["--seed=random", "--num_samples=3"],
        ["--temperature=0", "--num_samples=2"],
        ["--xtc=0.5 threshold=0.05", "--num_samples=4"],
        ["--chain=top_p temperature", "--top_p=0.9", "--num_samples=2"],
        ["--start=", "--num_samples=2"],
        ["--tokenizer=char:data/shakespeare_char/meta.pkl", "--num_samples=2"],
    ],
)
def test_whatever_was_drawn_is_drawn_again(run, options):
    status, out, _ = run("sample", "--max_new_tokens=20", *options)
    assert status == 0
    (receipt,) = Log().find()
    assert [one.text for one in receipt.samples] == out.split(SEPARATOR)[:-1]
    assert run("log", "export", "all.jsonl")[0] == 0
    status, said, err = run("replay", "1", "all.jsonl")
    assert (status, err) == (0, "")
    assert said.count(f"identical: {receipt.tokens} tokens in {len(receipt.samples)} ") == 2


def test_drift_is_status_4_and_names_the_sample_and_the_token(run, tmp_path):
    run("sample", "--num_samples=3", "--max_new_tokens=20", "--start=ROMEO:")
    run("log", "export", "all.jsonl")
    receipt = json.loads((tmp_path / "all.jsonl").read_text())
    ids = receipt["samples"][2]["ids"]
    ids[7] = (ids[7] + 1) % 65
    (tmp_path / "all.jsonl").write_text(json.dumps(receipt))
    status, _, err = run("replay", "all.jsonl")
    assert status == 4
    assert err.startswith("not identical: sample 3 has another token 8: it was ")
    receipt["samples"][2]["stream"] = 0
    (tmp_path / "all.jsonl").write_text(json.dumps(receipt))
    assert run("replay", "all.jsonl")[2].startswith("not identical: sample 3 has another token 2:")


def test_a_shell_replays_one_and_goes_on_with_its_own_text(run):
    run("sample", "--num_samples=2", "--max_new_tokens=9", "--seed=5")
    session = Session()
    session.recorders.append(Log())
    said = []
    for line in (":load out", ":tokens 5", "O", ":replay 1", ":more 3", ":retry", ":undo", ":text"):
        said += [getattr(event, "text", "") for event in evaluate(session, line)]
    assert "identical: 18 tokens in 2 samples" in said
    assert said[-1] == session.samples[0].text
    assert (len(session.samples[0].ids), len(session.samples[0].tokens)) == (1 + 5, 3)


# --- keeping none -------------------------------------------------------------------------------

SHORT = ("--num_samples=1", "--max_new_tokens=2")


def test_who_wants_no_receipts_gets_none(run, tmp_path, monkeypatch):
    config = tmp_path / "home/gptrepl/config.yaml"
    (tmp_path / "quiet.yaml").write_text("log: off\n")
    texts = [run("sample", *SHORT, "--start=a")[1]]
    words = ("--no-log", "--no_log", "--NO-LOG", "quiet.yaml")
    texts += [run("sample", *SHORT, "--start=a", word)[1] for word in words]
    config.write_text("log: off\ntemperature: 0.01\nprofile: creative\n")
    texts.append(run("sample", *SHORT, "--start=a")[1])
    texts.append(run("sample", *SHORT, "--start=a", "--log")[1])
    config.write_text("profile: quiet.yaml\n")
    texts.append(run("sample", *SHORT, "--start=a")[1])
    config.unlink()
    monkeypatch.setenv("GPTREPL_LOG", "off")
    texts.append(run("sample", "--independent", "--no-log", *SHORT, "--start=a")[1])
    texts.append(run("sample", *SHORT, "--start=a")[1])
    texts.append(run("sample", "quiet.yaml", "--log", *SHORT, "--start=a")[1])
    assert len(Log().find()) == 3
    assert len({*texts[:-3], *texts[-2:]}) == 1


def test_a_configuration_with_a_fault_is_said_as_elsewhere(run, tmp_path, monkeypatch):
    config = tmp_path / "home/gptrepl/config.yaml"
    config.write_text("log: of\n")
    status, out, err = run("sample", *SHORT)
    assert (status, out) == (2, "")
    assert f"{config}:1: log must be on or off, not 'of'" in err
    config.unlink()
    monkeypatch.setenv("GPTREPL_LOGG", "off")
    assert "GPTREPL_LOGG sets nothing (did you mean GPTREPL_LOG?)" in run("sample", *SHORT)[2]


def test_what_fails_before_the_first_token_leaves_none(run):
    assert run("sample", "--start=caf\u00e9")[0] == 1
    assert run("sample", "--out_dir=gone")[0] == 3
    assert run("sample", "--banned=caf\u00e9")[0] == 1
    assert not default_path().exists()


# --- trouble ------------------------------------------------------------------------------------


def test_a_damaged_database_is_one_line_beside_the_text(run):
    _, expected, _ = run("sample", *SHORT, "--no-log")
    default_path().write_bytes(b"this is no database" * 999)
    status, out, err = run("sample", *SHORT)
    assert (status, out) == (0, expected)
    assert err.count(f"cannot write the log {default_path()}: it is damaged") == 1
    assert "Traceback" not in err


def test_a_locked_database_is_one_line_beside_the_text(run, monkeypatch):
    monkeypatch.setattr("gptrepl.log.PATIENT", 0.05)
    _, expected, _ = run("sample", *SHORT)
    other = sqlite3.connect(default_path(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    status, out, err = run("sample", *SHORT)
    other.execute("ROLLBACK")
    other.close()
    assert (status, out) == (0, expected)
    assert err.count("database is locked") == 1


@pytest.mark.parametrize("way", [[], ["--independent"]])
def test_ctrl_c_keeps_what_was_drawn_and_it_is_drawn_again(run, way):
    with begin("--num_samples=3", "--max_new_tokens=100000", *way) as child:
        shown = b""
        while len(shown) < 60:
            shown += os.read(child.stdout.fileno(), 60)
        child.send_signal(signal.SIGINT)
        rest, err = child.communicate(timeout=60)
    assert (child.returncode, b"Traceback" in err) == (130, False)
    (receipt,) = Log().find()
    assert receipt.ending == "interrupted"
    assert receipt.settings["max_new_tokens"] == 100000
    texts = (shown + rest).decode().split(SEPARATOR)[:-1]
    assert [one.text for one in receipt.samples] == texts
    assert len(texts) == 3
    assert run("replay", "1")[0] == 0


def test_a_kill_keeps_what_was_drawn_up_to_a_second_ago(run):
    with begin("--num_samples=2", "--max_new_tokens=100000") as child:
        began, found = time.monotonic(), []
        while not found and time.monotonic() < began + 60:
            os.read(child.stdout.fileno(), 1 << 16)
            found = Log().find() if default_path().exists() else []
        child.kill()
    (receipt,) = Log().find()
    assert (receipt.ending, len(receipt.samples)) == (UNFINISHED, 2)
    assert receipt.samples[1].stream == 100000
    assert run("replay", "1")[0] == 0


def test_a_reader_that_has_seen_enough_loses_no_receipt(run):
    with begin("--num_samples=2", "--max_new_tokens=3000") as child:
        assert child.stdout.read(100)
        child.stdout.close()
        err = child.stderr.read()
    assert (child.returncode, b"Traceback" in err) == (0, False)
    (receipt,) = Log().find()
    assert receipt.ending == UNFINISHED
    assert run("replay", "1")[0] == 0
