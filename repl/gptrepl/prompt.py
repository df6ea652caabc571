"""Reads one line with prompt-toolkit: keys, history, the toolbar. It evaluates nothing.

The terminal is never asked where its cursor is: the reply would end up among the typed keys.
"""

from __future__ import annotations

import asyncio
import os
import sys

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, has_focus, to_filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from . import toolbar
from .api import GptreplError
from .completion import LineCompleter, is_command
from .session import Session

SIGN = "> "
MENU_ROWS = 8
TICK = 0.1
"""Seconds between two looks at a load that goes on behind the prompt."""
LOOKS = Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack", "prompt": "bold"})
LEAVE_HINT = "Ctrl-D or :quit leaves"


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

    def __init__(self, session: Session, history: History, *, input: Input, output: Output) -> None:
        self.session = session
        self._hint = ""
        self._completer = LineCompleter(session)
        self._shell: PromptSession[str] = PromptSession(
            [("class:prompt", SIGN)],
            history=history,
            completer=self._completer,
            complete_in_thread=True,
            complete_while_typing=Condition(self._is_command),
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=self._toolbar,
            key_bindings=self._keys(),
            style=LOOKS,
            include_default_pygments_style=False,
            input=input,
            output=output,
        )
        # Set here because PromptSession would give up completion while typing for it.
        self._shell.default_buffer.enable_history_search = to_filter(True)
        self._shell.app.after_render += self._rendered

    def read(self) -> str:
        """Return the next line; raise EOFError where the input ends."""
        rows = self._shell.app.output.get_size().rows
        self._shell.reserve_space_for_menu = min(MENU_ROWS, rows // 3)
        return self._shell.prompt(pre_run=self._watch)

    def _is_command(self) -> bool:
        return is_command(self._shell.default_buffer.text)

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
            self._shell.app.invalidate()

        if self.session.loaded is None:
            self._shell.app.create_background_task(until_loaded())

    def _toolbar(self) -> FormattedText:
        try:
            text = self._hint or toolbar.status(self.session)
        except Exception:  # a sampler that fails to describe itself must not stop a key
            text = ""
        return FormattedText([("", text)])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        at_prompt = has_focus("DEFAULT_BUFFER")

        @keys.add("c-c", filter=at_prompt)
        @keys.add("<sigint>")
        def clear(event: KeyPressEvent) -> None:
            """Clear the line."""
            buffer = self._shell.default_buffer
            self._hint = "" if buffer.text else LEAVE_HINT
            buffer.reset()
            event.app.layout.focus(buffer)

        @keys.add("tab", filter=at_prompt)
        def complete(event: KeyPressEvent) -> None:
            """Complete at once, however fast it was typed; step through where there is a choice."""
            buffer = event.current_buffer
            if buffer.complete_state:
                buffer.complete_next()
                return
            found = list(self._completer.get_completions(buffer.document, CompleteEvent()))
            common = get_common_complete_suffix(buffer.document, found)
            if len(found) == 1:
                buffer.apply_completion(found[0])
            elif common:
                buffer.insert_text(common)
            elif found:
                buffer.start_completion()

        @keys.add(Keys.BracketedPaste, filter=at_prompt)
        def paste(event: KeyPressEvent) -> None:
            """Insert what was pasted; a command copied with its line end stays a command."""
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            line = text.removesuffix("\n")
            alone = not self._shell.default_buffer.text and is_command(line)
            event.current_buffer.insert_text(line if alone else text)

        return keys


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
