"""Writes a profile: what differs from what it extends, the whole file at once or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import document, profiles
from .api import GptreplError
from .profiles import Profile
from .settings import FIELDS, NEVER_SAVED, Settings


def content_of(settings: Settings, extends: Sequence[Profile]) -> dict[str, Any]:
    """Return what a profile has to say that gives *settings* over what it *extends*.

    It says so too where only the user's configuration would give the same without it.
    """
    inherited = profiles.merged(extends)
    clean = Settings().under("", inherited)
    here = settings.with_layers({**settings.of_user(), "profile": inherited})
    names = dict.fromkeys([*FIELDS, *clean.samplers, *here.samplers, *settings.samplers])
    said: dict[str, Any] = {}
    for name in names:
        value = settings.data(name)
        if name not in NEVER_SAVED and (value, value) != (clean.data(name), here.data(name)):
            said[name] = value
    return said


def save(path: Path, settings: Settings, like: Profile) -> Profile:
    """Write the profile that gives *settings*: it says, extends and runs what *like* does.

    Returns it as it was read back. Raises GptreplError where it cannot be written; then the
    file is what it was.
    """
    extends = [
        str(Path(name).resolve()) if profiles.is_path(name) else name for name in like.extends
    ]
    parents = [profiles.read_beside(name, path) for name in extends]
    inherited = sum(len(parent.commands) for parent in parents)
    content = {
        "extends": extends[0] if len(extends) == 1 else extends,
        "description": like.description,
        **content_of(settings, parents),
        "commands": [line.text for line in like.commands[inherited:]],
    }
    before = path.read_bytes() if profiles.is_file(path) else None
    document.write(
        path, {key: said for key, said in content.items() if key not in profiles.NOTES or said}
    )
    try:
        return profiles.read_beside(str(path), None)
    except GptreplError:
        if before is None:
            path.unlink()
        else:
            document.replace(path, before)
        raise
