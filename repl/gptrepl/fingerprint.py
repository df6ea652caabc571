"""The hash of the files a model was read from, computed once, on a thread, after its first token.

A file is remembered by path, size and time of change: when those are the same the hash is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

CHUNK = 1 << 20
"""The bytes read at once; other threads run while they are hashed."""


@dataclass(frozen=True)
class WeightFile:
    """A file as it was when the model was loaded: where, how long, changed when (nanoseconds)."""

    path: str
    size: int
    mtime: int


def identify(paths: Iterable[Path]) -> tuple[WeightFile, ...]:
    """Return *paths* as they are now; those that do not exist are left out."""
    found: list[WeightFile] = []
    for path in paths:
        try:
            path = path.resolve()
            state = path.stat()
        except OSError:
            continue
        found.append(WeightFile(str(path), state.st_size, state.st_mtime_ns))
    return tuple(found)


def digest(file: WeightFile) -> str:
    """Return the sha256 of *file* in hexadecimal; nothing if it is not what it was any more."""
    try:
        with Path(file.path).open("rb") as stream:
            found = hashlib.sha256()
            while chunk := stream.read(CHUNK):
                found.update(chunk)
    except OSError:
        return ""
    return found.hexdigest() if identify([Path(file.path)]) == (file,) else ""


def combined(files: Iterable[WeightFile], digests: Callable[[WeightFile], str]) -> str:
    """Return the hash of all *files*: that of the one, or of the list of their names and hashes.

    Nothing where one of them has none, or where there are no files.
    """
    each = {Path(file.path).name: digests(file) for file in files}
    if not each or "" in each.values():
        return ""
    if len(each) == 1:
        return next(iter(each.values()))
    listed = "".join(f"{name} {each[name]}\n" for name in sorted(each))
    return hashlib.sha256(listed.encode()).hexdigest()


class Fingerprint:
    """The hash of the weights of one loaded model, in the making or done."""

    def __init__(self, files: tuple[WeightFile, ...] = ()) -> None:
        self.files = files
        self.digests: dict[WeightFile, str] = {}
        """What is known so far of each file."""
        self._thread: Thread | None = None

    def begin(self, known: Callable[[WeightFile], str] = lambda _file: "") -> None:
        """Begin to hash, on a thread, the files of which *known* tells nothing."""
        if self._thread is not None:
            return
        for file in self.files:
            if file not in self.digests and (remembered := known(file)):
                self.digests[file] = remembered
        missing = [file for file in self.files if file not in self.digests]
        self._thread = Thread(target=self._hash, args=(missing,), name="hash", daemon=True)
        if missing:
            self._thread.start()

    def _hash(self, files: list[WeightFile]) -> None:
        for file in files:
            self.digests[file] = digest(file)

    @property
    def is_begun(self) -> bool:
        """Whether anybody has asked for it."""
        return self._thread is not None

    @property
    def is_done(self) -> bool:
        """Whether every file is hashed."""
        return all(file in self.digests for file in self.files)

    def value(self) -> str:
        """Return the hash, after waiting for it; nothing where the files are not known."""
        self.begin()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        return combined(self.files, lambda file: self.digests.get(file, ""))
