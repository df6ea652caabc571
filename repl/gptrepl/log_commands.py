"""The commands :log and :replay: find receipts, keep them, and hold the model to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from . import receipts
from .api import Event, GptreplError, Notice, Table, Text, command
from .log import Log
from .receipts import Drawn, Receipt
from .replay import replay as draw_again
from .session import Session
from .values import format_value, shown, whole

NOTHING = Text("")
NEWEST = 20
"""How many receipts are listed where nothing else is asked for."""
WIDTH = 40
"""How many letters of a text are listed."""


def log_of(session: Session) -> Log:
    """Return the log that the session keeps, or the user's."""
    return next((one for one in session.recorders if isinstance(one, Log)), None) or Log()


# --- looking ------------------------------------------------------------------------------------


def table_of(found: Iterable[Receipt]) -> Table:
    """Return receipts as a table, the newest last."""
    rows = [
        (
            str(one.id),
            local(one.time),
            one.model,
            str(one.seed),
            f"{one.tokens}{'' if one.ending in ('length', 'stop') else f' {one.ending}'}",
            cut(one.samples[0].prompt) if one.samples else "",
            cut(one.samples[0].text.removeprefix(one.samples[0].prompt)) if one.samples else "",
        )
        for one in found
    ]
    columns = ("id", "time", "model", "seed", "tokens", "prompt", "text")
    return Table(columns, tuple(reversed(rows)), "log")


def local(time: str) -> str:
    """Return a time as the clocks here show it."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def cut(text: str) -> str:
    """Return the beginning of *text* on one line."""
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def show(session: Session, id: int) -> Iterator[Event]:
    """Show all that receipt ID holds."""
    receipt = log_of(session).get(id)
    yield Table(("", ""), tuple(facts(receipt)), f"receipt {id}")
    for place, sample in enumerate(receipt.samples, 1):
        told = [value for value in sample.logprobs if value is not None]
        mean = sum(told) / max(len(told), 1)
        yield Notice(
            f"--- sample {place}: seed {sample.seed}{stream_of(sample)}, "
            f"{len(sample.ids)} tokens, {sample.ending}, "
            f"log-probability {mean:.3f} a token\n{sample.text}"
        )


def stream_of(sample: Drawn) -> str:
    """Return how many draws of its seed came before a sample of one stream."""
    return "" if sample.stream is None else f" after {sample.stream} draws of one stream"


TOLD = ("model", "tokenizer", "device", "dtype", "chain")
"""The settings of which a receipt says more than they do."""


def facts(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """Yield what a receipt says besides its samples."""
    yield "time", receipt.time
    yield "model", receipt.model
    place = str(receipt.settings.get("model") or receipt.model)
    if place != receipt.model:
        yield "place", place
    yield "weights", receipt.hash or "not known"
    yield "tokenizer", receipt.tokenizer
    yield "device", f"{receipt.device} {receipt.dtype}"
    yield "versions", ", ".join(f"{name} {text}" for name, text in receipt.versions.items())
    yield "chain", " ".join(receipt.chain)
    yield "seconds", f"{receipt.seconds:g}"
    yield "ending", receipt.ending
    for name, value in receipt.settings.items():
        if name not in TOLD:
            yield name, written(value)


def written(value: Any) -> str:
    """Return a value of a setting, several by field."""
    if isinstance(value, dict):
        return " ".join(f"{field}={format_value(one)}" for field, one in value.items())
    return repr(value) if isinstance(value, str) and value != value.strip() else format_value(value)


# --- keeping ------------------------------------------------------------------------------------


def export(session: Session, path: Path, text: Text = NOTHING) -> Iterator[Event]:
    """Write receipts to the file PATH as JSON lines, oldest first: all, or those that hold TEXT.

    `gptrepl replay PATH` draws them again. `:log export! PATH` writes over a file that is there.
    """
    if path.exists():
        if session.confirm is None:
            raise GptreplError(f"{path} is there already: `:log export! {path}` writes over it")
        if not session.confirm(f"write over {path}?"):
            yield Notice("nothing was written")
            return
    yield from export_over(session, path, text)


def export_over(session: Session, path: Path, text: Text = NOTHING) -> Iterator[Event]:
    """Write receipts to the file PATH as JSON lines, also over one that is there."""
    found = log_of(session).find(text.strip())
    try:
        path.write_bytes(b"".join(receipts.to_json(one) + b"\n" for one in reversed(found)))
    except (OSError, ValueError) as error:  # ValueError: no name can hold a zero byte
        raise GptreplError(f"cannot write {path}: {why(error)}") from None
    yield Notice(f"{counted(len(found))} written to {path}")


def remove(session: Session, *ids: int) -> Iterator[Event]:
    """Remove the receipts IDS."""
    if not ids:
        raise GptreplError(":log rm needs the numbers of receipts, see :log")
    log = log_of(session)
    for id in ids:
        log.get(id)  # nothing is removed where one of them is none
    yield Notice(f"{counted(log.remove(*ids))} removed")


def on(session: Session) -> Iterator[Event]:
    """Keep a receipt of each generation from now on."""
    yield from switch(session, True)


def off(session: Session) -> Iterator[Event]:
    """Keep no receipts from now on."""
    yield from switch(session, False)


def switch(session: Session, state: bool) -> Iterator[Event]:
    """Set the setting `log`."""
    yield from session.apply(session.settings.but("typed", log=state))
    yield Notice(f"log {session.settings.value('log')}")


def counted(number: int) -> str:
    """Return a number of receipts in words."""
    return f"{number} receipt{'' if number == 1 else 's'}"


VERBS: dict[str, Callable[..., Iterator[Event]]] = {
    "show": show,
    "export": export,
    "export!": export_over,
    "rm": remove,
    "on": on,
    "off": off,
}


@command(verbs=VERBS)
def log(session: Session, text: Text = NOTHING) -> Iterator[Event]:
    """List the newest receipts: the last N, or those whose texts hold every word of TEXT.

    Each generation leaves one, unless the setting log is off.
    """
    words = text.strip()
    number = whole(words) if words.isdecimal() else None
    find = log_of(session).find
    found = find("", number) if number else find(words, NEWEST)
    if not found:
        none = "there are no receipts yet"
        yield Notice(f"no receipt holds {shown(words)}" if words and not number else none)
        return
    yield table_of(found)


def replay(session: Session, what: str) -> Iterator[Event]:
    """Draw receipt WHAT again, a number or a file of JSON lines, and say whether it is identical.

    If not, it says which token is the first that differs, with both probabilities, and what is
    different around the model; a script then ends with status 4. The session stays as it is.
    """
    for receipt in read(log_of(session), what):
        yield from draw_again(receipt, session)


def read(log: Log, what: str) -> list[Receipt]:
    """Return the receipts that *what* names: by number, or all of a file of JSON lines."""
    number = whole(what)
    if number is not None:
        return [log.get(number)]
    path = Path(what).expanduser()
    try:
        with path.open("rb") as lines:
            return receipts.from_json(lines, what)
    except (OSError, ValueError) as error:
        raise GptreplError(f"cannot read the receipts {what}: {why(error)}") from None


def why(error: Exception) -> str:
    """Return why a file could not be used."""
    return getattr(error, "strerror", None) or str(error)
