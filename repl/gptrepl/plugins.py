"""Plugins are found through entry points, and this is the only door.

The groups are `gptrepl.samplers`, `gptrepl.tokenizers`, `gptrepl.models` and `gptrepl.commands`.
Nothing is imported before it is asked for. One that fails is one line and never stops the rest.
"""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from typing import Any, Literal, get_args

from .api import GptreplError
from .contract import misfit
from .values import near, spelled

Kind = Literal["samplers", "tokenizers", "models", "commands"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OWN = "gptrepl"
DISABLED = "disabled"

faults: dict[tuple[Kind, str], str] = {}
"""What the plugins did wrong when they ran, the last of each, by kind and name."""
_disabled: set[tuple[Kind, str]] = set()
_importing = RLock()
"""Held while a plugin of others is imported."""


# --- which there are ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """One entry point. *unused* says why it is not in force; an empty text: it is."""

    kind: Kind
    entry: EntryPoint
    unused: str = ""


@cache
def survey(kind: Kind) -> tuple[Found, ...]:
    """Return every entry point of one kind, sorted by name; of two with one name ours is used."""
    entries = entry_points(group=f"gptrepl.{kind}")
    ordered = sorted(entries, key=lambda entry: (entry.name, not is_own(entry), package(entry)))
    first: dict[str, EntryPoint] = {}
    found: list[Found] = []
    for entry in ordered:
        winner = first.setdefault(spelled(entry.name), entry)
        unused = (
            "" if winner is entry else f"the {kind[:-1]} {winner.name} of {package(winner)} is used"
        )
        if kind == "samplers" and not entry.name.isidentifier():  # it is also a setting's name
            unused = f"{entry.name!r} is no name: letters, digits and _ make one"
        if (kind, entry.name) in _disabled:
            unused = DISABLED
        found.append(Found(kind, entry, unused))
    return tuple(found)


@cache
def installed(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of one kind that are in force, by name, sorted."""
    return {found.entry.name: found.entry for found in survey(kind) if not found.unused}


def is_own(entry: EntryPoint) -> bool:
    """Return whether gptrepl itself brings this plugin."""
    return entry.dist is not None and entry.dist.name == OWN


def package(entry: EntryPoint) -> str:
    """Return the package and its version that bring a plugin."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"


def origin(entry: EntryPoint) -> str:
    """Return the package and its version that bring a plugin, and the object it names."""
    return f"{package(entry)} ({entry.value})"


def disable(names: Iterable[str]) -> None:
    """Leave out the plugins called *names*; `KIND:NAME` means those of one kind alone.

    Raises GptreplError for a name that no plugin has.
    """
    for written in names:
        kind, sign, name = written.rpartition(":")
        known = {
            (found.kind, found.entry.name)
            for each in KINDS
            for found in survey(each)
            if not sign or each[:-1] == kind.removesuffix("s")
        }
        meant = {(each, own) for each, own in known if spelled(own) == spelled(name)}
        if not meant:
            hint = near(name, {own for _, own in known})
            raise GptreplError(f"no plugin named {written!r} to disable{hint}")
        _disabled.update(meant)
    forget()


def forget() -> None:
    """Look again at what is installed the next time; modules that are imported stay as they are."""
    for cached in (survey, installed, outcome):
        cached.cache_clear()
    faults.clear()


# --- importing ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What came of the import of a plugin: it, or why there is none, and what was printed."""

    plugin: Any = None
    fault: str = ""
    printed: str = ""


@cache
def outcome(kind: Kind, name: str) -> Outcome:
    """Import one plugin that is in force; whatever it does wrong is in the outcome."""
    entry = installed(kind)[name]
    printed = io.StringIO()
    with contextlib.nullcontext() if is_own(entry) else hushed(printed):
        try:
            plugin = entry.load()
            fault = misfit(kind, plugin)
        except (Exception, SystemExit) as error:
            plugin, fault = None, reason(error)
    return Outcome(plugin, fault, printed.getvalue())


@contextlib.contextmanager
def hushed(printed: io.StringIO) -> Iterator[None]:
    """Catch what is printed within; for all of the program, so one thread at a time."""
    with _importing, contextlib.redirect_stdout(printed):
        yield


def load(kind: Kind, name: str) -> Any:
    """Import one plugin and return what its entry point names.

    Raises GptreplError, in one line that names the package, when there is none or it fails.
    """
    if name not in installed(kind):
        known = ", ".join(installed(kind)) or "none"
        raise GptreplError(f"no {kind[:-1]} named {name!r} (installed: {known})")
    came = outcome(kind, name)
    if came.fault:
        raise GptreplError(f"{label(kind, name)} does not load: {came.fault}")
    return came.plugin


def label(kind: Kind, name: str) -> str:
    """Return how an error calls a plugin: by its name, and by its package if that is not ours."""
    entry = installed(kind).get(name)
    if entry is None or is_own(entry):
        return name
    return f"{kind[:-1]} {name!r} of {origin(entry)}"


def reason(error: BaseException) -> str:
    """Return in one line what an exception says."""
    text = " ".join(str(error).split())[:200]
    if isinstance(error, SystemExit):
        return f"it exits with {text or 0}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- running ------------------------------------------------------------------------------------


def blame(kind: Kind, name: str, fault: str) -> GptreplError:
    """Note what a plugin did wrong while it ran, and return the error that says so."""
    faults[kind, name] = fault
    return GptreplError(f"{label(kind, name)} fails: {fault}")


def culprit(error: Exception, loader: Any) -> GptreplError | None:
    """Return the error that names the model or tokenizer of others in whose code *error* arose.

    *loader* is the one whose model is in memory. None where it arose in nobody else's code.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    rooms = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames}
    kinds: tuple[Kind, ...] = ("models", "tokenizers")
    found = [
        (kind, name)
        for kind in kinds
        for name, entry in installed(kind).items()
        if not is_own(entry) and entry.module.partition(".")[0] in rooms
    ]
    if not found:
        return None
    loaded = [(kind, name) for kind, name in found if outcome(kind, name).plugin is loader]
    blamed = blame(*(loaded or found)[0], reason(error))
    blamed.__cause__ = error
    return blamed


@contextlib.contextmanager
def guarded(kind: Kind, name: str) -> Iterator[None]:
    """Turn what the plugin *name* raises within into a GptreplError that names it."""
    try:
        yield
    except GptreplError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(kind, name, reason(error)) from error
