"""What the keys do to the line under the cursor."""

from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.buffer import Buffer

from gptrepl.keys import edit_line
from shells import CTRL_C, CTRL_D, Terminal, closing, spelling


def test_alt_enter_begins_a_new_line():
    shell = Terminal(spelling("!", 5)).type(f":temp\x1b\r.x\x01y\r{CTRL_D}")
    assert shell.session.samples[0].prompt == ":temp\ny.x"
    assert shell.lines[:2] == ["> :temp", ". y.x"]


def test_ctrl_c_drops_the_lines_since_multi():
    shell = Terminal(spelling("!", 1)).type(f":multi\rone\r{CTRL_C}{CTRL_C}b\r{CTRL_D}")
    assert closing(shell.lines)[1:5] == ["the prompt goes on until :end", ". one", "> b", "b!"]


def test_tab_completes_at_once_however_fast_it_is_typed():
    shell = Terminal(spelling("!")).type(":keys v\t\r:tempera\t 0.5\r:qui\t\r")
    assert shell.status == 0
    assert shell.session.settings.keys == "vi"
    assert shell.session.settings.value("temperature") == "0.5"


def test_tab_takes_what_all_have_in_common():
    shell = Terminal(spelling("!")).type(f":tempera\x08\x08\x08\t\r{CTRL_D}")
    assert shell.lines[0] == "> :temp"


def test_tab_in_a_prompt_does_nothing():
    shell = Terminal(spelling("!", 3)).type(f"a\tbc\r{CTRL_D}")
    assert shell.session.samples[0].prompt == "abc"


def test_ctrl_c_drops_a_loop():
    shell = Terminal(spelling("!", 1)).type(f":for x in 1 2\r:temp {{x}}\r{CTRL_C}:temp\r{CTRL_D}")
    assert shell.lines[1:4] == [". :temp {x}", "> :temp", "temperature 0.8 (default)"]


def test_vi_keys_edit_once_they_are_chosen():
    shell = Terminal(spelling("!", 3)).type(f":keys vi\r{CTRL_D}")
    shell.type(f"abd\x1b\x1bxac\r{CTRL_D}")
    assert shell.session.samples[0].prompt == "abc"


def edited(line):
    """What was entered of *line* after the user's editor, and the hints."""
    entered, hints = [], []
    buffer = Buffer(accept_handler=lambda buffer: bool(entered.append(buffer.text)))
    buffer.text = line
    asyncio.run(edit_line(buffer, hints.append))
    return entered, hints, buffer.text


def test_the_editor_edits_the_line_and_enters_it(monkeypatch):
    monkeypatch.setenv("VISUAL", "sed -i s/b/c/")
    assert edited("ab") == (["ac"], [], "")


@pytest.mark.parametrize(
    ("editor", "line", "says"),
    [
        ("false", "ab", "false ended with status 1: nothing is sampled"),
        ("no-such-editor", "ab", "cannot run 'no-such-editor': No such file or directory"),
        ("nano '", "ab", 'VISUAL is "nano \'", which cannot be run: No closing quotation'),
        ("true", "\udcffb", "the line holds bytes that are no UTF-8"),
    ],
)
def test_an_editor_that_fails_is_a_hint_and_leaves_the_line(editor, line, says, monkeypatch):
    monkeypatch.setenv("VISUAL", editor)
    assert edited(line) == ([], [says], line)


def test_f1_helps_with_the_command_that_is_typed():
    shell = Terminal(spelling("!")).type(f":temp 0.\x1bOP{CTRL_D}")
    assert shell.lines[0] == "> :help temp"
    assert shell.lines[1].startswith(":temperature [")


def test_the_toolbar_names_the_keys_where_there_is_room():
    assert "F1 help  F2 hide" in Terminal(spelling("!"), columns=100).type(CTRL_D).out.getvalue()
    assert "F1 help" not in Terminal(spelling("!"), columns=50).type(CTRL_D).out.getvalue()


def test_f2_hides_the_toolbar_and_shows_it():
    assert Terminal(spelling("!")).type(f"\x1bOQ{CTRL_D}").session.settings.toolbar is False
    shell = Terminal(spelling("!", toolbar=False))
    assert "seed" not in shell.type(f"a{CTRL_C}{CTRL_D}").out.getvalue()
