"""What the keys do beyond what prompt-toolkit's own bindings do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import emacs_mode, has_focus, has_selection, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from .commands import split
from .completion import is_command
from .editing import edited_text
from .report import failure
from .session import Session

LEAVE_HINT = "Ctrl-D or :quit leaves"
DROPPED_HINT = "the lines that waited for :end are dropped"
AT_PROMPT = has_focus(DEFAULT_BUFFER)
LEGEND = "F1 help  F2 hide"
"""What the toolbar says of the keys it names."""


def bindings(session: Session, completer: Completer, hint: Callable[[str], None]) -> KeyBindings:
    """Return the bindings of the prompt; *hint* shows a line in the toolbar until the next key."""
    keys = KeyBindings()
    add_editing(keys, session, completer, hint)
    add_editor(keys, hint)
    add_functions(keys, session)
    return keys


def add_editing(
    keys: KeyBindings, session: Session, completer: Completer, hint: Callable[[str], None]
) -> None:
    """Add Ctrl-C, Tab, Alt-Enter and pasting."""

    @keys.add("c-c", filter=AT_PROMPT)
    def clear(event: KeyPressEvent) -> None:
        buffer = event.app.layout.get_buffer_by_name(DEFAULT_BUFFER)
        if buffer is None:
            return
        if not buffer.text:
            is_open = session.block is not None or session.scope.is_open
            hint(DROPPED_HINT if is_open else LEAVE_HINT)
            session.block = None
            session.scope.drop()
        buffer.reset()
        event.app.layout.focus(buffer)

    @keys.add("tab", filter=AT_PROMPT)
    def complete(event: KeyPressEvent) -> None:
        complete_now(event.current_buffer, completer)

    @keys.add("escape", "enter", filter=AT_PROMPT & emacs_mode)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste, filter=AT_PROMPT)
    def paste(event: KeyPressEvent) -> None:
        """Insert what was pasted; a command copied with its line end stays a command."""
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        line = text.removesuffix("\n")
        alone = not event.current_buffer.text and is_command(line)
        event.current_buffer.insert_text(line if alone else text)


def add_editor(keys: KeyBindings, hint: Callable[[str], None]) -> None:
    """Add Ctrl-X Ctrl-E, and `v` for vi: the line goes through the user's editor and is entered."""

    @keys.add("c-x", "c-e", filter=AT_PROMPT & emacs_mode & ~has_selection)
    @keys.add("v", filter=AT_PROMPT & vi_navigation_mode)
    def edit(event: KeyPressEvent) -> None:
        event.app.create_background_task(edit_line(event.current_buffer, hint))


async def edit_line(buffer: Buffer, hint: Callable[[str], None]) -> None:
    """Enter what the user's editor makes of the line; where it fails the line stays as it is."""
    try:
        text = await run_in_terminal(
            lambda: edited_text(buffer.text, nullcontext()), in_executor=True
        )
    except Exception as error:  # the loop that runs this would show where it was raised
        hint(failure(error))
        return
    buffer.document = Document(text)
    buffer.validate_and_handle()


def add_functions(keys: KeyBindings, session: Session) -> None:
    """Add the function keys."""

    @keys.add("f1", filter=AT_PROMPT)
    def show_help(event: KeyPressEvent) -> None:
        """Run :help, for the command that is being typed if there is one."""
        buffer = event.current_buffer
        if not buffer.text or is_command(buffer.text):
            buffer.text = f":help {split(buffer.text)[0] if buffer.text else ''}".rstrip()
            buffer.validate_and_handle()

    @keys.add("f2")
    def toggle(event: KeyPressEvent) -> None:
        session.set(toolbar=not session.settings.toolbar)
        event.app.invalidate()


def complete_now(buffer: Buffer, completer: Completer) -> None:
    """Complete at once, however fast it was typed; step through where there is a choice."""
    if buffer.complete_state:
        buffer.complete_next()
        return
    found = list(completer.get_completions(buffer.document, CompleteEvent()))
    common = get_common_complete_suffix(buffer.document, found)
    if len(found) == 1:
        buffer.apply_completion(found[0])
    elif common:
        buffer.insert_text(common)
    elif found:
        buffer.start_completion()
