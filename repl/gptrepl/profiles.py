"""A profile is a set of changes in a YAML file, applied whole or not at all.

It may extend others: their changes come first, in the order they are listed, then its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from . import document
from .api import Changes, GptreplError
from .document import Entry, Line
from .settings import Settings, known_names, proper
from .values import near

NOTES = ("description", "extends", "commands")
"""The keys that are no settings."""
SUFFIXES = (".yaml", ".yml")
PLUS = "+"
"""Between the names of several profiles: each over those before it."""


@dataclass(frozen=True)
class Profile:
    """What one file says, checked; *changes* are its own and those of what it extends.

    *name* is what it is called by: a path where it is found by no name.
    """

    name: str
    path: Path
    changes: Changes
    own: Changes = field(default_factory=dict)
    extends: tuple[str, ...] = ()
    description: str = ""
    commands: tuple[Line, ...] = ()


# --- finding ------------------------------------------------------------------------------------


def user_folder() -> Path:
    """Return the folder of the user's own profiles; it may not exist."""
    return Path(platformdirs.user_config_dir("gptrepl", appauthor=False)) / "profiles"


def shipped() -> Path:
    """Return the folder of the profiles that come with gptrepl, installed or in a checkout."""
    inside = Path(__file__).parent / "profiles"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "profiles"


def folders() -> list[Path]:
    """Return the folders that are searched for profiles, in order; some may not exist."""
    return [Path("profiles"), user_folder(), shipped()]


def found() -> dict[str, Path]:
    """Return every profile by name, sorted; of two with one name the first found stays."""
    paths: dict[str, Path] = {}
    for folder in reversed(folders()):
        with contextlib.suppress(OSError):  # a folder that cannot be listed holds none for us
            paths |= {path.stem: path for path in sorted(folder.glob("*.y*ml"))}
    return dict(sorted(paths.items()))


def locate(name: str, beside: Path | None = None) -> Path:
    """Return the file of the profile *name*, which is a name or a path.

    *beside* is the file that mentions it: its folder is searched first, and it never means
    itself, so that a `creative` of one's own can extend the one that ships.
    """
    if is_path(name):
        folder = beside.parent if beside else Path()
        return folder / Path(name).expanduser()
    searched = [beside.parent, *folders()] if beside else folders()
    for path in (folder / f"{name}{suffix}" for folder in searched for suffix in SUFFIXES):
        if is_file(path) and not (beside and is_same(path, beside)):
            return path
    raise GptreplError(f"no profile named {name!r}{near(name, found())}")


def name_of(path: Path) -> str:
    """Return what the profile in *path* is called: its name if that finds it, or its path."""
    by_name = found().get(path.stem)
    return path.stem if by_name is not None and is_same(by_name, path) else str(path)


def is_file(path: Path) -> bool:
    """Return whether there is a file *path*."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # no such thing can be: a name too long, a zero byte
        return False


def is_same(one: Path, other: Path) -> bool:
    """Return whether both paths are one file that exists."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


# --- reading ------------------------------------------------------------------------------------


def read(name: str) -> Profile:
    """Return the profile called *name*, the one in the file *name*, or several: `one+two`.

    Raises GptreplError with file, line and key for whatever is wrong in it.
    """
    if PLUS in name and name not in found() and not Path(name).exists():
        return joined(name.split(PLUS))
    return read_beside(name, None)


def joined(names: Sequence[str]) -> Profile:
    """Return the profiles *names* as one: each changes what those before it said."""
    profiles = [read(name) for name in names]
    first, *others = profiles
    if not others:
        return first
    name = PLUS.join(profile.name for profile in profiles)
    extends = tuple(profile.name for profile in profiles)
    commands = tuple(line for profile in profiles for line in profile.commands)
    return Profile(name, profiles[-1].path, merged(profiles), {}, extends, "", commands)


def merged(profiles: Iterable[Profile]) -> Changes:
    """Return the changes of several profiles, later ones winning."""
    return {name: value for profile in profiles for name, value in profile.changes.items()}


def parse(text: str, path: Path) -> Profile:
    """Return the profile that *text* holds; *path* names it in the GptreplError of its faults."""
    profile, faults = examine(text, path)
    if faults:
        raise GptreplError(faults[0])
    return profile


def examine(text: str, path: Path, inside: Sequence[Path] = ()) -> tuple[Profile, list[str]]:
    """Return the profile that *text* holds and all that is wrong with it, one line each.

    *inside* are the files that extend this one.
    """
    entries = document.entries(text, path, "a profile")
    notes = {entry.key: entry for entry in entries if entry.key in NOTES}
    faults: list[str] = []
    parents: list[Profile] = []
    commands: tuple[Line, ...] = ()
    try:
        parents = parents_of(notes, path, inside)
        commands = tuple(line for parent in parents for line in parent.commands)
        if "commands" in notes:
            commands += document.commands(notes["commands"], path)
    except GptreplError as error:
        faults.append(str(error))
    inherited = merged(parents)
    own, wrong = gather(entries, path, NOTES, Settings().under("", inherited))
    description = notes["description"].value if "description" in notes else ""
    if not isinstance(description, str | None):
        faults.append(f"{path}:{notes['description'].line}: description: it is a text")
    changes = {**inherited, **own}
    names = tuple(parent.name for parent in parents)
    known = Profile(name_of(path), path, changes, own, names, str(description or ""), commands)
    return known, [*faults, *wrong]


def parents_of(notes: Mapping[str, Entry], path: Path, inside: Sequence[Path]) -> list[Profile]:
    """Return the profiles that the one in *path* extends."""
    entry = notes.get("extends")
    if entry is None or entry.value is None:
        return []
    listed = [entry.value] if isinstance(entry.value, str) else entry.value
    where = f"{path}:{entry.line}: extends: "
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise GptreplError(f"{where}it is the name of a profile, or a list of names")
    parents: list[Profile] = []
    chain = [*inside, path]
    for name in listed:
        try:
            parent = locate(name, path)
            text = document.read(parent, "the profile")
        except GptreplError as error:
            raise GptreplError(f"{where}{error}") from None
        if any(is_same(parent, one) for one in chain):
            raise GptreplError(f"{where}{name} extends {path.stem}, so neither can be read")
        profile, faults = examine(text, parent, chain)
        if faults:
            raise GptreplError(faults[0])
        parents.append(profile)
    return parents


def gather(
    entries: Iterable[Entry], path: Path, notes: Collection[str], base: Settings
) -> tuple[dict[str, Any], list[str]]:
    """Return the changes that *entries* make to *base*, checked, and what is wrong with them.

    The keys in *notes* are no settings and are left out.
    """
    changes: dict[str, Any] = {}
    faults: list[str] = []
    seen: dict[str, int] = {}
    for entry in entries:
        where = f"{path}:{entry.line}: "
        if entry.key in seen:
            faults.append(f"{where}{entry.key}: it is set twice, first in line {seen[entry.key]}")
            continue
        seen[entry.key] = entry.line
        if entry.key in notes:
            continue
        try:
            name = proper(entry.key)
        except GptreplError:
            hint = near(entry.key, [*notes, *known_names()])
            faults.append(f"{where}unknown key {entry.key!r}{hint}")
            continue
        if name in changes:
            faults.append(f"{where}{entry.key}: it is set twice, also as {name}")
            continue
        try:
            changes[name] = checked(name, entry.value, base)
        except GptreplError as error:
            named = "" if str(error).startswith(name) else f"{entry.key}: "
            faults.append(f"{where}{named}{error}")
    return changes, faults


def checked(name: str, value: Any, base: Settings) -> Any:
    """Return the value that setting *name* takes from what a file says."""
    if name in ("start", "model", "tokenizer") and value is None:
        raise GptreplError("it has no value; write a text that begins with # in quotes")
    return base.check(name, value)


def read_beside(name: str, beside: Path | None) -> Profile:
    """Return the profile that the file *beside* means by *name*."""
    path = locate(name, beside)
    return parse(document.read(path, "the profile"), path)


def source_of(profile: Profile, setting: str) -> str:
    """Return the name of the profile that says *setting*: itself, or one that it extends."""
    if setting in profile.own:
        return profile.name
    for name in reversed(profile.extends):
        parent = read_beside(name, profile.path)
        if setting in parent.changes:
            return source_of(parent, setting)
    return profile.name


def is_path(name: str) -> bool:
    """Return whether a profile is called by the path of its file."""
    return Path(name).suffix in SUFFIXES
