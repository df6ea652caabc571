"""The shell through real prompt-toolkit: keys in, what is on the screen out."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import pyte
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input

from fakes import Interrupted, Speller, session_of
from gptrepl import terminal
from gptrepl.api import Notice, Progress, SampleEnded, SampleStarted, Table, Token
from gptrepl.history import open_history
from gptrepl.interrupts import Interrupts
from gptrepl.keyboard import Keyboard
from gptrepl.prompt import Prompt, QuietOutput
from gptrepl.screen import Screen, cut, harmless
from gptrepl.session import Session

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A shell with a keyboard that types *keys* and a screen that can be read."""

    def __init__(self, session, columns=80, rows=24, history=None):
        self.session = session
        self.out = io.StringIO()
        self.size = Size(rows=rows, columns=columns)
        self.history = history or InMemoryHistory()
        self.status = None

    def type(self, keys):
        interrupts = Interrupts(Keyboard(None))
        with create_pipe_input() as pipe, interrupts.handled():
            pipe.send_bytes(keys.encode("utf-8", "surrogateescape"))
            output = QuietOutput(self.out, lambda: self.size, term="xterm")
            prompt = Prompt(self.session, self.history, input=pipe, output=output)
            screen = Screen(self.out, lambda: self.size.columns)
            self.status = terminal.Shell(self.session, prompt, screen, interrupts).run()
        return self

    @property
    def lines(self):
        screen = pyte.Screen(self.size.columns, self.size.rows)
        screen.set_mode(pyte.modes.LNM)
        pyte.Stream(screen).feed(self.out.getvalue())
        return [line.rstrip() for line in screen.display if line.strip()]


def spelling(text, prompt=3, **changes):
    return session_of(Speller(text, prompt), max_new_tokens=len(text.encode()), **changes)


def closing(lines):
    """The lines without the speed, which no test can know."""
    return [line.partition(" tokens,")[0] for line in lines]


def test_a_session_as_a_person_sees_it():
    shell = Terminal(spelling("de f")).type(f":temp 0.7\rabc\r:tmep 0.7\r{CTRL_D}")
    assert closing(shell.lines) == [
        "> :temp 0.7",
        "temperature 0.7",
        "> abc",
        "abcde f",
        "4",
        "> :tmep 0.7",
        "no command :tmep (did you mean :temp?)",
        ">",
    ]
    assert shell.status == 0


def test_the_toolbar_stands_below_the_prompt_and_the_cursor_is_never_asked_for():
    shell = Terminal(spelling("x"))
    shell.type("ab\x04\x01\x0b\x04")
    assert "fake  temperature 0.8  top_k 200  seed 1337" in shell.out.getvalue()
    assert "\x1b[6n" not in shell.out.getvalue()


@pytest.mark.parametrize("line", [":quit", ":q", ":exit"])
def test_quit_leaves(line):
    assert Terminal(spelling("x")).type(f"{line}\r").status == 0


def test_ctrl_c_clears_the_line_and_says_how_to_leave():
    shell = Terminal(spelling("de")).type(f"half{CTRL_C}{CTRL_C}abc\r{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcde", "2", ">"]


def test_ctrl_c_in_mid_stream_keeps_the_text():
    session = session_of(Interrupted("defg", 2, KeyboardInterrupt), max_new_tokens=9)
    session._loaded.model.prompt = 3
    shell = Terminal(session).type(f"abc\r:temp\r{CTRL_D}")
    assert closing(shell.lines)[:3] == ["> abc", "abcde", "interrupted, 2"]
    assert shell.lines[3:] == ["> :temp", "temperature 0.8 (default)", ">"]
    assert session.samples[0].text == "abcde"


class Pressed(Speller):
    """Ctrl-C is pressed twice while it thinks of the third token."""

    def logits(self, rows):
        if len(self.calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return super().logits(rows)


def test_ctrl_c_twice_is_ctrl_c():
    shell = Terminal(session_of(Pressed("defg", 3), max_new_tokens=9)).type(f"abc\r{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcde", "interrupted, 2", ">"]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, RecursionError, MemoryError])
def test_no_error_ends_the_shell(error):
    session = session_of(Interrupted("de", 0, error), max_new_tokens=2)
    shell = Terminal(session).type(f"a\r:temp\r{CTRL_D}")
    assert (
        f"internal error: {error.__name__}"
        in shell.lines[2 if "a" in shell.lines else 1] + (shell.lines[2])
    )
    assert "temperature 0.8 (default)" in shell.lines
    assert "Traceback" not in shell.out.getvalue()


def test_a_paste_of_several_lines_is_one_prompt():
    shell = Terminal(spelling("!", 11)).type(f"\x1b[200~one\r\n:quit\r\nx\x1b[201~\r{CTRL_D}")
    assert shell.session.samples[0].prompt == "one\n:quit\nx"


def test_a_pasted_command_with_its_line_end_is_a_command():
    shell = Terminal(spelling("!")).type(f"\x1b[200~:temp 0.5\n\x1b[201~\r{CTRL_D}")
    assert shell.session.settings.value("temperature") == "0.5"
    assert shell.session.samples == []


def test_bytes_that_are_no_text_are_refused():
    shell = Terminal(spelling("x")).type(f"\udcff\r{CTRL_D}")
    assert "the line holds bytes that are no UTF-8" in shell.lines


def test_what_a_model_says_cannot_drive_the_terminal():
    shell = Terminal(spelling("\x1b[2J\x07\r\x9b1m\u202etxt\x7f\tend")).type(f"abc\r{CTRL_D}")
    assert shell.lines[1] == "abc^[[2J^G^M<9b>1m<202e>txt^?   end"


def test_harmless_text_is_untouched():
    assert harmless("a\tb\n\u00e9 \u6f22 \U0001f600") == "a\tb\n\u00e9 \u6f22 \U0001f600"


def screen(**how):
    return Screen(io.StringIO(), lambda: 20, **how)


def test_styles_are_the_terminals_own_and_can_be_absent():
    for colour, dim, red, end in ((True, "\x1b[2m", "\x1b[31m", "\x1b[0m"), (False, "", "", "")):
        view = screen(colour=colour)
        view.show(SampleStarted(0, "ab", 1))
        view.show(Token(0, 0, "c", 0.0))
        view.settle()
        view.say("no", "error")
        view.show(Notice("well"))
        assert view.out.getvalue() == f"{dim}ab{end}c\n{red}no{end}\nwell\n"


def test_progress_erases_itself():
    view = screen(colour=False)
    view.show(Progress("loading a model with a long name", 0))
    view.show(Progress("copying", 1, 2))
    view.show(Progress("copying", 2, 2))
    view.show(Notice("done"))
    steps = view.out.getvalue().split("\r\x1b[K")
    assert steps == ["", "loading a model wit", "copying ##########.", "done\n"]


def test_a_terminal_that_cannot_move_gets_progress_as_one_line():
    view = screen(colour=False, moves=False)
    view.show(Progress("loading x", 0))
    view.show(Progress("loading x", 1, 2))
    view.show(Progress("loading x", 1, 1))
    assert view.out.getvalue() == "loading x ...\n"


def test_of_a_text_that_goes_on_the_last_line_is_shown_again():
    view = screen(colour=False)
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
    view = Screen(shell.out, lambda: 10, colour=False)
    shell.out.write(left)
    view.align()
    view.show(Notice("x"))
    assert shell.lines == lines


def test_a_table_fits_into_a_narrow_terminal():
    view = screen(colour=False)
    view.show(Table(("name", "what it is"), (("top_p", "a\x1b rather long explanation"),)))
    lines = view.out.getvalue().splitlines()
    assert max(map(len, lines)) <= 20
    assert "^[" in view.out.getvalue()
    assert "\x1b" not in view.out.getvalue()


def test_wide_characters_are_cut_by_columns():
    assert cut("\u6f22\u6f22\u6f22", 5) == "\u6f22\u6f22"


def test_an_ended_sample_leaves_the_cursor_at_the_start_of_a_line():
    ended = SampleEnded(0, "a\n", "", 1, 1.0, 7, 2, None, "length")
    view = screen(colour=False)
    view.show(Token(0, 0, "a\n", 0.0))
    view.show(ended)
    view.interrupted()
    assert view.out.getvalue() == "a\n1 tokens, 1 tokens/s, seed 7, context 2\n"
    view.show(Notice("x"))
    view.interrupted()
    assert view.out.getvalue().endswith("x\ninterrupted\n")


@pytest.mark.parametrize(("answer", "says"), [("y", True), (" YES ", True), ("", False)])
def test_a_command_may_ask(monkeypatch, answer, says):
    shell = Terminal(spelling("x")).type(CTRL_D)
    monkeypatch.setattr("builtins.input", lambda sign: sign == "overwrite ^[? [y/N] " and answer)
    assert shell.session.confirm("overwrite \x1b?") is says


def test_no_answer_is_no(monkeypatch):
    shell = Terminal(spelling("x")).type(CTRL_D)
    monkeypatch.setattr("builtins.input", lambda sign: (_ for _ in ()).throw(EOFError))
    assert shell.session.confirm("overwrite?") is False


# --- history ------------------------------------------------------------------------------------


def test_history_is_private_and_comes_back(tmp_path):
    path = tmp_path / "state" / "history"
    history, trouble = open_history(path)
    Terminal(spelling("x"), history=history).type(f"abc\r:temp 0.6\r\udcff\r{CTRL_D}")
    assert trouble == ""
    assert path.stat().st_mode & 0o777 == 0o600
    again, _ = open_history(path)
    assert list(again.load_history_strings()) == ["?", ":temp 0.6", "abc"]


def test_history_that_cannot_be_written_is_kept_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    history, trouble = open_history(tmp_path / "file" / "history")
    assert trouble.startswith("no history is kept: cannot write ")
    shell = Terminal(spelling("x"), history=history).type(f"abc\r{CTRL_D}")
    assert "abcx" in shell.lines
    assert list(history.get_strings()) == ["abc"]


def test_a_history_whose_folder_goes_away_disturbs_nothing(tmp_path):
    path = tmp_path / "state" / "history"
    history, _ = open_history(path)
    path.unlink()
    path.parent.rmdir()
    shell = Terminal(spelling("x"), history=history).type(f"abc\r{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcx", "1", ">"]


# --- terminals that can do little ---------------------------------------------------------------


def test_plain_input_reads_and_shows(monkeypatch, capsys):
    lines = iter([":temp 0.6", "abc"])

    def read(sign):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("builtins.input", read)
    with Path(os.devnull).open() as stdin:  # pytest's own has no number
        monkeypatch.setattr("sys.stdin", stdin)
        assert terminal.run(spelling("de")) == 0
    shown = capsys.readouterr().out.splitlines()
    assert closing(shown) == [
        "this terminal (TERM=dumb) gets plain input: no completion, no history, no colours",
        "temperature 0.6",
        "abcde",
        "2",
    ]


def test_the_model_is_asked_for_when_the_prompt_is_drawn(monkeypatch):
    asked = []
    monkeypatch.setattr(Session, "load_behind", lambda self: asked.append(shell.out.getvalue()))
    shell = Terminal(Session())
    shell.type(f"a{CTRL_C}{CTRL_D}")
    assert len(asked) == 1
    assert ">" in asked[0]


# --- keys ---------------------------------------------------------------------------------------


def test_alt_enter_begins_a_new_line():
    shell = Terminal(spelling("!", 5)).type(f":temp\x1b\r.x\x01y\r{CTRL_D}")
    assert shell.session.samples[0].prompt == ":temp\ny.x"
    assert shell.lines[:2] == ["> :temp", ". y.x"]


def test_ctrl_c_drops_the_lines_since_multi():
    shell = Terminal(spelling("!", 1)).type(f":multi\rone\r{CTRL_C}{CTRL_C}b\r{CTRL_D}")
    assert closing(shell.lines)[1:5] == ["the prompt goes on until :end", ". one", "> b", "b!"]


def test_vi_keys_edit_once_they_are_chosen():
    shell = Terminal(spelling("!", 3)).type(f":keys vi\r{CTRL_D}")
    shell.type(f"abd\x1b\x1bxac\r{CTRL_D}")
    assert shell.session.samples[0].prompt == "abc"


def test_f1_helps_with_the_command_that_is_typed():
    shell = Terminal(spelling("!")).type(f":temp 0.\x1bOP{CTRL_D}")
    assert shell.lines[0] == "> :help temp"
    assert shell.lines[1].startswith(":temperature [")


def test_f2_hides_the_toolbar_and_shows_it():
    assert Terminal(spelling("!")).type(f"\x1bOQ{CTRL_D}").session.settings.toolbar is False
    shell = Terminal(spelling("!", toolbar=False))
    assert "seed" not in shell.type(f"a{CTRL_C}{CTRL_D}").out.getvalue()
