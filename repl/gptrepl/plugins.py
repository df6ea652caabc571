"""Plugins are found through entry points, and this is the only door.

The groups are `gptrepl.samplers`, `gptrepl.tokenizers`, `gptrepl.models` and `gptrepl.commands`.
Nothing is imported before it is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from .api import GptreplError

Kind = Literal["samplers", "tokenizers", "models", "commands"]
KINDS: tuple[Kind, ...] = ("samplers", "tokenizers", "models", "commands")
OWN = "gptrepl"


@cache
def installed(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of one kind by name, sorted. Of two with one name ours stays."""
    found = sorted(entry_points(group=f"gptrepl.{kind}"), key=lambda entry: entry.name)
    return {entry.name: entry for entry in sorted(found, key=is_own)}


def is_own(entry: EntryPoint) -> bool:
    """Return whether gptrepl itself brings this plugin."""
    return entry.dist is not None and entry.dist.name == OWN


@cache
def load(kind: Kind, name: str) -> Any:
    """Import one plugin and return what its entry point names.

    Raises GptreplError, in one line that names the package, when there is none or it fails.
    """
    if name not in installed(kind):
        known = ", ".join(installed(kind)) or "none"
        raise GptreplError(f"no {kind[:-1]} named {name!r} (installed: {known})")
    entry = installed(kind)[name]
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise GptreplError(
            f"{kind[:-1]} {name!r} of {origin(entry)} does not load: {reason}"
        ) from None


def origin(entry: EntryPoint) -> str:
    """Return the package and its version that bring a plugin, and the object it names."""
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    return f"{package} ({entry.value})"
