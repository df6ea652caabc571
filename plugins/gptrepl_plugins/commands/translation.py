"""What the settings of another tool mean here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gptrepl.api import GptreplError

SELECTING = ("xtc", "adaptive_p", "mirostat", "mirostat2")
"""The samplers that have to be the last here."""


@dataclass
class Translation:
    """The settings and samplers of another tool by our names, and what has no place here.

    Every sampler that *changes* does not name is off. *order* is that of the chain; nothing
    listed: by stage. *notes* say what was assumed.
    """

    tool: str
    changes: dict[str, Any] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    unmapped: list[str] = field(default_factory=list)


def whole(name: str, text: str) -> int:
    """Return the whole number that *text* spells; raise GptreplError, which calls it *name*."""
    try:
        return int(text)
    except ValueError:
        raise GptreplError(f"{name} must be a whole number, not {text!r}") from None


def number(name: str, text: str) -> float:
    """Return the number that *text* spells; raise GptreplError, which calls it *name*."""
    try:
        return float(text)
    except ValueError:
        raise GptreplError(f"{name} must be a number, not {text!r}") from None


def window(last: int) -> int | str:
    """Return our word for so many of the last tokens: 0 is off, a negative number is all."""
    return last if last > 0 else "off" if last == 0 else "all"


def penalties(repeat: float, presence: float, frequency: float, last: int) -> dict[str, Any]:
    """Return the three penalties over the same window."""
    seen = window(last)
    return {
        "repetition_penalty": {"penalty": repeat if repeat > 0 else 1.0, "window": seen},
        "presence_penalty": {"penalty": presence, "window": seen},
        "frequency_penalty": {"penalty": frequency, "window": seen},
    }


def steered(version: int, tau: float, eta: float, temperature: float) -> dict[str, Any]:
    """Return the chain of llama.cpp with mirostat: the temperature, mirostat and nothing else."""
    if version not in (1, 2):
        raise GptreplError(f"mirostat must be 0, 1 or 2, not {version}")
    name = "mirostat" if version == 1 else "mirostat2"
    return {"temperature": max(0.0, temperature), name: {"tau": tau, "eta": eta}}


def biases(amounts: dict[int, float]) -> str:
    """Return what logit_bias takes for these amounts by id."""
    return ", ".join(f"{token}={amount:g}" for token, amount in amounts.items())


def quoted(text: str) -> str:
    """Return *text* without the double quotes around it, if there are any."""
    whole = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if whole else text
