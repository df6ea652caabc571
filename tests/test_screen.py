"""Events on a screen: what is written, and that nothing said can drive the terminal."""

from __future__ import annotations

import io

import pytest

from gptrepl.api import Notice, Progress, SampleEnded, SampleStarted, Table, Token
from gptrepl.screen import Screen, cut, harmless, wrapped
from shells import Terminal, spelling


def test_harmless_text_is_untouched():
    assert harmless("a\tb\n\u00e9 \u6f22 \U0001f600") == "a\tb\n\u00e9 \u6f22 \U0001f600"


def screen(**how):
    return Screen(io.StringIO(), lambda: 20, **how)


def test_styles_are_the_terminals_own_and_can_be_absent():
    for colour, dim, red, end in ((True, "\x1b[2m", "\x1b[31m", "\x1b[0m"), (False, "", "", "")):
        view = screen() if colour else screen(looks={})
        view.show(SampleStarted(0, "ab", 1))
        view.show(Token(0, 0, "c", 0.0))
        view.settle()
        view.say("no", "error")
        view.show(Notice("well"))
        assert view.out.getvalue() == f"{dim}ab{end}c\n{red}no{end}\nwell\n"


def test_progress_erases_itself():
    view = screen(looks={})
    view.show(Progress("loading a model with a long name", 0))
    view.show(Progress("copying", 1, 2))
    view.show(Progress("copying", 2, 2))
    view.show(Notice("done"))
    steps = view.out.getvalue().split("\r\x1b[K")
    assert steps == ["", "loading a model wit", "copying 50%", "done\n"]


def test_a_terminal_that_cannot_move_gets_progress_as_one_line():
    view = screen(looks={}, moves=False)
    view.show(Progress("loading x", 0))
    view.show(Progress("loading x", 1, 2))
    view.show(Progress("loading x", 1, 1))
    assert view.out.getvalue() == "loading x ...\n"


def test_of_a_text_that_goes_on_the_last_line_is_shown_again():
    view = screen(looks={})
    view.show(SampleStarted(0, "one\ntwo three", 1, known=8))
    view.settle()
    view.show(SampleStarted(0, "one\n", 1, known=4))
    assert view.out.getvalue() == "two three\n"


def test_the_terminal_is_asked_to_copy():
    view = screen()
    view.show(Notice("x"))
    view.copy("aé")
    view.show(Notice("y"))
    assert view.out.getvalue() == "x\n\x1b]52;c;YcOp\x07y\n"


@pytest.mark.parametrize(
    ("left", "lines"), [("", ["x"]), ("12\n", ["12", "x"]), ("12", ["12", "x"])]
)
def test_behind_another_program_a_new_line_begins(left, lines):
    shell = Terminal(spelling("!"), columns=10)
    view = Screen(shell.out, lambda: 10, looks={})
    shell.out.write(left)
    view.align()
    view.show(Notice("x"))
    assert shell.lines == lines


def test_a_table_fits_into_a_narrow_terminal():
    view = screen(looks={})
    view.show(Table(("name", "what it is"), (("top_p", "a\x1b rather long explanation"),)))
    lines = view.out.getvalue().splitlines()
    assert max(map(len, lines)) <= 20
    assert "^[" in view.out.getvalue()
    assert "\x1b" not in view.out.getvalue()


def test_a_sign_of_the_vocabulary_is_told_from_the_same_letters():
    view = Screen(io.StringIO(), lambda: 80)
    view.show(Token(0, 0, "</s>", 0.0))
    view.show(Token(0, 1, "</s>", 0.0, special=True))
    assert view.out.getvalue() == "</s>\x1b[7m</s>\x1b[0m"


def test_wide_characters_are_cut_by_columns():
    assert cut("\u6f22\u6f22\u6f22", 5) == "\u6f22\u6f22"


def test_an_ended_sample_leaves_the_cursor_at_the_start_of_a_line():
    ended = SampleEnded(0, "a\n", "", 1, 1.0, 7, 2, None, "length")
    view = Screen(io.StringIO(), lambda: 80, looks={})
    view.show(Token(0, 0, "a\n", 0.0))
    view.show(ended)
    view.interrupted()
    assert view.out.getvalue() == "a\n1 tokens, 1 tokens/s, seed 7, context 2\n"
    view.show(Notice("x"))
    view.interrupted()
    assert view.out.getvalue().endswith("x\ninterrupted\n")


def test_notices_are_broken_between_words():
    view = screen(looks={})
    view.show(Notice("a line that is longer than the window\n  kept  as it is\n\nx"))
    assert view.out.getvalue() == "a line that is\nlonger than the\nwindow\n  kept  as it is\n\nx\n"
    assert wrapped("漢漢漢 漢漢漢", 10) == "漢漢漢\n漢漢漢"
    assert wrapped("one two ", 20) == "one two "
    assert wrapped("a" * 30, 20) == "a" * 30


def test_an_interrupt_while_text_is_written_leaves_the_line_known():
    class Torn(io.StringIO):
        def flush(self):
            if self.getvalue().endswith("half a word"):
                raise KeyboardInterrupt

    out = Torn()
    screen = Screen(out, lambda: 80, looks={})
    with pytest.raises(KeyboardInterrupt):
        screen.show(Token(0, 1, "half a word", -1.0))
    screen.interrupted()
    assert out.getvalue() == "half a word\ninterrupted\n"
