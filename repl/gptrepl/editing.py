"""Prompts of several lines: between two commands, or in the user's own editor."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path

from . import chat
from .api import Event, GptreplError, Notice, Text
from .session import Session
from .turns import answer, text_of
from .values import whole

NOTHING = Text("")
EDITORS = ("editor", "nano", "vi", "notepad")
"""What is tried where neither VISUAL nor EDITOR is set."""


def multi(session: Session) -> Iterator[Event]:
    """Begin a prompt of several lines; `:end` on a line of its own samples from it.

    The lines between are text, whatever they begin with. Ctrl-C drops them. In a terminal
    Alt-Enter starts a new line without a command, and a paste of several lines is one prompt.
    """
    session.block = []
    yield Notice("the prompt goes on until :end")


def end(session: Session) -> Iterator[Event]:
    """Sample from the lines since `:multi`."""
    del session
    raise GptreplError("there is no :multi to end")
    yield


def edit(session: Session, text: Text = NOTHING) -> Iterator[Event]:
    """Write a prompt in your editor, beginning with TEXT or the last prompt, and sample from it.

    The editor is that of the variables VISUAL or EDITOR. If it ends with an error, nothing is
    sampled. Ctrl-X Ctrl-E does the same with the line that is being typed.

    In a story you edit all of it, and it goes on from what you saved; TEXT is its next piece.

    In a chat TEXT is the number of one of your turns, which the conversation then goes on from;
    what stands behind the number is said instead of it, without the editor.
    """
    if session.settings.mode == "chat":
        yield from edit_chat(session, text)
        return
    if session.settings.mode == "story":
        yield from edit_story(session, text)
        return
    if session.console is None:
        raise GptreplError("an editor needs a terminal")
    if not text and session.samples:
        text = Text(session.samples[-1].prompt)
    edited = edited_text(text, session.console.lent())
    if not edited:
        yield Notice("nothing to sample from")
        return
    yield from session.stream(edited)


def edit_story(session: Session, text: str) -> Iterator[Event]:
    """Yield the events of a story that goes on from what the editor made of it, or of a piece."""
    if session.console is None:
        raise GptreplError("an editor needs a terminal")
    if text:
        edited = edited_text(text, session.console.lent())
        yield from answer(session, edited) if edited else [Notice("nothing to sample from")]
        return
    story = text_of(session) if session.samples else ""
    edited = edited_text(story, session.console.lent())
    if not edited or edited == story:
        yield Notice("the story is as it was")
        return
    yield from session.ready()
    alike = (one == other for one, other in zip(story, edited, strict=False))
    known = sum(takewhile(bool, alike))
    yield from session.resume([dataclasses.replace(session.start(edited), known=known)])


def edit_chat(session: Session, text: str) -> Iterator[Event]:
    """Yield the events of a turn said anew: its number, and perhaps what to say instead."""
    number, _, instead = text.strip().partition(" ")
    turn = whole(number)
    if turn is None:
        raise GptreplError(":edit takes the number of a turn in a chat, as :chat lists them")
    before = chat.turn_of(session, turn)
    if not instead:
        if session.console is None:
            raise GptreplError(f"an editor needs a terminal: `:edit {number} TEXT` needs none")
        instead = edited_text(before, session.console.lent())
    if not instead or instead == before:
        yield Notice("nothing is said anew")
        return
    yield from chat.edit_turn(session, turn, instead)


def edited_text(text: str, lent: AbstractContextManager[None]) -> str:
    """Return *text* as the user's editor left it, without the line end that editors add.

    The terminal is *lent* to the editor while it runs. What ends with a line end of its own keeps
    that one; what is left alone comes back as it was.

    Raises GptreplError if there is no editor or if it ends with an error.
    """
    program = editor()
    descriptor, name = tempfile.mkstemp(".txt", "gptrepl-")
    os.close(descriptor)
    try:
        Path(name).write_bytes(text.encode())
        try:
            with lent:
                status = subprocess.run([*program, name], check=False).returncode
        except OSError as error:
            raise GptreplError(f"cannot run {program[0]!r}: {error.strerror}") from None
        if status:
            raise GptreplError(f"{program[0]} ended with status {status}: nothing is sampled")
        edited = Path(name).read_bytes().decode()
        if "\r" not in text:  # some editors write it before each line end
            edited = edited.replace("\r\n", "\n")
        return edited if text.endswith("\n") else edited.removesuffix("\n")
    except UnicodeEncodeError:
        raise GptreplError("the line holds bytes that are no UTF-8") from None
    except UnicodeDecodeError:
        raise GptreplError("what was edited is not UTF-8 text") from None
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


def editor() -> list[str]:
    """Return the words that start the user's editor; raise GptreplError if there is none."""
    for variable in ("VISUAL", "EDITOR"):
        chosen = os.environ.get(variable, "")
        try:
            words = shlex.split(chosen)
        except ValueError as error:
            raise GptreplError(f"{variable} is {chosen!r}, which cannot be run: {error}") from None
        if words:
            return words
    for name in EDITORS:
        if shutil.which(name):
            return [name]
    raise GptreplError("no editor was found: set the variable EDITOR to yours")
