"""Prompts of several lines: :multi and :end, and the user's own editor."""

from __future__ import annotations

import contextlib

import pytest

from fakes import Speller, session_of
from gptrepl.api import GptreplError, Notice, SampleStarted
from gptrepl.commands import evaluate


class Borrowed:
    """A console that counts how often it is lent."""

    times = 0

    @contextlib.contextmanager
    def lent(self):
        self.times += 1
        yield


@pytest.fixture
def session():
    found = session_of(Speller("x"), max_new_tokens=1)
    found.console = Borrowed()
    return found


def run(session, *lines):
    return [event for line in lines for event in evaluate(session, line)]


def prompts(events):
    return [event.prompt for event in events if isinstance(event, SampleStarted)]


def test_the_lines_up_to_end_are_one_prompt(session):
    events = run(session, ":multi", "one", ":quit", "", " two", ":end")
    assert prompts(events) == ["one\n:quit\n\n two"]
    assert session.block is None


def test_a_block_may_hold_what_was_pasted(session):
    assert prompts(run(session, ":multi", "a\nb", "c", ":end ")) == ["a\nb\nc"]


def test_end_without_multi_is_refused(session):
    with pytest.raises(GptreplError, match="there is no :multi to end"):
        run(session, ":end")


def test_an_empty_block_is_no_prompt(session):
    with pytest.raises(GptreplError, match="the prompt is empty"):
        run(session, ":multi", ":end")
    assert prompts(run(session, "a")) == ["a"]


def test_edit_samples_from_what_the_editor_leaves(session, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i -e s/one/two/ -e $aend")
    assert prompts(run(session, ":edit one")) == ["two\nend"]
    assert session.console.times == 1


def test_edit_begins_with_the_last_prompt(session, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i s/b/c/")
    run(session, "a b")
    assert prompts(run(session, ":edit")) == ["a c"]


def test_an_editor_that_fails_discards(session, monkeypatch):
    monkeypatch.setenv("VISUAL", "false")
    with pytest.raises(GptreplError, match="false ended with status 1: nothing is sampled"):
        run(session, ":edit a")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("no-such-editor -w", "cannot run 'no-such-editor'"),
        ("sh -c 'printf \"\\377\">$0'", "UTF-8"),
    ],
)
def test_an_editor_that_is_none(session, monkeypatch, program, says):
    monkeypatch.setenv("VISUAL", program)
    with pytest.raises(GptreplError, match=says):
        run(session, ":edit a")


def test_an_emptied_text_is_not_sampled(session, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i d")
    assert run(session, ":edit a") == [Notice("nothing to sample from")]


def test_without_a_terminal_there_is_no_editor(session):
    session.console = None
    with pytest.raises(GptreplError, match="an editor needs a terminal"):
        run(session, ":edit")
