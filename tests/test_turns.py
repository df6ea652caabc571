"""Working with a text: more, retry, undo, a story; text, save, copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes import Bytes, Speller, Uniform, session_of
from gptrepl import clipboard
from gptrepl.api import GptreplError, Notice, SampleEnded, SampleStarted
from gptrepl.commands import evaluate
from gptrepl.samples import Start
from gptrepl.session import Session


@pytest.fixture
def session():
    return session_of(Speller("defghijklmnop", 3), max_new_tokens=2)


@pytest.fixture
def dice():
    """A session in which every draw shows its seed."""
    return session_of(Uniform(), max_new_tokens=4, temperature=1, top_k="off")


def run(session, *lines):
    return [event for line in lines for event in evaluate(session, line)]


def started(events):
    return [event for event in events if isinstance(event, SampleStarted)]


def texts(events):
    return [event.text for event in events if isinstance(event, SampleEnded)]


def notices(events):
    return [event.text for event in events if isinstance(event, Notice)]


# --- more, retry, undo ----------------------------------------------------------------------------


def test_more_goes_on_with_the_next_seed(session):
    events = run(session, "abc", ":more", ":more 3")
    assert texts(events) == ["abcde", "abcdefg", "abcdefghij"]
    assert started(events)[1] == SampleStarted(0, "abcde", 1338, known=5)
    assert started(events)[2].seed == 1339
    assert session.settings.max_new_tokens == 2


def test_more_is_a_sample_of_the_text_with_that_seed(dice):
    run(dice, "ab", ":more")
    text, seed = dice.samples[0].prompt, dice.samples[0].seed
    again = session_of(Uniform(), max_new_tokens=4, temperature=1, top_k="off", seed=seed)
    ids = [*dice.earlier[-1][0].ids, *dice.earlier[-1][0].tokens]
    assert dice.samples[0].ids == ids
    list(again.resume([Start(text, ids, seed)]))
    assert again.samples[0].tokens == dice.samples[0].tokens


def test_more_of_several_samples_uses_no_seed_twice(dice):
    events = run(dice, ":samples 3", "ab", ":more")
    assert [event.seed for event in started(events)] == [1337, 1338, 1339, 1340, 1341, 1342]


def test_more_behind_a_stop_string_does_not_see_it(session):
    run(session, ":stop f", ":tokens 9", "abc")
    assert session.samples[0].text == "abcde"
    run(session, ":stop off", ":more 1")
    assert session.samples[0].prompt == "abcde"
    assert list(session.samples[0].ids) == list(b"abcde")


def test_retry_is_the_same_prompt_with_the_next_seed(dice):
    events = run(dice, "ab", ":retry", ":retry")
    assert [event.prompt for event in started(events)] == ["ab", "ab", "ab"]
    assert [event.seed for event in started(events)] == [1337, 1338, 1339]
    assert len(set(texts(events))) == 3


def test_undo_takes_back_tokens(session):
    assert notices(run(session, "abc", ":undo 1"))[-1] == "the text ends: 'abcd'"
    run(session, ":more 1")
    assert session.samples[0].text == "abcde"
    assert session.samples[0].seed == 1338


def test_undo_takes_back_the_last_turn(session):
    run(session, "abc", ":more", ":undo")
    assert session.samples[0].text == "abcde"
    assert notices(run(session, ":undo")) == ["the text is empty"]
    with pytest.raises(GptreplError, match="there is no text yet"):
        run(session, ":undo")


@pytest.mark.parametrize("tokens", [0, -1, 3])
def test_undo_refuses_what_it_cannot_take_back(session, tokens):
    run(session, "abc")
    with pytest.raises(GptreplError, match="the last turn has 2 tokens"):
        run(session, f":undo {tokens}")
    assert session.samples[0].text == "abcde"


def test_a_split_character_is_taken_back_whole():
    session = session_of(Speller("é€", 1), max_new_tokens=4)
    run(session, "a", ":undo 1")
    assert session.samples[0].text == "aé\ufffd"
    assert len(session.samples[0].tokens) == 3


@pytest.mark.parametrize("line", [":more", ":retry", ":undo", ":text", ":save x", ":copy"])
def test_without_a_text_there_is_nothing_to_work_with(session, line):
    with pytest.raises(GptreplError, match="there is no text yet: type a prompt"):
        run(session, line)


def test_another_model_reads_the_text_anew(session):
    run(session, "abc")
    session._loaded = replace(session.loaded, model=Speller("x", 1), tokenizer=Doubled())
    run(session, ":more")
    assert list(session.samples[0].ids) == [byte for byte in b"abcde" for _ in "12"]
    run(session, ":undo", ":retry")
    assert list(session.samples[0].ids) == [byte for byte in b"abc" for _ in "12"]


class Doubled(Bytes):
    """Another alphabet: every byte is two tokens."""

    def encode(self, text):
        return [byte for byte in text.encode() for _ in "12"]


# --- a story --------------------------------------------------------------------------------------


def test_each_line_of_a_story_is_added_to_one_text(session):
    events = run(session, ":mode story", "abc", "X", ":more", "\nY")
    assert texts(events) == ["abcde", "abcdeXgh", "abcdeXghij", "abcdeXghij\nYmn"]
    assert [event.known for event in started(events)] == [0, 5, 8, 10]


def test_a_story_is_a_function_of_what_is_in_it(dice):
    run(dice, ":mode story", "ab", "cd")
    other = session_of(Uniform(), max_new_tokens=4, temperature=1, top_k="off", mode="story")
    run(other, "zz", ":new", "ab", "zz", ":undo", ":seed 1337", "cd")
    assert other.samples[0].text == dice.samples[0].text


def test_a_new_text_leaves_the_story_to_undo(session):
    run(session, ":mode story", "abc", ":new", "abc")
    assert session.samples[0].text == "abcde"
    run(session, ":undo")
    assert session.samples[0].text == "abcde"


def test_a_new_text_is_itself_undone(session):
    run(session, ":mode story", "abc", "X", ":new")
    assert notices(run(session, ":undo")) == ["the text ends: 'abcdeXgh'"]
    assert notices(run(session, ":new", ":new", ":undo")) == [
        *["a new text"] * 2,
        "the text ends: 'abcdeXgh'",
    ]
    run(session, ":undo", ":undo")
    with pytest.raises(GptreplError, match="there is no text yet"):
        run(session, ":undo")


def test_a_story_has_one_text_and_says_so_once(session):
    events = run(session, ":samples 3", ":mode story", "abc", "X")
    assert len(texts(events)) == 2
    said = [text for text in notices(events) if "no effect" in text]
    assert said == ["num_samples 3 has no effect: a story has one text"]


def test_the_ids_before_every_text_stand_once(session):
    class Begun(Bytes):
        start = (1,)

        def encode(self, text):
            return [1, *super().encode(text)]

    session = session_of(Speller("x", 1), Begun(), max_new_tokens=1, mode="story")
    run(session, "a", "b")
    assert list(session.samples[0].ids) == [1, *b"axb"]


# --- keeping it -----------------------------------------------------------------------------------


def test_the_text_is_shown_and_saved(session, tmp_path):
    path = tmp_path / "a file.txt"
    assert notices(run(session, "ab\r\nc", ":text")) == [session.samples[0].text]
    assert notices(run(session, f":save {path}")) == [f"7 characters are in {path}"]
    assert path.read_bytes() == session.samples[0].text.encode()


def test_a_file_is_overwritten_only_if_the_user_says_so(session, tmp_path):
    path = tmp_path / "file"
    path.write_text("kept")
    asked = []
    session.confirm = lambda question: asked.append(question)
    assert notices(run(session, "abc", f":save {path}")) == ["nothing is written"]
    assert asked == [f"overwrite {path}?"]
    assert path.read_text() == "kept"
    session.confirm = lambda question: True
    run(session, f":save {path}")
    assert path.read_text() == "abcde"


class Asked:
    """A console that keeps what it is given."""

    def copy(self, text):
        self.text = text


@pytest.fixture
def no_programs(monkeypatch):
    monkeypatch.setattr(clipboard.shutil, "which", lambda _name: None)


def test_copy_asks_a_program(session, monkeypatch, tmp_path):
    program = tmp_path / "wl-copy"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/copied\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert notices(run(session, "abc", ":copy")) == ["copied 5 characters"]
    assert (tmp_path / "copied").read_text() == "abcde"


def test_copy_asks_the_terminal_where_no_program_can(session, no_programs):
    session.console = Asked()
    run(session, "abc", ":copy")
    assert session.console.text == "abcde"


def test_copy_without_either_is_refused(session, no_programs):
    with pytest.raises(GptreplError, match="nothing here can copy"):
        run(session, "abc", ":copy")


def test_a_session_without_a_model_has_no_text():
    with pytest.raises(GptreplError, match="there is no text yet"):
        run(Session(), ":text")
