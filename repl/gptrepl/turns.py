"""Working with a text: go on, try again, take back, keep it. A story is one text that grows.

What comes after a sample is drawn as if its text were the prompt, with the next seed; the ids are
those the model has seen, so that its cache is of use and the text is a function of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from . import chat, clipboard
from .api import Event, GptreplError, Notice
from .samples import Sample, Start
from .session import Session
from .settings import LAST_SEED

SHOWN = 60
"""How many characters of the end of a text are shown where it is cut."""


# --- a line ---------------------------------------------------------------------------------------


def answer(session: Session, line: str) -> Generator[Event]:
    """Yield the events of a prompt: a text of its own, or the next piece of a story or a chat."""
    if session.settings.mode == "chat":
        yield from chat.reply_to(session, line)
        return
    if session.settings.mode != "story":
        yield from session.stream(line)
        return
    yield from session.ready()
    many = session.settings.num_samples
    if many > 1:
        yield from session.remark(f"num_samples {many} has no effect: a story has one text")
    yield from session.resume([begun(session, line)])


def begun(session: Session, line: str) -> Start:
    """Return where a sample of *line* begins, behind the story or the chat if there is one.

    The model has to be in memory.
    """
    if session.settings.mode == "chat":
        return chat.begun(session, line)
    if session.settings.mode != "story" or not session.samples:
        return session.start(line)
    last = session.samples[-1]
    tokenizer = session.tokenizer
    ids = tokenizer.encode(line)
    first = list(getattr(tokenizer, "start", ()))
    added = ids[len(first) :] if ids[: len(first)] == first else ids
    seed = session.settings.seed
    seed = seed if isinstance(seed, int) else secrets.randbelow(2**32)
    return Start(last.text + line, [*seen(session, last), *added], seed, len(last.text))


# --- commands -------------------------------------------------------------------------------------


def more(session: Session, tokens: int | None = None) -> Iterator[Event]:
    """Go on from the last samples, for TOKENS tokens or as many as a sample gets.

    It is as if their texts were the prompts, with the seeds that follow theirs.
    """
    samples = last_of(session)
    yield from session.ready()
    starts = [
        Start(one.text, seen(session, one), after(one, samples), len(one.text), one.turn)
        for one in samples
    ]
    goes_on = getattr(session.model, "continues", False)
    if not goes_on and any(one.turn is not None and one.turn.at_server for one in samples):
        raise GptreplError("a server begins a turn anew: :retry draws another reply")
    changes = chat.changes(session, samples) | (
        {} if tokens is None else {"max_new_tokens": tokens}
    )
    yield from session.resume(starts, **changes)


def retry(session: Session) -> Iterator[Event]:
    """Sample from the last prompt again, with the next seed. :undo brings the other one back."""
    samples = last_of(session)
    yield from session.ready()
    yield from session.resume(
        [
            Start(one.prompt, asked(session, one), after(one, samples), one.known, one.turn)
            for one in samples
        ],
        **chat.changes(session, samples),
    )


def undo(session: Session, tokens: int | None = None) -> Iterator[Event]:
    """Take back the last TOKENS tokens, or all of the last turn."""
    if tokens is None and session.earlier:
        session.samples = session.earlier.pop()
        yield Notice(ending(session))
        return
    samples = last_of(session)
    if tokens is None:
        session.samples = []
        yield Notice("the text is empty")
        return
    shortest = min(len(one.tokens) for one in samples)
    if not 0 < tokens <= shortest:
        raise GptreplError(
            f"the last turn has {shortest} tokens, so {tokens} cannot be taken back; "
            ":undo takes back all of it"
        )
    session.samples = [one.without(tokens) for one in samples]
    yield Notice(ending(session))


def new(session: Session) -> Iterator[Event]:
    """Begin a new text, for a story; :undo brings the old one back."""
    if session.samples:
        session.earlier.append(session.samples)
    session.samples = []
    yield Notice("a new text")


def text(session: Session) -> Iterator[Event]:
    """Show the text so far: the last prompt and what came of it, or the whole story."""
    yield chat.transcript(last_of(session)[-1], session)


def save(session: Session, path: Path) -> Iterator[Event]:
    """Write the text so far into the file PATH, exactly as it is, in UTF-8."""
    content = text_of(session)
    if path.exists() and session.confirm and not session.confirm(f"overwrite {path}?"):
        yield Notice("nothing is written")
        return
    path.write_text(content, encoding="utf-8", newline="")
    yield Notice(f"{len(content)} characters are in {path}")


def copy(session: Session) -> Iterator[Event]:
    """Copy the text so far to the clipboard."""
    content = text_of(session)
    clipboard.copy(content, session.console)
    yield Notice(f"copied {len(content)} characters")


# --- the last turn --------------------------------------------------------------------------------


def last_of(session: Session) -> Sequence[Sample]:
    """Return the last samples; raise GptreplError if there are none."""
    if not session.samples:
        raise GptreplError("there is no text yet: type a prompt")
    return session.samples


def text_of(session: Session) -> str:
    """Return the text so far: that of the last sample."""
    return last_of(session)[-1].text


def ending(session: Session) -> str:
    """Return the end of the text in one line."""
    end = text_of(session)[-SHOWN:]
    return f"the text ends: {'...' if len(end) == SHOWN else ''}{end!r}"


def seen(session: Session, sample: Sample) -> Sequence[int]:
    """Return the ids of a sample's text.

    They are those that were drawn, unless what stopped the sample is among them or another model
    has been loaded.
    """
    loaded = session.loaded
    assert loaded is not None
    if sample.loaded is loaded and not sample.has_stopped:
        return [*sample.ids, *sample.tokens]
    return loaded.encode(sample.text)


def asked(session: Session, sample: Sample) -> Sequence[int]:
    """Return the ids of a sample's prompt, for the model in memory."""
    loaded = session.loaded
    assert loaded is not None
    return sample.ids if sample.loaded is loaded else loaded.encode(sample.prompt)


def after(sample: Sample, samples: Sequence[Sample]) -> int:
    """Return the seed that follows a sample's, when all of *samples* move on.

    Samples of one stream have one seed; what comes after them has seeds of its own.
    """
    step = len(samples) if sample.stream is None else 1 + sample.index
    return (sample.seed + step) % (LAST_SEED + 1)
