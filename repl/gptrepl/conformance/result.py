"""What came of one requirement."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["ok", "fails", "slow", "not tried"]


@dataclass(frozen=True)
class Result:
    """One requirement, how it stands, and what was seen."""

    what: str
    state: State
    detail: str = ""


def required(what: str, fault: str, detail: str = "") -> Result:
    """Return the result of a requirement: it is met unless there is a *fault*."""
    return Result(what, "fails" if fault else "ok", fault or detail)


def documented(plugin: Any) -> str:
    """Return what is wrong with the first line of a docstring, or an empty text."""
    first = (inspect.getdoc(plugin) or "").partition("\n")[0]
    if not first:
        return "it has no docstring"
    return "" if first.endswith(".") else f"its docstring begins {first!r}, which is no sentence"
