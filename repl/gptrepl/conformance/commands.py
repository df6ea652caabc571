"""What is required of a command; it is run only with arguments that are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from ..api import Event, GptreplError, Text
from ..arguments import parse, signature_of
from ..loading import Loaded
from ..plugins import reason
from ..session import Session
from ..settings import Settings
from .result import Result, documented, required
from .samplers import Letters

if TYPE_CHECKING:
    from torch import Tensor

PLAIN = (int, float, bool, str, Text, Path, NoneType)
SIZE = 128


class Even:
    """A model that finds every id equally likely."""

    vocab_size = SIZE
    block_size = None

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return logits of 0."""
        import torch

        return torch.zeros(len(rows), SIZE)


def results(function: Any, given: str | None) -> list[Result]:
    """Return what came of each requirement of a command, run with the words *given*."""
    seen = [
        required("it is documented", documented(function)),
        required("its arguments can be typed", untypable(function)),
    ]
    if given is None:
        detail = "give its arguments, or an empty text, by --with"
        return [*seen, Result("it yields events", "not tried", detail)]
    return [*seen, ran(function, given)]


def untypable(function: Any) -> str:
    """Return which argument has a type that no typed word becomes, or an empty text."""
    for parameter in signature_of(function).parameters:
        kinds = get_args(parameter.annotation) or (parameter.annotation,)
        if get_origin(parameter.annotation) is not None and not isinstance(kinds[0], type):
            continue  # the words of a Literal
        strange = [kind for kind in kinds if kind not in PLAIN and get_origin(kind) is None]
        if strange:
            return f"{parameter.name} is a {getattr(strange[0], '__name__', strange[0])}"
    return ""


def ran(function: Any, given: str) -> Result:
    """Return what a command yields in a session with a small model."""
    what = "it yields events"
    session = Session(Settings().but("command line", max_new_tokens=3))
    session._loaded = Loaded("even", None, Even(), Letters(SIZE), "cpu", "float32")  # type: ignore[arg-type]
    count = 0
    try:
        for event in function(session, *parse(function, function.__name__, given)) or ():
            count += 1
            if not isinstance(event, Event):
                return required(what, f"it yields {event!r:.60}, which is none")
    except GptreplError as error:
        return required(what, "", f"it refuses: {error}")
    except (Exception, SystemExit) as error:
        return required(what, f"it raises {reason(error)}")
    return required(what, "", f"{count} of them")
