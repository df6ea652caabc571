"""The line at the bottom while a sample streams, on a screen that is read."""

from __future__ import annotations

import io
import itertools

import pyte
import pytest

from fakes import Uniform, session_of
from gptrepl import statusbar
from gptrepl.api import Notice, Progress, SampleEnded, SampleStarted, Token
from gptrepl.screen import Screen
from gptrepl.statusbar import StatusBar

COLUMNS, ROWS = 40, 6


class Window:
    """A screen with a status bar, drawn into a terminal that is read."""

    def __init__(self, columns=COLUMNS, rows=ROWS):
        self.size = (columns, rows)
        self.out = io.StringIO()
        self.terminal = pyte.Screen(columns, rows)
        self.terminal.set_mode(pyte.modes.LNM)
        self.stream = pyte.Stream(self.terminal)
        self.bar = StatusBar(self.out, lambda: self.size)
        self.screen = Screen(self.out, lambda: self.size[0], looks={}, bar=self.bar)

    def show(self, *events):
        for event in events:
            self.screen.show(event)
        self.stream.feed(self.out.getvalue())
        self.out.seek(0)
        self.out.truncate()
        return [line.rstrip() for line in self.terminal.display]


def token(text, **measures):
    return Token(0, 1, text, -1.0, **measures)


START = SampleStarted(0, "ab", 7)
END = SampleEnded(0, "", "", 9, 1.0, 7, 9, None, "length")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(statusbar, "DELAY", 0.0)
    monkeypatch.setattr(statusbar, "EVERY", 0.0)
    ticks = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))


def test_it_says_how_fast_and_from_what():
    lines = Window(80).show(START, token("c"), token("d", entropy=1.25, candidates=40))
    assert lines[0] == "abcd"
    assert lines[-1] == "2 tokens  1 tokens/s  entropy 1.2 bits  40 candidates  Ctrl-C stops"


def test_the_text_scrolls_above_it():
    window = Window()
    window.show(START)
    for letter in "cdefghij":
        lines = window.show(token(f"\n{letter}"))
    assert lines == ["f", "g", "h", "i", "j", "8 tokens  1 tokens/s  Ctrl-C stops"]


def test_it_goes_with_the_sample_and_the_window_is_whole_again():
    window = Window()
    window.show(START, *(token(f"\n{letter}") for letter in "cdefghij"))
    lines = window.show(END)
    assert lines == ["g", "h", "i", "j", "9 tokens, 9 tokens/s, seed 7, context 9", ""]
    lines = window.show(Notice("x"), Notice("y"))
    assert lines[-3:] == ["x", "y", ""]


def test_it_follows_the_size_of_the_window():
    window = Window()
    window.show(START, token("c"))
    window.terminal.resize(8, 30)
    window.size = (30, 8)
    lines = window.show(token("d"))
    assert lines[0] == "abcd"
    assert [line for line in lines[1:] if line] == ["2 tokens  1 tokens/s  Ctrl-C"]
    assert lines[-1]


@pytest.mark.parametrize("columns", [5, 20])
def test_it_is_cut_where_there_is_no_room(columns):
    assert len(Window(columns).show(START, token("c"))[-1]) == columns - 1


def test_there_is_none_in_a_window_of_three_rows_or_where_it_is_not_wanted():
    assert Window(rows=3).show(START, token("c")) == ["abc", "", ""]
    window = Window()
    window.bar.wanted = False
    assert window.show(START, token("c"))[-1] == ""


def test_a_short_sample_gets_none(monkeypatch):
    monkeypatch.setattr(statusbar, "DELAY", 5.0)
    assert Window().show(START, token("c"), token("d"))[-1] == ""


def test_each_token_says_what_it_was_drawn_from_where_that_was_asked_for():
    session = session_of(Uniform(256), max_new_tokens=1)
    session.measure = True
    (found,) = (event for event in session.stream("a") if isinstance(event, Token))
    assert found.entropy == pytest.approx(8.0)
    assert found.candidates == 256
    session.measure = False
    (found,) = (event for event in session.stream("a", top_k=5) if isinstance(event, Token))
    assert found.entropy is None


@pytest.mark.parametrize("letters", ["abcdefgh", "ab\tx", "漢字かなx", "ab漢字c", "e\u0301abcdefg"])
def test_no_letter_is_lost_at_the_end_of_a_full_line(letters):
    window = Window(8, 9)
    text = letters + "12345"
    lines = window.show(SampleStarted(0, "", 7), *(token(letter) for letter in text))
    plain = Window(8, 9)
    plain.bar.wanted = False
    assert lines[:3] == plain.show(SampleStarted(0, "", 7), Token(0, 1, text, -1.0))[:3]
    assert lines[-1].startswith(f"{len(text)} ") or lines[-1].startswith(f"{len(text) - 1} ")


@pytest.mark.parametrize("length", [7, 8, 9])
@pytest.mark.parametrize("more", ["xy", "\nx", "\n\nx", "\n", ""])
def test_a_prompt_of_a_full_line_goes_on_as_it_would_without(length, more):
    shown = []
    for steps in ([Progress("w", 1, 2), Progress("w", 1, 1)], []):
        window = Window(8, 9)
        window.bar.wanted = False
        window.show(SampleStarted(0, "a" * length, 7), *steps)
        shown.append(window.show(*(token(letter) for letter in more), Notice("end")))
    assert shown[0] == shown[1]


def test_of_several_samples_it_says_how_much_is_done():
    window = Window(80)
    window.bar.joint = lambda: "samples 1/3 · 42 %"
    lines = window.show(START, token("c"))
    assert lines[-1] == "samples 1/3 · 42 %  1 tokens  1 tokens/s  Ctrl-C stops"


def test_that_is_said_where_the_rest_is_not_wanted_and_cut_last():
    window = Window(22)
    window.bar.wanted = False
    assert window.show(START, token("c"))[-1] == ""
    window.bar.joint = lambda: "samples 1/3 · 42 %"
    assert window.show(token("d"))[-1] == "samples 1/3 · 42 %  C"


def test_many_short_samples_get_it_as_one_long_one_does(monkeypatch):
    monkeypatch.setattr(statusbar, "DELAY", 5.0)
    window = Window()
    for index in range(4):
        shown = window.show(SampleStarted(index, "", 7), Token(index, 1, "x", -1.0))
    assert shown[-1].endswith("Ctrl-C stops")
    assert window.show(SampleStarted(0, "", 7), Token(0, 1, "x", -1.0), END)[-1] == ""


def test_how_much_of_all_samples_is_drawn():
    session = session_of(Uniform(256), max_new_tokens=4, num_samples=4)
    kinds = (SampleStarted, Token)
    events = session.stream("a", stop=("b",))
    seen = [session.drawing.share for event in events if isinstance(event, kinds)]
    assert seen[0] == (0, 4, 0.0)
    assert all(one[2] <= two[2] for one, two in itertools.pairwise(seen))
    assert seen[-1][1] == 4
    assert session.drawing is None
