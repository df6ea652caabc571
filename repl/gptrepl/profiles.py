"""A profile is a set of changes in a YAML file, applied whole or not at all.

A file is read by a safe loader as text with line numbers; the settings decide what each text
means, so that `1e-3` is a number and `off` is off. This module alone knows YAML.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import yaml

from .api import Changes, GptreplError
from .settings import Settings, known_names, proper
from .values import near

NOTHING = ("", "~", "null", "none")
DEEPEST = 4
NOTES = ("description",)
"""The keys that speak to people and set nothing."""


@dataclass(frozen=True)
class Profile:
    """The changes that one file makes, checked."""

    name: str
    path: Path
    changes: Changes
    description: str = ""


def folders() -> list[Path]:
    """Return the folders that are searched for profiles, in order; some may not exist."""
    user = Path(platformdirs.user_config_dir("gptrepl", appauthor=False)) / "profiles"
    return [Path("profiles"), user, shipped()]


def shipped() -> Path:
    """Return the folder of the profiles that come with gptrepl, installed or in a checkout."""
    inside = Path(__file__).parent / "profiles"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "profiles"


def found() -> dict[str, Path]:
    """Return every profile by name, sorted; of two with one name the first found stays."""
    paths: dict[str, Path] = {}
    for folder in reversed(folders()):
        with contextlib.suppress(OSError):  # a folder that cannot be listed holds none for us
            paths |= {path.stem: path for path in sorted(folder.glob("*.y*ml"))}
    return dict(sorted(paths.items()))


def read(name: str) -> Profile:
    """Return the profile called *name*, or the one in the file *name*.

    Raises GptreplError with file, line and key for whatever is wrong in it.
    """
    path = found().get(name) or Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        raise GptreplError(f"no profile named {name!r}{near(name, found())}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise GptreplError(f"cannot read the profile {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GptreplError(f"{path} is not UTF-8 text") from None
    return parse(text, path)


def parse(text: str, path: Path) -> Profile:
    """Return the profile that *text* holds; *path* names it in errors."""
    changes: dict[str, Any] = {}
    notes: dict[str, str] = {}
    for key, value, line in entries(text, path):
        if key in NOTES:
            notes[key] = str(value or "")
            continue
        try:
            name = proper(key)
        except GptreplError:
            hint = near(key, [*NOTES, *known_names()])
            raise GptreplError(f"{path}:{line}: unknown key {key!r}{hint}") from None
        if name in changes:
            raise GptreplError(f"{path}:{line}: {key}: it is set twice, also as {name}")
        try:
            changes[name] = checked(name, value)
        except GptreplError as error:
            named = "" if str(error).startswith(name) else f"{key}: "
            raise GptreplError(f"{path}:{line}: {named}{error}") from None
    return Profile(path.stem, path, changes, notes.get("description", ""))


def checked(name: str, value: Any) -> Any:
    """Return the value that setting *name* takes from what a profile says."""
    if name in ("start", "model", "tokenizer") and value is None:
        raise GptreplError("it has no value; write a text that begins with # in quotes")
    return Settings().check(name, value)


def entries(text: str, path: Path) -> Iterator[tuple[str, Any, int]]:
    """Yield key, value and line of each entry of a YAML mapping; an empty file has none."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise GptreplError(f"{path}:{line}: {problem}") from None
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise GptreplError(f"{path}:1: a profile is a list of `name: value` lines")
    yield from pairs(node, path)


def pairs(node: yaml.MappingNode, path: Path, depth: int = 1) -> Iterator[tuple[str, Any, int]]:
    """Yield key, value and line of each entry of a mapping; a repeated key is an error."""
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise GptreplError(f"{path}:{line}: a key is a word")
        key = str(key_node.value)
        if key in seen:
            raise GptreplError(f"{path}:{line}: {key}: it is set twice, first in line {seen[key]}")
        seen[key] = line
        yield key, plain(value_node, path, depth), line


def plain(node: yaml.Node, path: Path, depth: int) -> Any:
    """Return a node as text, None, list or dict; numbers stay as they were written."""
    if depth > DEEPEST:
        raise GptreplError(f"{path}:{node.start_mark.line + 1}: it is nested too deeply")
    if isinstance(node, yaml.MappingNode):
        return {key: value for key, value, _ in pairs(node, path, depth + 1)}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item, path, depth + 1) for item in node.value]
    written = str(node.value)
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return None if is_plain and written.lower() in NOTHING else written
