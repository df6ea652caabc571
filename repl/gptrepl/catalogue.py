"""The plugins that are installed: what each is, who brings it, whether it is in force."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from . import plugins
from .api import GptreplError, Table
from .command import FunctionCommand, first_line
from .commands import find
from .plugins import DISABLED, Found
from .settings import FIELDS

COLUMNS = ("kind", "name", "distribution", "version", "state", "what it is")


def table() -> Table:
    """Return a row for each plugin."""
    return Table(COLUMNS, tuple(row(found) for found in everything()), "plugins")


def faults() -> list[str]:
    """Return a line for each plugin that fails or is not used; each names package and entry."""
    lines = [(found, state(found)[1]) for found in everything()]
    return [f"{called(found)} {fault}" for found, fault in lines if fault]


def everything() -> Iterator[Found]:
    """Yield what was found of each kind."""
    for kind in plugins.KINDS:
        yield from plugins.survey(kind)


def called(found: Found) -> str:
    """Return a plugin's kind and name, the package that brings it, and its entry point."""
    return f"{found.kind[:-1]} {found.entry.name!r} of {plugins.origin(found.entry)}"


def row(found: Found) -> tuple[str, ...]:
    """Return what the table says of one plugin."""
    dist = found.entry.dist
    package, version = (dist.name, dist.version) if dist else ("?", "?")
    word = state(found)[0]
    return found.kind[:-1], found.entry.name, package, version, word, help_of(found)


def state(found: Found) -> tuple[str, str]:
    """Return how a plugin stands in one word, and what there is to say of it, if anything."""
    if found.unused == DISABLED:
        return DISABLED, ""
    if found.unused:
        return "unused", f"is not used: {found.unused}"
    came = plugins.outcome(found.kind, found.entry.name)
    if came.fault:
        return "fails", f"does not load: {came.fault}"
    clash = rival(found)
    if clash:
        return "unused", f"is not used: {clash}"
    failed = plugins.faults.get((found.kind, found.entry.name))
    if failed:
        return "fails", f"fails: {failed}"
    if came.printed:
        return "prints", f"prints when it is imported: {' '.join(came.printed.split())[:60]!r}"
    return "ready", ""


def rival(found: Found) -> str:
    """Return what takes a plugin's colon command, or an empty text."""
    name = found.entry.name
    if found.kind == "samplers" and name in FIELDS:
        return f"{name} is a setting"
    if found.kind not in ("samplers", "commands"):
        return ""
    try:
        winner = find(name)
    except GptreplError:
        return ""
    is_function = isinstance(winner, FunctionCommand)
    if is_function == (found.kind == "commands") and winner.name == name:
        return ""
    return f":{name} is {'a command' if is_function else f'the setting or sampler {winner.name}'}"


def help_of(found: Found) -> str:
    """Return the first line of a plugin's own documentation."""
    came = plugins.outcome(found.kind, found.entry.name) if not found.unused else None
    if came is None or came.fault:
        return ""
    return first_line(inspect.getdoc(came.plugin) or "")
