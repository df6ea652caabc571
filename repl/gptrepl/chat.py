"""A conversation: each line is a turn of the user, and the model writes the next one.

It is a text like any other, rendered by the model's own template or by the setting `turns`, so
that what is drawn is a function of the model, the settings and the conversation. Each sample
keeps the turns that it answers; a conversation is the last of them and its reply.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .api import Event, GptreplError, Notice, Table, Transcript, command
from .samples import Message, Sample, Start, Turn
from .session import Session
from .speakers import parts
from .stops import ends_of
from .values import is_broken
from .writing import writer_of

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
ROLES = (USER, ASSISTANT, SYSTEM)
OWN = "auto"
"""The value of `turns` under which the model's own template holds."""
LOST = ("failed", "interrupted")
"""How a sample ended that says nothing, if nothing came of it."""


# --- the conversation ---------------------------------------------------------------------------


def conversation(session: Session) -> tuple[Message, ...]:
    """Return what was said so far, without what the setting `system` says."""
    return said(session.samples[-1]) if session.samples else ()


def said(sample: Sample) -> tuple[Message, ...]:
    """Return the turns that *sample* answers and the one that it is; none if it is no chat."""
    if sample.turn is None:
        return ()
    messages = tuple(m for m in sample.turn.messages if m["role"] != SYSTEM)
    reply = sample.text[sample.turn.opening :]
    if not reply and sample.ending in LOST:
        return messages[:-1]  # so that the same can be said again
    return (*messages, message(ASSISTANT, reply)) if reply else messages


def message(role: str, content: str) -> Message:
    """Return one turn."""
    return {"role": role, "content": content}


def begun(session: Session, line: str) -> Start:
    """Return where the reply to *line* begins; the model has to be in memory."""
    return answering(session, [*conversation(session), message(USER, line)])


def answering(session: Session, messages: Sequence[Message]) -> Start:
    """Return where the turn behind *messages* begins; the model has to be in memory."""
    settings, loaded = session.settings, session.loaded
    assert loaded is not None
    spoken = [message(SYSTEM, settings.system), *messages] if settings.system else list(messages)
    prompt, at_server = rendered(session, spoken)
    seed = settings.seed if isinstance(settings.seed, int) else secrets.randbelow(2**32)
    turn = Turn(tuple(spoken), len(prompt), at_server)
    return Start(prompt, loaded.encode(prompt), seed, len(prompt), turn)


def rendered(session: Session, messages: Sequence[Message]) -> tuple[str, bool]:
    """Return *messages* as the model sees them, and whether only its server can tell how.

    Raises GptreplError if nobody knows how to write a conversation for this model.
    """
    loaded = session.loaded
    assert loaded is not None
    if session.settings.turns != OWN:
        return plain(session.settings.turns, messages), False
    render = getattr(loaded.tokenizer, "render", None)
    if render is not None:
        text: str = render(messages)
        return text, False
    if writer_of(loaded) is not None:
        return "".join(f"{m['role']}: {m['content']}\n" for m in messages), True
    raise GptreplError(
        f"{loaded.source} has no template for a chat: `:profile chat` gives it a plain one"
    )


def plain(turns: str, messages: Sequence[Message]) -> str:
    """Return *messages* written as *turns* says, up to where the assistant begins.

    What the system says stands first, above an empty line.
    """
    before, _, rest = turns.partition("{user}")
    between, _, after = rest.partition("{assistant}")
    frames = {USER: (before, between), ASSISTANT: ("", after), SYSTEM: ("", "\n\n")}
    text = ""
    for turn in messages:
        opening, closing = frames[turn["role"]]
        text += opening + turn["content"].strip() + closing
    return text.rstrip(" ")  # a token rarely begins behind a space


def transcript(sample: Sample, session: Session) -> Notice:
    """Return the text of *sample*, with who says what of it where it is a conversation."""
    if sample.turn is None:
        return Notice(sample.text)
    before, reply = sample.text[: sample.turn.opening], sample.text[sample.turn.opening :]
    try:
        turns = parts(before, sample.turn.messages, lambda them: rendered(session, them)[0])
    except GptreplError:  # the template of another model, which is in memory now
        turns = (("", before),)
    return Transcript(sample.text, parts=(*turns, (ASSISTANT, reply)))


def changes(session: Session, samples: Sequence[Sample]) -> dict[str, Any]:
    """Return what holds besides the settings while *samples* go on: a turn ends at its end."""
    return ending(session) if any(one.turn is not None for one in samples) else {}


def ending(session: Session) -> dict[str, Any]:
    """Return what has a turn end where its speaker does, if the model in memory can tell."""
    loaded = session.loaded
    assert loaded is not None
    can_end = writer_of(loaded) is not None or ends_of(loaded.tokenizer)
    return {"stop_at_end": True} if can_end else {}


# --- commands -----------------------------------------------------------------------------------


def reply_to(session: Session, line: str) -> Iterator[Event]:
    """Yield the events of the reply to *line*."""
    yield from session.ready()
    many = session.settings.num_samples
    if many > 1:
        yield from session.remark(f"num_samples {many} has no effect: a conversation has one reply")
    start = begun(session, line)
    yield from session.resume([start], **ending(session))


def edit_turn(session: Session, number: int, content: str) -> Iterator[Event]:
    """Say *content* in place of the user's turn *number*, and go on from there."""
    before = list(conversation(session))
    place = place_of(before, number)
    yield from session.ready()
    start = answering(session, [*before[:place], message(USER, content)])
    yield from session.resume([start], **ending(session))


def turn_of(session: Session, number: int) -> str:
    """Return what the user said in turn *number*."""
    before = conversation(session)
    return before[place_of(before, number)]["content"]


def place_of(messages: Sequence[Message], number: int) -> int:
    """Return where the user's turn *number* stands; raise GptreplError if there is none."""
    places = [place for place, turn in enumerate(messages) if turn["role"] == USER]
    if not 0 < number <= len(places):
        raise GptreplError(f"there is no turn {number}: the conversation has {len(places)}")
    return places[number - 1]


def show(session: Session) -> Iterator[Event]:
    """Show the conversation exactly as the model sees it, template and all.

    At a server the template is the server's own, so only the turns are shown.
    """
    if not conversation(session):
        raise GptreplError("there is no conversation yet: `:mode chat`, then say something")
    yield transcript(session.samples[-1], session)


def save(session: Session, path: Path) -> Iterator[Event]:
    """Write the conversation into the file PATH, as one line of JSON with its messages."""
    if not conversation(session):
        raise GptreplError("there is no conversation to save")
    turns = list(conversation(session))
    if session.settings.system:
        turns.insert(0, message(SYSTEM, session.settings.system))
    if path.exists() and session.confirm and not session.confirm(f"overwrite {path}?"):
        yield Notice("nothing is written")
        return
    line = json.dumps({"messages": turns}, ensure_ascii=False)
    path.write_text(line + "\n", encoding="utf-8", newline="")
    yield Notice(f"{len(turns)} messages are in {path}")


def load(session: Session, path: Path) -> Iterator[Event]:
    """Go on with the conversation in the file PATH; `:undo` brings the one before back.

    Its lines are JSON: one object with `messages`, or one message a line. What its system says
    becomes the setting `system`.
    """
    messages = read(path)
    system = "".join(m["content"] for m in messages if m["role"] == SYSTEM)
    turns = [m for m in messages if m["role"] != SYSTEM]
    yield from session.ready()
    settings = session.settings.but("typed", mode="chat", system=system)
    before = session.settings
    yield from session.apply(settings)
    try:
        sample = taken_up(session, turns)
    except GptreplError:
        yield from session.apply(before)
        raise
    session.take_up([sample])
    if system != before.system:
        yield Notice(f"system {session.settings.value('system')}")
    yield Notice(f"{len(messages)} messages of {path}")


def taken_up(session: Session, turns: Sequence[Message]) -> Sample:
    """Return a sample that ends where *turns* do, though nobody drew it here."""
    loaded = session.loaded
    assert loaded is not None
    last = turns[-1] if turns[-1]["role"] == ASSISTANT else None
    start = answering(session, turns[:-1] if last else turns)
    text = start.prompt + (last["content"] if last else "")
    done = Start(text, loaded.encode(text), start.seed, len(text), start.turn)
    return Sample(0, done, loaded)


def read(path: Path) -> list[Message]:
    """Return the messages in the file *path*; raise GptreplError, with the line, for others."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise GptreplError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise GptreplError(f"cannot read {str(path)!r}: {error.strerror}") from None
    found: list[Message] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            found += parsed(line, f"{path}:{number}")
    if not any(m["role"] != SYSTEM for m in found):
        raise GptreplError(f"{path} holds no conversation")
    return found


def parsed(line: str, where: str) -> Iterator[Message]:
    """Yield the messages that a line of JSON holds."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # it may be nested without end
        raise GptreplError(f"{where}: no JSON: {error}") from None
    listed = value.get("messages", [value]) if isinstance(value, dict) else value
    for one in listed if isinstance(listed, list) else [listed]:
        found = one if isinstance(one, Mapping) else {}
        role, content = found.get("role"), found.get("content")
        if role not in ROLES or not isinstance(content, str) or is_broken(content):
            raise GptreplError(
                f"{where}: a message has a role ({', '.join(ROLES)}) and a text as its content"
            )
        yield message(role, content)


@command(verbs={"show": show, "save": save, "load": load})
def chat(session: Session) -> Iterator[Event]:
    """List the turns of the conversation, the user's with the numbers that `:edit` takes.

    `:mode chat` begins one, `:new` begins another.
    """
    rows: list[tuple[str, str, str]] = []
    number = 0
    if session.settings.system:
        rows.append(("", SYSTEM, session.settings.system))
    for turn in conversation(session):
        number += turn["role"] == USER
        rows.append((str(number) if turn["role"] == USER else "", turn["role"], turn["content"]))
    yield Table(("", "who", "says"), tuple(rows), "conversation")
