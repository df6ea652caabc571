"""How far a long prompt has been read: the callback, and what a person sees of it."""

from __future__ import annotations

import re
import time

import pytest

from fakes import Speller, session_of
from gptrepl import prefill, script
from gptrepl.api import Progress
from gptrepl.prefill import WHAT, Prefill
from shells import CTRL_D, Terminal, closing

LAYERS = 4


class Slow(Speller):
    """Takes its time for each layer, and looks at *screen* behind it."""

    def __init__(self, text, prompt, screen=lambda: None, stop=None):
        super().__init__(text, prompt)
        self.progress = None
        self.screen = screen
        self.stop = stop
        self.seen = []

    def logits(self, rows):
        for layer in range(1, LAYERS + 1):
            time.sleep(0.002)
            if layer == self.stop:
                raise KeyboardInterrupt
            if self.progress is not None:
                self.progress(layer, LAYERS)
            self.seen.append(self.screen())
        return super().logits(rows)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(prefill, "PATIENCE", 0.0)


# --- the callback ---------------------------------------------------------------------------------


def test_it_is_told_between_begin_and_end_and_shown_past_its_patience(monkeypatch):
    now, shown = [10.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    model = Slow("x", 1)
    watched = Prefill(model, shown.append)
    assert model.progress is None
    watched.begin()
    model.progress(1, 4)
    assert shown == []
    now[0] += 0.5
    model.progress(2, 4)
    model.progress(4, 4)
    assert shown == [Progress(WHAT, 2, 4)]
    watched.end()
    watched.end()
    assert shown[1:] == [Progress(WHAT, 1, 1)]
    assert model.progress is None


def test_one_that_was_quick_shows_nothing():
    shown = []
    watched = Prefill(Slow("x", 1), shown.append)
    watched.begin()
    watched.end()
    assert shown == []


@pytest.mark.parametrize(("model", "show"), [(Speller("x"), print), (Slow("x", 1), None)])
def test_it_takes_a_model_that_tells_and_someone_who_looks(model, show):
    watched = Prefill(model, show)
    watched.begin()
    assert getattr(model, "progress", None) is None
    watched.end()


def test_only_the_first_token_is_waited_for(at_once):
    session = session_of(Slow("xyz", 2), max_new_tokens=3)
    shown = []
    session.show_now = shown.append
    assert session.generate("ab") == "abxyz"
    steps = [Progress(WHAT, done, LAYERS) for done in range(1, LAYERS)]
    assert shown == [*steps, Progress(WHAT, 1, 1)]
    assert session.model.progress is None


def test_a_session_that_draws_beside_another_is_watched_too():
    session = session_of(Slow("x", 1))
    session.show_now = print
    assert session.beside(session.settings).show_now is print


# --- the screen -----------------------------------------------------------------------------------


def shell(text="de", *, bar=True, columns=60, stop=None, **changes):
    """A terminal with a slow model that looks at it."""
    model = Slow(text, 3, stop=stop)
    session = session_of(model, max_new_tokens=len(text), **changes)
    found = Terminal(session, columns, 8, bar=bar)
    model.screen = lambda: found.lines
    return found


def test_the_last_row_shows_it_while_the_prompt_stands(at_once):
    found = shell().type(f"abc\r{CTRL_D}")
    first, second = found.session.model.seen[:2]
    assert first[-2:] == ["abc", "reading the prompt #####............... 25%"]
    assert second[-1] == "reading the prompt ##########.......... 50%"
    after = found.session.model.seen[LAYERS]  # behind the first token
    assert after[-1] == "abcd"
    assert closing(found.lines) == ["> abc", "abcde", "2", ">"]


def test_in_a_chat_it_stands_where_the_reply_will(at_once):
    found = shell(bar=False, mode="chat", turns="{user}{assistant}").type(f"abc\r{CTRL_D}")
    assert found.session.model.seen[0][-1] == "reading the prompt #####............... 25%"
    assert found.session.model.seen[LAYERS][-1] == "d"
    assert closing(found.lines)[-3:] == ["de", "2", ">"]


def test_behind_a_full_line_there_is_one_and_the_text_goes_on(at_once):
    found = shell(columns=30)
    found.session.model.prompt = 30
    found.type(f"{'a' * 30}\r{CTRL_D}")
    assert found.session.model.seen[1][-2:] == ["a" * 30, "reading the prompt 50%"]
    place = found.lines.index("de")
    assert found.lines[place - 1] == "a" * 30


def test_a_quick_one_leaves_the_screen_alone():
    found = shell().type(f"abc\r{CTRL_D}")
    assert "reading" not in found.out.getvalue()


def test_ctrl_c_between_two_layers_keeps_the_prompt_and_takes_it_away(at_once):
    found = shell(stop=3).type(f"abc\r{CTRL_D}")
    assert found.session.model.seen[-1][-1].startswith("reading the prompt")
    assert closing(found.lines) == ["> abc", "abc", "interrupted, 0", ">"]
    assert found.session.samples[0].text == "abc"


@pytest.mark.parametrize("columns", [10, 30])
def test_a_narrow_window_gets_as_much_as_fits(at_once, columns):
    found = shell(columns=columns).type(f"abc\r{CTRL_D}")
    assert all(len(line) < columns for line in found.session.model.seen[1])
    assert found.session.model.seen[1][-1] == "reading the prompt 50%"[: columns - 1]


def test_a_pipe_never_gets_any(at_once, capsys):
    session = session_of(Slow("de", 3), max_new_tokens=2)
    assert script.Script(session, *script.stdio()).run(["abc"], "-c") == 0
    told = capsys.readouterr()
    assert told.out == "abcde\n---------------\n"
    assert re.fullmatch(r"2 tokens, .*\n", told.err)
