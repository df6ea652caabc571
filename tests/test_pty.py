"""The shell in a real pseudo-terminal: what is on the screen, not what was sent."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import time

import pexpect
import pyte
import pytest

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
PATIENCE = 60
CLOSING = re.compile(r"^(interrupted, )?\d+ tokens, \d+ tokens/s, seed 1337, context \d+/256$")


class Window:
    """A terminal window in which the shell runs; `wait` reads until the screen shows something."""

    def __init__(self, home, columns=80, rows=24, *arguments, term="xterm-256color"):
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "gptrepl", *arguments],
            env={**kept, "HOME": str(home), "TERM": term, "OMP_NUM_THREADS": "1"},
            cwd=str(home),
            dimensions=(rows, columns),
        )

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def wait(self, condition):
        """Read until *condition* of the lines on the screen holds, and return the lines."""
        for _ in range(PATIENCE * 20):
            if condition(self.lines):
                return self.lines
            self.read(0.05)
        raise AssertionError("\n".join(["never on the screen; it shows:", *self.lines]))

    def read(self, timeout=0):
        try:
            data = self.child.read_nonblocking(65536, timeout=timeout)
        except pexpect.TIMEOUT:
            return
        self.raw += data
        self.stream.feed(data)

    def type(self, keys):
        while keys:  # the other side has to read between two pieces
            self.child.send(keys[:1000])
            keys = keys[1000:]
            if keys:
                self.read()

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def end(self):
        """Return the exit status."""
        self.wait_for_end()
        return self.child.exitstatus

    def wait_for_end(self):
        while True:
            try:
                data = self.child.read_nonblocking(65536, timeout=PATIENCE)
            except pexpect.EOF:
                break
            self.raw += data
            self.stream.feed(data)
        self.attributes = termios.tcgetattr(self.child.child_fd)
        self.child.wait()


@pytest.fixture
def open_window(tmp_path):
    windows = []

    def make(*arguments, **options):
        windows.append(Window(tmp_path, *arguments, **options))
        return windows[-1]

    yield make
    for window in windows:
        window.child.close(force=True)


def has(beginning):
    """A condition: a line begins so."""
    return lambda lines: any(line.startswith(beginning) for line in lines)


def closed(lines):
    """Whether the last sample is closed and an empty prompt stands below it."""
    return len(lines) > 2 and bool(CLOSING.match(lines[-3])) and lines[-2] == ">"


def test_a_session_in_a_window(open_window, tmp_path):
    window = open_window(80, 24)
    window.wait(lambda lines: lines[:1] == [">"])
    set_and_interrupt(window)
    type_ahead(window)
    paste_and_resize(window)
    window.type(CTRL_C + ":qui\t")
    window.wait(lambda lines: "> :quit" in lines)
    window.type("\r")
    assert window.end() == 0
    assert b"\x1b[6n" not in window.raw
    assert "+ROMEO:" in (tmp_path / ".local/state/gptrepl/history").read_text()


def set_and_interrupt(window):
    window.type(":temp 0.7\r")
    assert window.wait(has("temperature 0.7"))[0] == "> :temp 0.7"
    window.type(":tokens 20000\r")
    window.wait(has("max_new_tokens 20000"))
    window.type("ROMEO:\r")
    window.wait(lambda lines: "ROMEO:" in lines and len(lines) > lines.index("ROMEO:") + 3)
    window.type(CTRL_C + CTRL_C)
    lines = window.wait(closed)
    assert lines[-3].startswith("interrupted, ")
    assert re.fullmatch(
        r"shakespeare  context \d+/256  temperature 0.7  top_k 200  seed 1337 *", lines[-1]
    )


def type_ahead(window):
    window.type(":tokens 300\rROMEO:\r")
    window.wait(lambda lines: lines[-1].endswith("candidates  Ctrl-C stops"))
    window.type("typed ahead")
    lines = window.wait(lambda lines: "> typed ahead" in lines)
    assert CLOSING.match(lines[lines.index("> typed ahead") - 1])
    assert sum("typed ahead" in line for line in lines) == 1
    window.type(CTRL_C)
    window.wait(closed)
    window.type(f":tem{UP}")  # the last line that begins so
    window.wait(lambda lines: "> :temp 0.7" in lines)
    window.type(CTRL_C)


def paste_and_resize(window):
    window.resize(200, 50)
    text = "".join(f"{word} line of the text\n" for word in ("one", "two") * 2500)  # 105 kB
    window.type(f"\x1b[200~{text}:quit\x1b[201~")
    window.wait(lambda lines: ". :quit" in lines)
    window.type("\r")
    window.wait(lambda lines: lines[-1].endswith("Ctrl-C stops"))
    window.resize(60, 20)
    window.wait(lambda lines: " tokens/s  entropy " in lines[-1] and len(lines[-1]) < 60)
    window.type(CTRL_C)
    window.wait(lambda lines: lines[-2] == ">")
    window.type(UP)  # the whole paste is one entry
    window.wait(lambda lines: ". :quit" in lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_killed_shell_leaves_a_sane_terminal(open_window, number):
    window = open_window(80, 24)
    before = termios.tcgetattr(window.child.child_fd)
    window.wait(lambda lines: lines[:1] == [">"])
    assert termios.tcgetattr(window.child.child_fd)[3] != before[3]
    window.child.kill(number)
    assert window.end() == 128 + number
    assert window.raw.count(b"\x1b[?2004l") == window.raw.count(b"\x1b[?2004h") == 1
    assert window.attributes[3] == before[3]


def test_a_small_window_that_is_left_while_the_model_loads(open_window):
    window = open_window(20, 10)
    window.wait(lambda lines: lines == [">", "loading shakespeare"])
    window.type(":temp\r")
    window.wait(lambda lines: lines[:4] == ["> :temp", "temperature 0.8", "(default)", ">"])
    window.type(":he")
    assert window.wait(has(" help"))[-1].startswith("loading")
    window.type(CTRL_C)
    window.wait(lambda lines: lines[3] == ">")
    window.type("ROMEO:\r")
    # The toolbar says the same, but there the cursor does not stand behind it.
    window.wait(lambda lines: lines[-1] == "loading shakespeare" and window.screen.cursor.x > 10)
    window.type(CTRL_C)
    window.wait(has("interrupted"))
    window.type(CTRL_D)
    assert window.end() == 0


def test_a_terminal_that_can_do_little_gets_plain_input(open_window):
    window = open_window(80, 24, term="dumb")
    window.wait(has("this terminal (TERM=dumb) gets plain input"))
    window.type(":temp 0.7\r")
    window.wait(lambda lines: lines[-2:] == ["temperature 0.7", ">"])
    window.type("half")
    window.wait(lambda lines: lines[-1] == "> half")
    window.type(CTRL_C)
    window.wait(lambda lines: lines[-2:] == ["> half^C", ">"])
    window.type(":nothing\r")
    window.wait(has("no command :nothing"))
    window.type(":quit\r")
    assert window.end() == 0
    assert b"\x1b" not in window.raw


@pytest.mark.parametrize("delays", [(0, 0.002, 0.005, 0.01), (0.02, 0.03, 0.06, 0.12)])
def test_ctrl_c_with_enter_stops_the_sample_however_near_it_comes(open_window, delays):
    window = open_window(80, 24)
    window.child.delaybeforesend = None
    window.wait(lambda lines: lines[:1] == [">"])
    window.type(":tokens 20000\r")
    window.wait(has("max_new_tokens 20000"))
    window.type("ROMEO:\r")  # the model is in memory then
    window.wait(lambda lines: lines[-1].endswith("Ctrl-C stops"))
    window.type(CTRL_C)
    window.wait(closed)
    for name, delay in zip("ABCD", delays, strict=True):
        window.type(f"{name}!\r")
        time.sleep(delay)
        window.type(CTRL_C)
        lines = window.wait(lambda lines, line=f"> {name}!": line in lines and closed(lines))
        assert lines[-3].startswith("interrupted, ")
        window.type(":temp\r")  # the shell is there, and nothing of it has been lost
        window.wait(lambda lines: lines[-3:-1] == ["temperature 0.8 (default)", ">"])
    window.type(":quit\r")
    assert window.end() == 0


def test_in_plain_input_too(open_window):
    window = open_window(80, 24, term="dumb")
    window.child.delaybeforesend = None
    window.wait(lambda lines: lines[-1:] == [">"])
    window.type(":tokens 20000\r")
    window.wait(has("max_new_tokens 20000"))
    window.type("A!\r")
    window.wait(lambda lines: lines[-1].startswith("A!"))
    window.type(CTRL_C)
    window.wait(lambda lines: lines[-2].startswith("interrupted, "))
    window.type("B!\r")
    time.sleep(0.005)
    window.type(CTRL_C)
    lines = window.wait(lambda lines: "B!" in " ".join(lines) and lines[-1] == ">")
    assert lines[-2].startswith("interrupted, ") or lines[-2].endswith("^C")
    window.type(":quit\r")
    assert window.end() == 0
