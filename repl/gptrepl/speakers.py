"""Who says what in the text of a conversation, so that its turns can be told apart on a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .samples import Message

Part = tuple[str, str]
"""A piece of the text behind the role that says it; no role: the template writes it."""
MARK = "gptrepl-turn-{}-of-it"


def parts(
    text: str, messages: Sequence[Message], render: Callable[[Sequence[Message]], str]
) -> tuple[Part, ...]:
    """Return *text*, which *render* made of *messages*, in parts; joined they are the text.

    What the template writes between two turns is found out with turns that cannot be mistaken.
    Where the text is not made so, as by the template of another model, nobody says the rest of it.
    """
    marked = [{**turn, "content": MARK.format(at)} for at, turn in enumerate(messages)]
    frames = split(render(marked), [turn["content"] for turn in marked])
    if not frames or not text.startswith(frames[0]):
        return (("", text),)
    found: list[Part] = [("", frames[0])]
    at = len(frames[0])
    for turn, frame in zip(messages, frames[1:], strict=True):
        end = end_of(turn["content"], frame, text, at)
        if end < 0:
            break
        found += [(turn["role"], text[at:end]), ("", frame)]
        at = end + len(frame)
    return (*(part for part in found if part[1]), *((("", text[at:]),) if text[at:] else ()))


def split(text: str, marks: Sequence[str]) -> list[str]:
    """Return what stands before, between and behind *marks*; nothing if one is not there."""
    frames: list[str] = []
    for mark in marks:
        frame, found, text = text.partition(mark)
        if not found:
            return []
        frames.append(frame)
    return [*frames, text]


def end_of(content: str, frame: str, text: str, at: int) -> int:
    """Return where the turn that begins at *at* ends, before *frame*; -1 if it does not.

    A template may leave out blanks around it, or thoughts in it.
    """
    for known in (content, content.strip()):
        if text.startswith(known + frame, at):
            return at + len(known)
    return text.find(frame, at) if frame else -1
