"""Prompts of several lines: :multi and :end, and the user's own editor."""

from __future__ import annotations

import contextlib

import pytest

from fakes import Speller, session_of
from gptrepl.api import GptreplError, Notice, SampleStarted
from gptrepl.commands import evaluate
from gptrepl.editing import edited_text


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
        ("nano '", 'VISUAL is "nano \'", which cannot be run: No closing quotation'),
    ],
)
def test_an_editor_that_is_none(session, monkeypatch, program, says):
    monkeypatch.setenv("VISUAL", program)
    with pytest.raises(GptreplError, match=says):
        run(session, ":edit a")


def test_a_blank_name_of_an_editor_is_none(session, monkeypatch):
    monkeypatch.setenv("VISUAL", " ")
    monkeypatch.setenv("EDITOR", "sed -i s/a/b/")
    assert prompts(run(session, ":edit a")) == ["b"]


def test_an_emptied_text_is_not_sampled(session, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i d")
    assert run(session, ":edit a") == [Notice("nothing to sample from")]


def test_without_a_terminal_there_is_no_editor(session):
    session.console = None
    with pytest.raises(GptreplError, match="an editor needs a terminal"):
        run(session, ":edit")


# --- a story --------------------------------------------------------------------------------------


@pytest.fixture
def story(session):
    session.set(mode="story")
    run(session, "once\nthere ", "was a ")
    assert session.samples[-1].text == "once\nthere xwas a x"
    return session


def test_a_story_is_edited_as_a_whole_and_goes_on_from_there(story, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i s/xwas/were/")
    (started,) = [event for event in run(story, ":edit") if isinstance(event, SampleStarted)]
    assert started.prompt == "once\nthere were a x"
    assert started.known == len("once\nthere ")  # what was shown before, up to the first change
    assert started.seed == story.settings.seed
    assert story.samples[-1].text == "once\nthere were a xx"
    run(story, ":undo")
    assert story.samples[-1].text == "once\nthere xwas a x"


def test_the_text_is_a_function_of_the_edited_story(story, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i s/xwas/were/")
    run(story, ":edit")
    edited = story.samples[-1]
    run(story, ":new", ":multi", "once", "there were a x", ":end")
    assert story.samples[-1].text == edited.text
    assert story.samples[-1].ids == edited.ids


@pytest.mark.parametrize("program", ["true", "sed -i d", "sh -c 'cp $0 $0.x; mv $0.x $0'"])
def test_a_story_that_is_left_alone_or_emptied_stays(story, monkeypatch, program):
    monkeypatch.setenv("VISUAL", program)
    assert run(story, ":edit") == [Notice("the story is as it was")]
    assert story.samples[-1].text == "once\nthere xwas a x"


def test_an_editor_that_fails_leaves_the_story(story, monkeypatch):
    monkeypatch.setenv("VISUAL", "sh -c 'echo other > $0; exit 3'")
    with pytest.raises(GptreplError, match="sh ended with status 3: nothing is sampled"):
        run(story, ":edit")
    assert story.samples[-1].text == "once\nthere xwas a x"


def test_a_text_to_edit_is_the_next_piece_of_a_story(story, monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i s/k/l/")
    assert prompts(run(story, ":edit  king")) == ["once\nthere xwas a x ling"]
    monkeypatch.setenv("VISUAL", "sed -i d")
    assert run(story, ":edit king") == [Notice("nothing to sample from")]


def test_a_story_may_begin_in_the_editor(session, monkeypatch):
    session.set(mode="story", num_samples=3)
    monkeypatch.setenv("VISUAL", "sh -c 'echo begin > $0'")
    assert prompts(run(session, ":edit")) == ["begin"]
    session.console = None
    with pytest.raises(GptreplError, match="an editor needs a terminal"):
        run(session, ":edit")


@pytest.mark.parametrize("text", ["a\n", "a\n\n", "a\rb", "a\r\nb\r\n", "a", ""])
def test_what_is_left_alone_comes_back_to_the_last_sign(monkeypatch, text):
    monkeypatch.setenv("VISUAL", "true")
    assert edited_text(text, Borrowed().lent()) == text


def test_the_line_end_that_an_editor_adds_is_no_part_of_a_text(monkeypatch):
    monkeypatch.setenv("VISUAL", "sh -c 'printf \"b\\r\\nc\\r\\n\" > $0'")
    assert edited_text("a", Borrowed().lent()) == "b\nc"
