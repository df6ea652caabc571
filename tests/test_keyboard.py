"""What the shell does to a terminal's treatment of keys, with a real pseudo-terminal."""

from __future__ import annotations

import os
import sys

import pytest

from gptrepl.keyboard import Keyboard

if sys.platform == "win32":
    pytest.skip("there is no termios", allow_module_level=True)

import termios

LOCAL = 3


@pytest.fixture
def ends():
    master, slave = os.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def flags(descriptor):
    local = termios.tcgetattr(descriptor)[LOCAL]
    names = ("ECHO", "ICANON", "ISIG")
    return {name for name in names if local & getattr(termios, name)}


def test_keys_are_unseen_and_unedited_while_the_shell_runs(ends):
    _, slave = ends
    keyboard = Keyboard(slave)
    with keyboard.hushed():
        assert flags(slave) == {"ISIG"}
        with keyboard.lent():
            assert flags(slave) == {"ECHO", "ICANON", "ISIG"}
        assert flags(slave) == {"ISIG"}
    assert flags(slave) == {"ECHO", "ICANON", "ISIG"}


def test_ctrl_c_drops_nothing_that_was_typed_or_written(ends):
    master, slave = ends
    with Keyboard(slave).hushed():
        assert termios.tcgetattr(slave)[LOCAL] & termios.NOFLSH
        os.write(master, b"typed")
        os.write(slave, b"written")
        os.write(master, b"\x03")  # nobody is there to be interrupted
        assert os.read(slave, 9) == b"typed"
        assert os.read(master, 9) == b"written"
    assert not termios.tcgetattr(slave)[LOCAL] & termios.NOFLSH


def test_a_shell_that_reads_lines_lets_the_terminal_edit_them(ends):
    with Keyboard(ends[1], by_line=True).hushed():
        assert flags(ends[1]) == {"ICANON", "ISIG"}


def test_quit_by_key_is_switched_off_and_comes_back(ends):
    before = termios.tcgetattr(ends[1])
    with Keyboard(ends[1]).hushed():
        assert termios.tcgetattr(ends[1])[6][termios.VQUIT] in (b"\x00", b"\xff")
    assert termios.tcgetattr(ends[1]) == before


def test_what_was_typed_waits_or_is_forgotten(ends):
    master, slave = ends
    keyboard = Keyboard(slave)
    with keyboard.hushed():
        os.write(master, b"ab")
        assert os.read(slave, 1) == b"a"
        keyboard.forget()
        os.write(master, b"c")
        assert os.read(slave, 9) == b"c"


def test_without_a_terminal_nothing_happens():
    reader, writer = os.pipe()
    for keyboard in (Keyboard(None), Keyboard(reader)):
        with keyboard.hushed(), keyboard.lent():
            keyboard.forget()
    os.close(reader)
    os.close(writer)
