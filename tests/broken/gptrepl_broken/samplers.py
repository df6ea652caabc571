"""Samplers that load or not, and that fail when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import knob

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(frozen=True)
class Fine:
    """Change nothing, and break nothing."""

    fine: int = knob(0, ge=0, help="any number; 0 is off")

    def __call__(self, logits, ids):
        return logits


def plain(logits, ids):
    return logits


class Bare:
    """No dataclass."""


@dataclass(frozen=True)
class Uncallable:
    uncallable: int = 0


@dataclass(frozen=True)
class Needy:
    needy: int

    def __call__(self, logits, ids):
        return logits


@dataclass(frozen=True)
class Misplaced(Fine):
    stage: ClassVar[str] = "afterwards"


@dataclass(frozen=True)
class Unreadable(Fine):
    fraction: Fraction = 0


@dataclass(frozen=True)
class Refuses(Fine):
    def __post_init__(self):
        raise ValueError(f"{self.fine} is no good")


@dataclass(frozen=True)
class Crash(Fine):
    """Turn the terminal \x1b[31mred."""

    def __call__(self, logits, ids):
        raise ZeroDivisionError("by zero")


@dataclass(frozen=True)
class Leave(Fine):
    def __call__(self, logits, ids):
        raise SystemExit("bye")


@dataclass(frozen=True)
class Shape(Fine):
    def __call__(self, logits, ids):
        return logits[:3]


@dataclass(frozen=True)
class Precision(Fine):
    def __call__(self, logits, ids):
        return logits.double()


@dataclass(frozen=True)
class ReturnsNothing(Fine):
    def __call__(self, logits, ids):
        logits + 1


@dataclass(frozen=True)
class Nan(Fine):
    def __call__(self, logits, ids):
        return logits * float("nan")


@dataclass(frozen=True)
class Later(Fine):
    def begin(self, generator):
        calls = []

        def step(logits, ids):
            calls.append(1)
            return logits * float("nan") if len(calls) == 3 else logits

        return step


@dataclass(frozen=True)
class Empty(Fine):
    def __call__(self, logits, ids):
        return logits - float("inf")


@dataclass(frozen=True)
class Unbound(Fine):
    def bind(self, tokenizer, prompt_length):
        raise KeyError("no such text")


@dataclass(frozen=True)
class Unbegun(Fine):
    def begin(self, generator):
        raise TypeError("no generator")
