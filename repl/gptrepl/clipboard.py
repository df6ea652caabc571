"""The clipboard: by a program of the system, or by the terminal itself."""

from __future__ import annotations

import os
import shutil
import subprocess

from .api import Console, GptreplError

PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
)
"""Each with the variable that has to be set for it to work."""
LONGEST = 5
"""Seconds a program gets."""


def copy(text: str, console: Console | None) -> None:
    """Put *text* on the clipboard; raise GptreplError if nothing here can."""
    for variable, program in PROGRAMS:
        if (variable and not os.environ.get(variable)) or not shutil.which(program[0]):
            continue
        quiet = subprocess.DEVNULL
        try:
            done = subprocess.run(
                program,
                input=text.encode(),
                stdout=quiet,
                stderr=quiet,
                timeout=LONGEST,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return
    if console is None:
        raise GptreplError("nothing here can copy: no clipboard program is installed")
    console.copy(text)
