"""A shell with a keyboard that types and a screen that can be read."""

from __future__ import annotations

import io

import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input

from fakes import Speller, session_of
from gptrepl import terminal
from gptrepl.interrupts import Interrupts
from gptrepl.keyboard import Keyboard
from gptrepl.prompt import Prompt, QuietOutput
from gptrepl.screen import Screen
from gptrepl.statusbar import StatusBar

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A shell with a keyboard that types *keys* and a screen that can be read."""

    def __init__(self, session, columns=80, rows=24, history=None, *, bar=False):
        self.session = session
        self.out = io.StringIO()
        self.size = Size(rows=rows, columns=columns)
        self.history = history or InMemoryHistory()
        self.status = None
        self.bar = StatusBar(self.out, lambda: (columns, rows)) if bar else None

    def type(self, keys):
        interrupts = Interrupts(Keyboard(None))
        with create_pipe_input() as pipe, interrupts.handled():
            pipe.send_bytes(keys.encode("utf-8", "surrogateescape"))
            output = QuietOutput(self.out, lambda: self.size, term="xterm")
            prompt = Prompt(self.session, self.history, interrupts, input=pipe, output=output)
            screen = Screen(self.out, lambda: self.size.columns, bar=self.bar)
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
