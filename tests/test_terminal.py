"""The shell through real prompt-toolkit: keys in, what is on the screen out."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import termios
from pathlib import Path
from threading import Thread

import pytest

from fakes import Interrupted, Speller, session_of
from gptrepl import statusbar, terminal
from gptrepl.api import Notice
from gptrepl.document import Line
from gptrepl.session import Session
from shells import CTRL_C, CTRL_D, Terminal, closing, spelling


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


def test_what_a_session_begins_with_comes_before_the_first_prompt():
    session = spelling("x")
    session.startup = [Notice("hello"), Line(":temp 0.5", "config.yaml:3"), Line(":nothing", "f:4")]
    lines = Terminal(session).type(CTRL_D).lines
    assert lines[:2] == ["hello", "temperature 0.5"]
    assert lines[2].startswith("f:4: no command :nothing")
    assert lines[3] == ">"
    session.startup = [Line(":quit", "f:1")]
    assert Terminal(session).type("").status == 0


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
    """A signal comes twice while it thinks of the third token."""

    number = signal.SIGINT

    def logits(self, rows):
        if len(self.calls) == 2:
            os.kill(os.getpid(), self.number)
            os.kill(os.getpid(), self.number)
        return super().logits(rows)


def test_ctrl_c_twice_is_ctrl_c():
    shell = Terminal(session_of(Pressed("defg", 3), max_new_tokens=9)).type(f"abc\r{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcde", "interrupted, 2", ">"]


def test_ctrl_c_with_enter_stops_what_enter_starts_and_keeps_it_empty():
    shell = Terminal(spelling("de")).type(f"abc\r:te{CTRL_C}{CTRL_C}mp\r{CTRL_D}")
    assert closing(shell.lines) == [
        *("> abc", "abc", "interrupted, 0", "> :temp", "temperature 0.8 (default)", ">")
    ]
    assert shell.session.samples[0].text == "abc"


def test_ctrl_c_with_enter_stops_all_samples_and_each_is_said():
    shell = Terminal(spelling("de", num_samples=3)).type(f"abc\r{CTRL_C}{CTRL_D}")
    assert closing(shell.lines) == ["> abc", *["abc", "interrupted, 0"] * 3, ">"]


def test_ctrl_c_with_enter_is_for_the_next_line_where_there_is_nothing_to_stop():
    shell = Terminal(spelling("de")).type(f":temp 0.5\r{CTRL_C}abc\r{CTRL_D}")
    assert closing(shell.lines)[:4] == ["> :temp 0.5", "temperature 0.5", "> abc", "abcde"]


def test_ctrl_c_behind_the_next_enter_is_for_the_next_line():
    shell = Terminal(spelling("de")).type(f"abc\rhalf\r{CTRL_C}{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcde", "2", "> half", "half", "interrupted, 0", ">"]


def test_two_samples_can_be_stopped_within_a_second():
    shell = Terminal(spelling("de")).type(f"abc\r{CTRL_C}abc\r{CTRL_C}{CTRL_D}")
    assert closing(shell.lines) == [*["> abc", "abc", "interrupted, 0"] * 2, ">"]


class Killed(Pressed):
    number = signal.SIGTERM


def test_a_shell_that_is_killed_ends_its_sample_first():
    shell = Terminal(session_of(Killed("defg", 3), max_new_tokens=9)).type("abc\r:temp\r")
    assert shell.status == 128 + signal.SIGTERM
    assert closing(shell.lines) == ["> abc", "abcde", "interrupted, 2"]
    assert shell.session.samples[0].text == "abcde"


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, RecursionError, MemoryError])
def test_no_error_ends_the_shell(error):
    session = session_of(Interrupted("de", 0, error), max_new_tokens=2)
    shell = Terminal(session).type(f"a\r:temp\r{CTRL_D}")
    assert error.__name__ in " ".join(shell.lines)
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


@pytest.mark.parametrize(("answer", "says"), [("y", True), (" YES ", True), ("", False)])
def test_a_command_may_ask(monkeypatch, answer, says):
    shell = Terminal(spelling("x")).type(CTRL_D)
    monkeypatch.setattr("builtins.input", lambda sign: sign == "overwrite ^[? [y/N] " and answer)
    assert shell.session.confirm("overwrite \x1b?") is says


def test_no_answer_is_no(monkeypatch):
    shell = Terminal(spelling("x")).type(CTRL_D)
    monkeypatch.setattr("builtins.input", lambda sign: (_ for _ in ()).throw(EOFError))
    assert shell.session.confirm("overwrite?") is False


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
        "this terminal (TERM=dumb) gets plain input without history or colours",
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


@contextlib.contextmanager
def real_terminal(monkeypatch, tmp_path):
    """Both ends of a pseudo-terminal of 60 columns that is this process's standard one."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (12, 60))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("gptrepl.history.history_path", lambda: tmp_path / "history")
    with open(slave, closefd=False) as keys, open(slave, "w", closefd=False) as screen:
        monkeypatch.setattr("sys.stdin", keys)
        monkeypatch.setattr("sys.stdout", screen)
        yield master, slave
    os.close(slave)
    os.close(master)


def shown(master):
    """A list that grows by what is written, and the thread that reads it."""
    pieces = []

    def read():
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                pieces.append(piece)
                if b"the end" in b"".join(pieces):
                    return

    reader = Thread(target=read)
    reader.start()
    return pieces, reader


def test_a_real_terminal_gets_a_fine_shell(monkeypatch, tmp_path):
    with real_terminal(monkeypatch, tmp_path) as (master, slave):
        pieces, reader = shown(master)
        os.write(master, b"abc\r:nothing\r:quit\r")
        before = termios.tcgetattr(slave)
        assert terminal.run(spelling("de")) == 0
        assert termios.tcgetattr(slave) == before
        assert terminal.size() == (60, 12)
        os.write(slave, b"the end")
        reader.join()
    text = b"".join(pieces).decode()
    assert "\x1b[2mabc\x1b[0mde" in text
    assert "\x1b[31mno command :nothing" in text
    assert "+:nothing" in (tmp_path / "history").read_text()


def test_a_terminal_without_a_size_gets_plain_input(monkeypatch, tmp_path):
    with real_terminal(monkeypatch, tmp_path) as (master, slave):
        termios.tcsetwinsize(slave, (0, 0))
        pieces, reader = shown(master)
        lines = iter([":temp 0.6", ":quit"])
        monkeypatch.setattr("builtins.input", lambda _sign: next(lines))
        assert terminal.run(spelling("de")) == 0
        os.write(slave, b"the end")
        reader.join()
    text = b"".join(pieces)
    assert b"this terminal (TERM=xterm) gets plain input" in text
    assert b"temperature 0.6" in text


# --- settings of the terminal ---------------------------------------------------------------------


def test_themes_and_colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = "abc\r:theme bright\rabc\r:colours off\rabc\r"
    shown = Terminal(spelling("!")).type(lines + CTRL_D).out.getvalue()
    assert [shown.count(f"{look}abc") for look in ("\x1b[2m", "\x1b[36m")] == [1, 1]
    assert "\x1b[?2004labc!" in shown


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Terminal(spelling("!")).type(f"abc\r:nothing\r{CTRL_D}").out.getvalue()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)
    assert "\x1b[2m" not in shown
    shown = Terminal(spelling("!", colours="on")).type(f"abc\r{CTRL_D}").out.getvalue()
    assert "\x1b[2mabc" in shown


def test_timing_says_how_long_a_line_took():
    lines = Terminal(spelling("!")).type(f":timing on\rabc\r:temp\r{CTRL_D}").lines
    times = [line for line in lines if re.match(r"\d+\.\d\d s", line)]
    assert [", the first token after " in line for line in times] == [False, True, False]


class Watched(Speller):
    """Looks at the last row of a screen before each step."""

    def __init__(self):
        super().__init__("de", 3)
        self.screen = None
        self.rows = []

    def logits(self, rows):
        self.rows.append(self.screen.lines[-1])
        return super().logits(rows)


def test_the_last_row_says_how_much_of_all_samples_is_done(monkeypatch):
    monkeypatch.setattr(statusbar, "DELAY", 0.0)
    monkeypatch.setattr(statusbar, "EVERY", 0.0)
    model = Watched()
    shell = Terminal(session_of(model, max_new_tokens=2, num_samples=40), rows=12, bar=True)
    model.screen = shell
    shell.type(f"abc\r{CTRL_D}")
    shares = [row.partition("%")[0] for row in model.rows]
    assert shares[1] == "samples 0/40 · 1 "  # the first token of the first sample is shown
    assert shares[3].startswith("samples 32/40 · 81 ")
    assert "samples" not in "".join(shell.lines)
    one = Terminal(spelling("de", num_samples=1), bar=True).type(f"abc\r{CTRL_D}")
    assert "samples" not in one.out.getvalue()


def test_the_bell_rings_when_a_long_line_is_done(monkeypatch):
    assert "\a" not in Terminal(spelling("!", bell=True)).type(f"abc\r{CTRL_D}").out.getvalue()
    monkeypatch.setattr(terminal, "LONG", 0.0)
    assert "\a" not in Terminal(spelling("!")).type(f"abc\r{CTRL_D}").out.getvalue()
    shown = Terminal(spelling("!", bell=True)).type(f"abc\r{CTRL_D}").out.getvalue()
    assert shown.count("\a") == 1


def test_a_long_table_goes_to_the_pager(monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    monkeypatch.setenv("PAGER", f"tee {seen}")
    shell = Terminal(spelling("!", pager=True), rows=10).type(f":help\r:profile\r{CTRL_D}")
    assert ":temperature" in seen.read_text()
    assert "profile" in shell.out.getvalue()
    monkeypatch.setenv("PAGER", "no-such-program")
    assert (
        ":quit"
        in Terminal(spelling("!", pager=True), rows=10).type(f":help\r{CTRL_D}").out.getvalue()
    )


def test_a_short_table_does_not(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGER", f"tee {tmp_path / 'seen'}")
    Terminal(spelling("!", pager=True), rows=24).type(f":profile\r{CTRL_D}")
    Terminal(spelling("!"), rows=10).type(f":help\r{CTRL_D}")
    assert not (tmp_path / "seen").exists()
