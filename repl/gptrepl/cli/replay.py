"""`gptrepl replay` holds a model to its receipts: status 4 if one of the texts is another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import click

from ..api import Event, GptreplError, Notice
from ..log import Log
from ..log_commands import read
from ..receipts import Receipt
from ..replay import replay
from ..session import Session
from .answer import CONTEXT, front_end, guarded

HELP = """Draw receipts again and say whether the text is identical.

WHAT is the number of a receipt in the log, or a file of JSON lines that `gptrepl log export`
wrote. Exit status 0: every one is identical; 4: one is not; 3: a model could not be loaded.
"""


def command() -> click.Command:
    """Return the click command."""
    return click.Command(
        "replay",
        callback=run,
        params=[
            click.Argument(["what"], nargs=-1, required=True, metavar="ID|FILE.jsonl ..."),
            click.Option(["--model"], default="", help="the model to use instead of the receipt's"),
            click.Option(["--json", "as_json"], is_flag=True, help="write JSON lines to stdout"),
        ],
        help=HELP,
        context_settings=CONTEXT,
    )


def run(what: Sequence[str], model: str, as_json: bool) -> int:
    """Replay all that was named, also after one that failed; return the first one's status."""
    session = Session()
    front = front_end(session, as_json)
    log = Log()
    for one in what:
        try:
            receipts = read(log, one)
        except GptreplError as error:
            front.fail(error)
            continue
        for place, receipt in enumerate(receipts, 1):
            name = f"receipt {receipt.id}" if one.isdecimal() else f"{one}:{place}"
            guarded(front, partial(named, session, receipt, name, model))
    return front.status


def named(session: Session, receipt: Receipt, name: str, model: str) -> Iterator[Event]:
    """Yield what is found of one receipt, under its name."""
    yield Notice(name)
    yield from replay(receipt, session, model)
