"""The front end of a subcommand that is a colon command: what it says is the output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from ..api import Event, GptreplError, Notice, Table
from ..commands import drive, evaluate
from ..jsonlines import JsonScript
from ..report import failure
from ..script import Script, plain, stdio
from ..session import Session

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Answer(Script):
    """Writes tables and notices to stdout, since they are what was asked for."""

    def show(self, event: Event) -> None:
        """Write one event."""
        match event:
            case Notice(warning=False):
                self.out.write(f"{event.text}\n")
            case Table():
                self.out.write(f"{plain(event)}\n")
            case _:
                super().show(event)
        self.out.flush()


def front_end(session: Session, as_json: bool) -> Script:
    """Return what shows the events of a subcommand."""
    return (JsonScript if as_json else Answer)(session, *stdio())


def answer(name: str, words: Sequence[str], as_json: bool = False) -> int:
    """Run the colon command *name* with *words*; return the exit status."""
    session = Session()
    line = " ".join([f":{name}", *map(quoted, words)])
    front = front_end(session, as_json)
    guarded(front, lambda: evaluate(session, line))
    return front.status


def guarded(front: Script, events: Callable[[], Iterator[Event]]) -> None:
    """Show *events*, and the error that ends them if there is one."""
    try:
        drive(events(), front.show)  # type: ignore[arg-type]
    except GptreplError as error:
        front.fail(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # a receipt of a file may say what cannot be
        front.fail(GptreplError(failure(error)))


def quoted(word: str) -> str:
    """Return *word* as it is typed: in quotes if it has spaces."""
    return word if word and not any(sign.isspace() for sign in word) else json.dumps(word)
