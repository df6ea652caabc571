"""Receipts: every generation leaves one, whatever happens to the database."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fakes import Interrupted, Speller, Uniform, session_of
from gptrepl import fingerprint, receipts
from gptrepl.api import GptreplError, Notice, SampleEnded
from gptrepl.fingerprint import Fingerprint
from gptrepl.log import Log
from gptrepl.records import Store
from gptrepl.settings import Settings


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data/receipts.db"


@pytest.fixture
def log(path):
    kept = Log(path)
    yield kept
    kept.close()


def logged(log, model=None, /, **changes):
    session = session_of(model or Speller("hello "), **{"max_new_tokens": 5, **changes})
    session.recorders.append(log)
    return session


def warnings(events):
    return [e.text for e in events if isinstance(e, Notice) and e.warning]


# --- what a receipt holds -----------------------------------------------------------------------


def test_a_receipt_holds_all_that_the_text_depends_on(log):
    session = logged(log, num_samples=2, seed=2**64 - 1, top_p=0.123456789012, start="x")
    session.set(temperature=0.1 + 0.2)
    (ended, other) = [e for e in session.stream() if isinstance(e, SampleEnded)]
    (receipt,) = log.find()
    first, second = receipt.samples
    assert (first.text, second.text) == (ended.text, other.text)
    assert (first.prompt, first.prompt_ids) == ("x", [ord("x")])
    assert (first.seed, second.seed, receipt.seed) == (2**64 - 1, 0, 2**64 - 1)
    assert bytes(first.ids).decode() == "hello"
    assert len(first.logprobs) == 5
    assert first.logprobs == session.samples[0].logprobs
    assert (first.ending, receipt.ending, receipt.tokens) == ("length", "length", 10)
    assert receipt.settings["temperature"] == 0.1 + 0.2
    assert receipt.settings["top_p"] == 0.123456789012
    assert receipt.chain == ["temperature", "top_k", "top_p"]
    assert (receipt.model, receipt.device, receipt.dtype) == ("fake", "cpu", "float32")
    assert receipt.tokenizer == "Bytes, 256 ids"
    assert {"gptrepl", "torch", "python", "machine", "threads"} <= set(receipt.versions)
    assert receipt.time.endswith("+00:00")
    again = Settings().under("r", receipt.settings)
    assert again.data("top_p") == session.settings.data("top_p")


@pytest.mark.parametrize(
    ("error", "ending"),
    [(KeyboardInterrupt, "interrupted"), (GptreplError, "failed"), (ZeroDivisionError, "failed")],
)
def test_how_it_ended_is_kept(log, error, ending):
    session = logged(log, Interrupted("hello", 3, error))
    with pytest.raises(error):
        list(session.stream("x"))
    (receipt,) = log.find()
    assert receipt.samples[0].text == "xhel"
    assert receipt.ending == ending


def test_one_that_nobody_listens_to_any_more_is_kept(log):
    stream = logged(log).stream("x")
    next(stream), next(stream)
    stream.close()
    (receipt,) = log.find()
    assert receipt.samples[0].text.startswith("xh")


def test_a_preview_leaves_none(log):
    session = logged(log)
    list(session.preview(session.start("x"), 3))
    assert log.find() == []


def test_log_off_leaves_none(log, path):
    session = logged(log, log=False)
    list(session.stream("x"))
    assert not path.exists()
    session.set(log=True)
    list(session.stream("x"))
    assert len(log.find()) == 1


# --- searching ----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_index", [True, False])
def test_every_word_has_to_be_there(log, has_index):
    for said in (
        "The king is dead",
        "the queen",
        "100% \\ a_b",
        "日本語のテキスト",
        '"quoted" AND',
    ):
        list(logged(log, Speller(said), max_new_tokens=len(said.encode())).stream(">"))
    log._disk.has_index = log._disk.has_index and has_index

    def texts(text, limit=-1):
        return [receipt.samples[0].text[1:] for receipt in log.find(text, limit)]

    assert texts("king") == ["The king is dead"]
    assert texts("THE") == ["the queen", "The king is dead"]
    assert texts("the dead") == ["The king is dead"]
    assert texts("the", 1) == ["the queen"]
    assert texts("0%") == ["100% \\ a_b"]
    assert texts("\\") == ["100% \\ a_b"]
    assert texts("a%b") == []
    assert texts("テキ") == ["日本語のテキスト"]
    assert texts("日本語") == ["日本語のテキスト"]
    assert texts('"quoted" AND') == ['"quoted" AND']
    assert texts("NOT*") == []
    assert len(texts("")) == 5


def test_receipts_are_removed_by_number(log):
    session = logged(log)
    for _ in range(3):
        list(session.stream("x"))
    assert log.remove(1, 3, 9) == 2
    assert [receipt.id for receipt in log.find()] == [2]
    assert [receipt.id for receipt in log.find("hello")] == [2]
    list(session.stream("x"))
    assert log.find()[0].id == 4
    with pytest.raises(GptreplError, match="there is no receipt 3"):
        log.get(3)


def test_no_number_is_too_large_to_ask_for(log):
    list(logged(log).stream("a"))
    assert [receipt.id for receipt in log.find(limit=10**20)] == [1]
    assert log.remove(10**20, -(10**20)) == 0
    with pytest.raises(GptreplError, match="there is no receipt 100000000000000000000"):
        log.get(10**20)


def test_nothing_is_made_by_looking(log, path):
    assert log.find() == []
    with pytest.raises(GptreplError, match="there is no receipt 1"):
        log.get(1)
    assert not path.exists()


# --- the file -----------------------------------------------------------------------------------


def test_nobody_else_can_read_it(log, path):
    list(logged(log).stream("x"))
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_it_streams_into_the_file_once_a_second(log, path, monkeypatch):
    session = logged(log, max_new_tokens=9)
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) * 0.4)
    seen = []
    for event in session.stream("x"):
        if path.exists() and not isinstance(event, SampleEnded):
            (receipt,) = Log(path).find()
            seen.append(receipt.samples[0].text)
            assert receipt.ending == receipts.UNFINISHED
    assert seen[0] == "xhel"
    assert seen[-1] == "xhello hel"
    assert len(set(seen)) == 3
    assert [receipt.ending for receipt in log.find()] == ["length"]


def test_two_shells_lose_nothing(path):
    def shell(number):
        log = Log(path)
        session = logged(log, Speller(f"{number} "), seed=number)
        for _ in range(20):
            list(session.stream("x"))
        log.close()

    threads = [threading.Thread(target=shell, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Log(path).find()
    assert sorted(receipt.seed for receipt in found) == [0] * 20 + [1] * 20
    assert len({receipt.id for receipt in found}) == 40
    assert len(Log(path).find("0 0")) == 20


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes import Speller, session_of
from gptrepl.log import Log
log = Log(Path({path!r}))
session = session_of(Speller("hello "), max_new_tokens=4, seed=int(sys.argv[1]))
session.recorders.append(log)
for _ in range(25):
    assert not [e for e in session.stream("x") if getattr(e, "warning", False)]
log.close()
"""


def test_two_processes_lose_nothing(path):
    code = WRITER.format(tests=str(Path(__file__).parent), path=str(path))
    children = [subprocess.Popen([sys.executable, "-c", code, str(seed)]) for seed in (1, 2)]
    assert [child.wait(60) for child in children] == [0, 0]
    found = Log(path).find()
    assert sorted(receipt.seed for receipt in found) == [1] * 25 + [2] * 25
    assert {receipt.ending for receipt in found} == {"length"}


# --- trouble ------------------------------------------------------------------------------------


def damaged(path):
    path.write_bytes(b"this is no database, whatever its name says" * 99)


def torn(path):
    store = Store(path)
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\\xff" * (len(whole) - 4096))


def later(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


def folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (damaged, "it is damaged (file is not a database): move it away to begin a new one"),
        (torn, "it is damaged"),
        (later, "it was made by a later version of gptrepl"),
        (folder, "Is a directory"),
    ],
)
def test_a_database_that_cannot_be_used_is_said_once(log, path, harm, reason):
    path.parent.mkdir()
    harm(path)
    session = logged(log)
    events = list(session.stream("x"))
    (said,) = warnings(events)
    assert said.startswith(f"cannot write the log {path}: {reason}")
    assert said.endswith("; receipts are kept in memory until it can be written")
    assert [e.text for e in events if isinstance(e, SampleEnded)] == ["xhello"]
    assert warnings(session.stream("y")) == []
    assert [(one.id, one.samples[0].prompt) for one in log.find()] == [(-2, "y"), (-1, "x")]
    assert log.get(-1).samples[0].text == "xhello"
    assert [one.id for one in log.find("yhel")] == [-2]


def test_a_folder_that_cannot_be_made_is_said_once(log, path):
    path.parent.write_text("no folder")
    (said,) = warnings(logged(log).stream("x"))
    assert "File exists" in said or "Not a directory" in said
    assert len(log.find()) == 1


def test_one_that_is_damaged_later_loses_nothing_that_is_drawn(log, path):
    session = logged(log)
    list(session.stream("x"))
    log.close()
    damaged(path)
    for wal in path.parent.glob("*-*"):
        wal.unlink()
    assert len(warnings(session.stream("y"))) == 1
    with pytest.raises(GptreplError, match=r"cannot read the log .* damaged"):
        Log(path).find()


def test_a_locked_database_is_waited_for_and_then_said(log, path, monkeypatch):
    monkeypatch.setattr("gptrepl.log.PATIENT", 0.05)
    session = logged(log)
    list(session.stream("x"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    (said,) = warnings(session.stream("y"))
    assert f"cannot write the log {path}: database is locked" in said
    assert [one.samples[0].prompt for one in log.find()] == ["y", "x"]
    other.execute("ROLLBACK")
    list(session.stream("z"))
    assert [one.samples[0].prompt for one in Log(path).find()] == ["z", "y", "x"]
    assert {one.id for one in log.find()} == {1, 2, 3}
    other.close()


def test_what_is_in_memory_is_stored_at_the_end_if_it_can(log, path, monkeypatch):
    monkeypatch.setattr("gptrepl.log.PATIENT", 0.05)
    session = logged(log)
    list(session.stream("x"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    list(session.stream("y"))
    other.execute("ROLLBACK")
    other.close()
    log.close()
    assert [one.samples[0].prompt for one in Log(path).find()] == ["y", "x"]


def test_a_file_that_was_removed_is_made_again(log, path):
    session = logged(log)
    list(session.stream("x"))
    for file in path.parent.iterdir():
        file.unlink()
    assert warnings(session.stream("y")) == []
    assert [one.samples[0].prompt for one in Log(path).find()] == ["y"]


def mounted(folder, size):
    """Mount a small file system on *folder*, or skip the test where that is not possible."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    return folder


def test_a_full_disk_is_said_once_and_nothing_is_lost(tmp_path):
    small = mounted(tmp_path / "small", "160k")
    try:
        log = Log(small / "receipts.db")
        session = logged(log, max_new_tokens=600)
        said = []
        for _ in range(12):
            events = list(session.stream("x"))
            said += warnings(events)
            assert len(next(e for e in events if isinstance(e, SampleEnded)).text) == 601
        assert len(said) == 1
        assert "disk" in said[0] or "space" in said[0]
        assert len(log.find()) == 12
        assert any(one.id > 0 for one in log.find())
        assert any(one.id < 0 for one in log.find())
        log.close()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_read_only_home_is_said_once(tmp_path):
    small = mounted(tmp_path / "small", "160k")
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    try:
        log = Log(small / "data/receipts.db")
        session = logged(log)
        (said,) = warnings(session.stream("x"))
        assert "Read-only file system" in said
        assert warnings(session.stream("x")) == []
        assert len(log.find()) == 2
        log.close()
    finally:
        subprocess.run(["umount", str(small)], check=True)


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes import Speller, session_of
from gptrepl.log import Log

class Slow(Speller):
    def logits(self, rows):
        time.sleep(0.02)
        return super().logits(rows)

session = session_of(Slow("hello "), max_new_tokens=10)
session.recorders.append(Log(Path({path!r})))
list(session.stream("first"))
for event in session.stream("second", max_new_tokens=100000):
    print(getattr(event, "text", ""), end="", flush=True)
"""


def test_a_kill_keeps_what_is_finished_and_the_rest_up_to_a_second_ago(path):
    code = KILLED.format(tests=str(Path(__file__).parent), path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        shown = b""
        began = time.monotonic()
        while time.monotonic() - began < 2.5 or len(shown) < 100:
            shown += os.read(child.stdout.fileno(), 100)
            began = began if len(shown) > 1 else time.monotonic()
        child.kill()
        shown += child.stdout.read()
    unfinished, finished = Log(path).find()
    assert len(finished.samples[0].text) == len("first") + 10
    assert unfinished.ending == receipts.UNFINISHED
    kept = unfinished.samples[0].text.removeprefix("second")
    assert shown.decode().startswith(kept)
    assert len(shown) - len(kept) <= 1.3 / 0.02
    assert [one.id for one in Log(path).find("second")] == [2]


# --- hashes -------------------------------------------------------------------------------------


def with_files(session, *paths):
    session._loaded = type(session._loaded)(
        **{**vars(session._loaded), "fingerprint": Fingerprint(fingerprint.identify(paths))}
    )
    return session


def test_the_hash_is_computed_once_and_remembered(log, path, tmp_path, monkeypatch):
    weights = tmp_path / "ckpt.pt"
    weights.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    hashed = []
    real = fingerprint.digest
    monkeypatch.setattr(fingerprint, "digest", lambda file: hashed.append(file) or real(file))
    for _ in range(2):
        kept = Log(path)
        session = with_files(logged(kept), weights)
        list(session.stream("x"))
        list(session.stream("x"))
        kept.close()
    assert {one.hash for one in log.find()} == {expected}
    assert len(hashed) == 1
    weights.write_bytes(b"abcd")
    kept = Log(path)
    list(with_files(logged(kept), weights).stream("x"))
    kept.close()
    assert len(hashed) == 2
    assert len({one.hash for one in log.find()}) == 2


def test_a_file_that_changed_since_it_was_loaded_has_no_hash(log, path, tmp_path):
    weights = tmp_path / "ckpt.pt"
    weights.write_bytes(b"abc")
    session = with_files(logged(log), weights)
    weights.write_bytes(b"trained further")
    list(session.stream("x"))
    log.close()
    assert Log(path).find()[0].hash == ""


def test_several_files_have_one_hash_wherever_they_lie(tmp_path):
    values = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        for name in ("b", "a"):
            (tmp_path / place / name).write_text(name)
        paths = sorted((tmp_path / place).iterdir(), reverse=place == "two")
        values.append(Fingerprint(fingerprint.identify(paths)).value())
    assert values[0] == values[1] != ""
    assert Fingerprint().value() == ""


def test_the_first_token_never_waits_for_the_hash(log, tmp_path, monkeypatch):
    weights = tmp_path / "ckpt.pt"
    weights.write_bytes(b"abc")
    release = threading.Event()
    monkeypatch.setattr(fingerprint, "digest", lambda _file: release.wait(10) and "0" * 64)
    session = with_files(logged(log, Uniform(), max_new_tokens=3), weights)
    assert len(list(session.stream("x"))) == 5
    assert log.find()[0].hash == ""
    release.set()
    log.close()
    assert Log(log.path).find()[0].hash == "0" * 64
