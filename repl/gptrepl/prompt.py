"""Reads one line with prompt-toolkit: keys, history, the toolbar. It evaluates nothing.

The terminal is never asked where its cursor is: the reply would end up among the typed keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from itertools import takewhile

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, to_filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import DynamicStyle, Style
from prompt_toolkit.utils import get_cwidth

from . import toolbar
from .api import GptreplError
from .appearance import StrangeLexer, style
from .completion import LineCompleter, is_command
from .draft import Draft
from .interrupts import Interrupts
from .keys import LEGEND, bindings
from .looks import UNCOLOURED, looks
from .session import Session
from .suggestion import Suggester

SIGN = "> "
CONTINUED = ". "
MENU_ROWS = 8
ENTER = (Keys.ControlM, Keys.ControlJ)
TICK = 0.1
"""Seconds between two looks at a load that goes on behind the prompt."""


class QuietOutput(Vt100_Output):
    """A terminal that is never asked for its cursor's position."""

    @property
    def responds_to_cpr(self) -> bool:
        """No: it is not asked."""
        return False

    def get_rows_below_cursor_position(self) -> int:
        """Return 1: the layout begins where the cursor is and takes the rows it needs."""
        return 1


class Prompt:
    """The line under the cursor, with what is known around it."""

    def __init__(
        self,
        session: Session,
        history: History,
        interrupts: Interrupts,
        *,
        input: Input,
        output: Output,
    ) -> None:
        self.session = session
        self.interrupts = interrupts
        self._hint = ""
        self._completer = LineCompleter(session)
        self._draft = Draft(session, self._redraw)
        self._suggester = Suggester(session)
        self._shell: PromptSession[str] = PromptSession(
            self._sign,
            prompt_continuation=continuation,
            history=history,
            completer=self._completer,
            complete_in_thread=True,
            complete_while_typing=Condition(self._is_command),
            lexer=StrangeLexer(self._draft, self._look),
            auto_suggest=self._suggester,
            key_bindings=bindings(session, self._completer, self._show_hint),
            enable_suspend=True,
            style=DynamicStyle(self._style),
            include_default_pygments_style=False,
            input=input,
            output=output,
        )
        # Set here because PromptSession would give up completion while typing for it.
        self._shell.default_buffer.enable_history_search = to_filter(True)
        self._accept = self._shell.default_buffer.accept_handler
        self._shell.default_buffer.accept_handler = self._enter
        self._shell.default_buffer.on_text_changed += self._follow
        self._shell.app.before_render += self._dress
        self._shell.app.after_render += self._rendered
        self._shell.app.key_processor.before_key_press += lambda _keys: self._show_hint("")

    def read(self) -> str:
        """Return the next line; raise EOFError where the input ends."""
        rows = self._shell.app.output.get_size().rows
        self._shell.reserve_space_for_menu = min(MENU_ROWS, rows // 3)
        if self.interrupts.unspent:
            self.interrupts.unspent = False
            keys = self._shell.app.input
            store_typeahead(keys, [KeyPress(Keys.ControlC), *get_typeahead(keys)])
        try:
            line = self._shell.prompt(pre_run=self._watch, handle_sigint=False)
        finally:
            self._suggester.stop()
        if sys.platform != "win32" and stopped(self._shell.app.input):
            self.interrupts.press()
        return line

    def _enter(self, buffer: Buffer) -> bool:
        self.interrupts.entered()
        return self._accept is not None and self._accept(buffer)

    def _dress(self, _app: object) -> None:
        """Follow the settings of keys and toolbar."""
        settings = self.session.settings
        editing = EditingMode.VI if settings.keys == "vi" else EditingMode.EMACS
        if self._shell.editing_mode is not editing:
            self._shell.editing_mode = editing
        plain = looks(settings) is UNCOLOURED
        self._shell.color_depth = ColorDepth.DEPTH_1_BIT if plain else None
        self._shell.bottom_toolbar = self._toolbar if settings.toolbar or self._hint else None

    def _style(self) -> Style:
        return style(looks(self.session.settings))

    def _show_hint(self, text: str) -> None:
        self._hint = text

    def _sign(self) -> FormattedText:
        is_open = self.session.block is not None or self.session.scope.is_open
        sign = CONTINUED if is_open else SIGN
        return FormattedText([(f"class:prompt {self._look()}", sign)])

    def _look(self) -> str:
        """Return the style of what is typed: in a chat that of the user, unless it is a command."""
        is_turn = self.session.settings.mode == "chat" and not self._is_command()
        return "class:user" if is_turn else ""

    def stop(self) -> None:
        """Let the reading that goes on raise EOFError."""
        app = self._shell.app

        def leave() -> None:
            if app.is_running:
                app.exit(exception=EOFError)

        if app.loop is not None:
            app.loop.call_soon_threadsafe(leave)

    def _is_command(self) -> bool:
        return is_command(self._shell.default_buffer.text)

    def _follow(self, _buffer: object = None) -> None:
        self._draft.follow("" if self._is_command() else self._shell.default_buffer.text)

    def _redraw(self) -> None:
        with contextlib.suppress(RuntimeError):  # the prompt is being left at this moment
            self._shell.app.invalidate()

    def _rendered(self, _app: object) -> None:
        """Begin to load the model once the first prompt is on the screen."""
        self._shell.app.after_render -= self._rendered
        self.session.load_behind()
        self._shell.app.invalidate()

    def _watch(self) -> None:
        async def until_loaded() -> None:
            await asyncio.sleep(TICK)
            while self.session.is_loading:
                await asyncio.sleep(TICK)
            self._follow()
            self._shell.app.invalidate()

        if self.session.loaded is None:
            self._shell.app.create_background_task(until_loaded())

    def _toolbar(self) -> FormattedText:
        try:
            typed = self._shell.default_buffer.text
            text = self._hint or toolbar.status(self.session, self._draft.finding, typed)
        except Exception:  # a sampler that fails to describe itself must not stop a key
            text = ""
        normal = self._shell.app.vi_state.input_mode is InputMode.NAVIGATION
        mode = (
            f"normal{toolbar.GAP}" if self._shell.editing_mode is EditingMode.VI and normal else ""
        )
        return FormattedText([("", self._with_legend(mode + text))])

    def _with_legend(self, text: str) -> str:
        """Return *text* with the function keys at its right end, if there is room."""
        room = self._shell.app.output.get_size().columns - get_cwidth(text)
        fits = room > len(LEGEND) + len(toolbar.GAP)
        return f"{text}{' ' * (room - len(LEGEND) - 1)}{LEGEND}" if fits else text


def stopped(keys: Input) -> bool:
    """Return whether Ctrl-C stands behind the line that was entered, before another one ends.

    It is taken out there, as where the terminal makes a signal of it; other keys wait.
    """
    pending = [*get_typeahead(keys), *keys.read_keys()]
    behind = list(takewhile(lambda press: press.key not in ENTER, pending))
    others = [press for press in behind if press.key != Keys.ControlC]
    store_typeahead(keys, [*others, *pending[len(behind) :]])
    return len(others) < len(behind)


def continuation(_width: int, _line: int, wrapped: int) -> str:
    """Return what stands before the further lines of a prompt; nothing where a line is wrapped."""
    return "" if wrapped else CONTINUED


def open_terminal() -> tuple[Input, Output]:
    """Return the keys and the screen of the terminal the shell was started on.

    Raises GptreplError where prompt-toolkit cannot use it.
    """
    from prompt_toolkit.input import create_input
    from prompt_toolkit.output import create_output

    if sys.platform != "win32":
        return create_input(), QuietOutput.from_pty(sys.stdout, term=os.environ.get("TERM"))
    try:
        return create_input(), create_output()
    except Exception as error:  # Git Bash: there is no console screen buffer
        raise GptreplError("this window is no console") from error
