"""The lines that were typed, kept in a file that nobody else can read, or in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import platformdirs
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

PRIVATE = 0o600


class PrivateHistory(FileHistory):
    """A history file of mode 0600, of which the last *size* entries come back.

    What can no longer be written is kept in memory alone.
    """

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(path)
        self.size = size

    def load_history_strings(self) -> Iterator[str]:
        """Yield the entries, the last one first."""
        return islice(super().load_history_strings(), self.size)

    def store_string(self, string: str) -> None:
        """Append one entry; bytes that were no UTF-8 become question marks."""
        try:
            super().store_string(string.encode("utf-8", "replace").decode("utf-8"))
        except OSError:  # the disk is full, or the folder has gone
            return


def history_path() -> Path:
    """Return where the history file is, on this system and for this user."""
    return Path(platformdirs.user_state_dir("gptrepl", appauthor=False)) / "history"


def open_history(path: Path, size: int = 10_000) -> tuple[History, str]:
    """Return the history in *path* and an empty string, or one in memory and why.

    Of the file the last *size* entries come back; 0 leaves it alone.
    """
    if not size:
        return InMemoryHistory(), ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE)
        os.close(descriptor)
        path.chmod(PRIVATE)
    except OSError as error:
        return InMemoryHistory(), f"no history is kept: cannot write {path}: {error.strerror}"
    return PrivateHistory(path, size), ""
