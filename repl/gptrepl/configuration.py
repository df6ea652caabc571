"""What the user has chosen for every session: the file config.yaml, then GPTREPL_ variables.

One order holds everywhere, later ones win: default < configuration < environment < profile <
command line < typed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from . import chain, document, profiles
from .api import Changes, GptreplError
from .document import Entry, Line
from .settings import FIELDS, Settings, known_names, proper
from .values import near

NOTES = ("profile", "commands")
"""The keys that are no settings: the profile to begin with, the lines to run first."""
PREFIX = "GPTREPL_"


@dataclass(frozen=True)
class Configuration:
    """The user's own choices, checked. *commands* run before the first line of a session."""

    changes: Changes = field(default_factory=dict)
    environment: Changes = field(default_factory=dict)
    profile: str = ""
    commands: tuple[Line, ...] = ()
    warnings: tuple[str, ...] = ()

    def begin(self, names: Sequence[str] = ()) -> tuple[Settings, tuple[Line, ...]]:
        """Return the settings under the profiles *names* and the lines to run first.

        Without *names* the profile is the configured one. Raises GptreplError if it cannot be
        read.
        """
        layers = {"configuration": self.changes, "environment": self.environment}
        settings = Settings().with_layers(layers)  # type: ignore[arg-type]
        wanted = profiles.PLUS.join(names) or self.profile
        if not wanted:
            return settings, self.commands
        profile = profiles.read(wanted)
        return settings.under(profile.name, profile.changes), self.commands + profile.commands


def path() -> Path:
    """Return where the file is, on this system and for this user; it may not exist."""
    return Path(platformdirs.user_config_dir("gptrepl", appauthor=False)) / "config.yaml"


def read(environ: Mapping[str, str]) -> Configuration:
    """Return the configuration of the file and of *environ*.

    Raises GptreplError, which names the file and line or the variable, for whatever is wrong.
    """
    file = path()
    text = document.read(file, "the configuration") if file.exists() else ""
    found = parse(text, file)
    layer, notes, warnings = variables(environ)
    return dataclasses.replace(found, environment=layer, warnings=tuple(warnings), **notes)


def parse(text: str, file: Path) -> Configuration:
    """Return what the text of the file says; *file* names it in errors."""
    entries = document.entries(text, file, "a configuration")
    changes, faults = profiles.gather(entries, file, NOTES, Settings())
    if faults:
        raise GptreplError(faults[0])
    notes = {entry.key: entry for entry in entries if entry.key in NOTES}
    lines = document.commands(notes["commands"], file) if "commands" in notes else ()
    return Configuration(changes, profile=profile_of(notes.get("profile"), file), commands=lines)


def profile_of(entry: Entry | None, file: Path) -> str:
    """Return the profile that the file names, several of them joined."""
    if entry is None or entry.value is None:
        return ""
    names = [entry.value] if isinstance(entry.value, str) else entry.value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise GptreplError(f"{file}:{entry.line}: profile: it is the name of a profile")
    return profiles.PLUS.join(names)


def variables(environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the settings that variables set, the notes, and a warning for what sets nothing."""
    layer: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    warnings: list[str] = []
    for variable, text in ours(environ):
        key = variable.removeprefix(PREFIX).lower()
        if key == "profile":
            notes["profile"] = text
        elif key == "commands":
            notes["commands"] = tuple(Line(line, variable) for line in text.splitlines())
        else:
            try:
                name = proper(key)
            except GptreplError:
                known = [PREFIX + name.upper() for name in (*NOTES, *known_names())]
                warnings.append(f"{variable} sets nothing{near(variable, known)}")
                continue
            layer[name] = value_of(variable, name, text)
    return layer, notes, warnings


def ours(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that begin with our prefix, sorted; an empty one counts as none."""
    for name in sorted(environ):
        if name.startswith(PREFIX) and environ[name]:
            yield name, environ[name]


def value_of(variable: str, name: str, text: str) -> Any:
    """Return the value of setting *name* that a variable holds, written as it would be typed."""
    try:
        return Settings().check(name, text if name in FIELDS else chain.read(name, text))
    except GptreplError as error:
        raise GptreplError(f"{variable}: {error}") from None
