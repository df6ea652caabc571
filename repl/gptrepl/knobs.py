"""What a user can turn: the fields of settings and samplers. `gptrepl.api` has all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Knob:
    """What is known of one field besides its type and its default; None: no such limit."""

    help: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    pattern: str | None = None
    form: str = ""
    aliases: tuple[str, ...] = ()


def knob(
    default: T,
    *,
    help: str,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    pattern: str | None = None,
    form: str = "",
    aliases: tuple[str, ...] = (),
) -> T:
    """Declare a dataclass field that a user can turn: its default, its range and a line of help.

    The range reads as in mathematics: *ge* is >=, *gt* is >, *le* is <=, *lt* is <. The type
    is the field's annotation: int, float, bool, str, a Literal, or a union of them. A text may
    have a *pattern* (a regular expression for all of it), which *form* says in words.
    """
    limits = Knob(help, ge, gt, le, lt, pattern, form, aliases)
    declared: T = dataclasses.field(default=default, metadata={"knob": limits})
    return declared


@dataclass(frozen=True)
class Choices:
    """What Tab offers for an argument: `name: Annotated[str, Choices(known_names)]`.

    *offer* takes the session and returns the choices, or their one-line helps by choice; with
    *paths* the files and folders are offered too.
    """

    offer: Callable[[Any], Iterable[str] | Mapping[str, str]]
    paths: bool = False
