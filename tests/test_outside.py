"""Texts that go into files and programs."""

from __future__ import annotations

import contextlib

import pytest

from fakes import Interrupted, Speller, session_of
from gptrepl.api import GptreplError, Notice
from gptrepl.commands import evaluate


@pytest.fixture
def session():
    return session_of(Speller("de", 3), max_new_tokens=2)


def run(session, *lines):
    return [event for line in lines for event in evaluate(session, line)]


def notices(events):
    return [event.text for event in events if isinstance(event, Notice)]


def test_tee_copies_every_text_behind_what_is_there(session, tmp_path):
    path = tmp_path / "texts"
    path.write_text("before\n")
    assert notices(run(session, f":tee {path}", "abc", ":samples 2", "xyz")) == [
        f"tee {path}",
        "num_samples 2",
    ]
    line = "---------------\n"
    assert path.read_text() == f"before\nabcde\n{line}xyzde\n{line}xyzde\n{line}"
    assert notices(run(session, ":tee", ":tee off", ":tee")) == [
        f"texts go into {path}",
        "tee off",
        "tee off",
    ]
    run(session, "uvw")
    assert "uvw" not in path.read_text()


def test_once_copies_the_next_text_alone(session, tmp_path):
    path = tmp_path / "text"
    run(session, f":once {path}", "abc", "xyz")
    assert path.read_text() == "abcde\n---------------\n"


def test_what_was_interrupted_is_copied_too(tmp_path):
    session = session_of(Interrupted("de", 1, KeyboardInterrupt), max_new_tokens=5)
    session.model.prompt = 3
    with pytest.raises(KeyboardInterrupt):
        run(session, f":tee {tmp_path}/text", "abc")
    assert (tmp_path / "text").read_text() == "abcd\n---------------\n"


def test_a_file_that_cannot_be_written_is_said_and_left_alone(session, tmp_path):
    with pytest.raises(GptreplError, match="No such file or directory"):
        run(session, f":tee {tmp_path}/none/text")
    path = tmp_path / "folder" / "text"
    path.parent.mkdir()
    run(session, f":tee {path}")
    path.unlink()
    path.parent.rmdir()
    said = f"cannot write {path}: No such file or directory"
    assert notices(run(session, "abc", "xyz", ":tee")) == [said, "tee off"]


@pytest.mark.parametrize("line", [":! echo one two", ":run echo one two", ":!echo one two"])
def test_in_a_script_what_a_program_writes_is_a_notice(session, line):
    assert notices(run(session, line)) == ["one two"]


def test_a_program_gets_the_text(session):
    assert notices(run(session, "abc", ":| tr a-z A-Z")) == ["ABCDE"]
    with pytest.raises(GptreplError, match="there is no text yet"):
        run(session_of(Speller("x")), ":| cat")


def test_a_program_that_does_not_read_is_no_error(session):
    assert notices(run(session, "abc", ":| true")) == []


@pytest.mark.parametrize(
    ("line", "says"), [(":! exit 3", "ended with status 3"), (":!", "needs a value")]
)
def test_a_program_that_fails_is_one_line(session, line, says):
    with pytest.raises(GptreplError, match=says):
        run(session, line)


class Borrowed:
    times = 0

    @contextlib.contextmanager
    def lent(self):
        self.times += 1
        yield


def test_in_a_terminal_a_program_has_the_terminal(session, capfd):
    session.console = Borrowed()
    assert notices(run(session, "abc", ":! echo one", ":| cat")) == []
    assert capfd.readouterr().out == "one\nabcde"
    assert session.console.times == 2
