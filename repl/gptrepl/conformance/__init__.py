"""The conformance kit: what is required of a plugin of each kind, tried on one of them.

It tries a plugin as it stands, installed or not; `faults` is meant for the tests of plugins.
"""

from __future__ import annotations

from typing import Any

from ..contract import misfit
from ..plugins import Kind, reason
from . import commands, models, samplers, tokenizers
from .result import Result

__all__ = ["Result", "check", "faults"]


def check(
    kind: Kind, plugin: Any, given: str | None = None, *, timed: bool = False
) -> list[Result]:
    """Return what came of each requirement of a *kind* of plugins.

    *given* is what cannot be guessed: a sampler's value as it is typed, a tokenizer's path, a
    model's source, the arguments of a command, which is not run without any. *timed* measures
    how long a sampler takes too.
    """
    wrong = misfit(kind, plugin)
    if wrong:
        return [Result("it is what its kind has to be", "fails", wrong)]
    try:
        match kind:
            case "samplers":
                return samplers.results(plugin, given or "", timed=timed)
            case "tokenizers":
                return tokenizers.results(plugin, given or "")
            case "models":
                return models.results(plugin, given or "")
            case "commands":
                return commands.results(plugin, given)
    except (Exception, SystemExit) as error:
        return [Result("it runs", "fails", reason(error))]


def faults(kind: Kind, plugin: Any, given: str | None = None) -> list[str]:
    """Return a line for each requirement that a plugin does not meet."""
    return [
        f"{result.what}: {result.detail}"
        for result in check(kind, plugin, given)
        if result.state == "fails"
    ]
