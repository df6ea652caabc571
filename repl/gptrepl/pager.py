"""Long tables in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from .api import Console


def page(text: str, console: Console) -> bool:
    """Show *text* in the program of the variable PAGER, or in less; return whether it could be."""
    program = shlex.split(os.environ.get("PAGER") or "less")
    if not shutil.which(program[0]):
        return False
    environment = {"LESS": "-R", **os.environ}
    try:
        with console.lent():
            subprocess.run(program, input=text.encode(), env=environment, check=False)
    except OSError:
        return False
    return True
