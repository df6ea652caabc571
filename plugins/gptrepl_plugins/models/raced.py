"""What the races between calls have found on this machine, kept from start to start.

A model is then computed by the same calls tomorrow, which gives the same last bits, and loads
sooner. It is a file in the user's cache folder; without it there is another race.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import torch


def path() -> Path:
    """Return where it is kept, on this system and for this user; it may not exist."""
    return Path(platformdirs.user_cache_dir("gptrepl", appauthor=False)) / "races.json"


def machine() -> str:
    """Return what the times of a race depend on, besides the shape of the weight."""
    cpu = torch.backends.cpu.get_cpu_capability()
    threads = torch.get_num_threads()
    return f"{platform.node()} {platform.machine()} {cpu} torch {torch.__version__} {threads}"


def find(race: str) -> dict[str, float]:
    """Return the seconds that each call took in a *race* before; nothing if there was none."""
    found = _read().get(machine(), {})
    times = found.get(race, {}) if isinstance(found, dict) else {}
    if not isinstance(times, dict) or not all(isinstance(one, float) for one in times.values()):
        return {}
    return times


def keep(race: str, times: Mapping[str, float]) -> None:
    """Keep what a *race* has found, if the folder can be written."""
    content, here = _read(), machine()
    before = content.get(here)
    content[here] = {**(before if isinstance(before, dict) else {}), race: dict(times)}
    with contextlib.suppress(OSError):
        _write(content)


def _read() -> dict[str, Any]:
    try:
        content = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(content: Mapping[str, Any]) -> None:
    """Replace the file as a whole, so that another shell never reads half of it."""
    path().parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path().parent, prefix="races-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
        Path(name).replace(path())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
