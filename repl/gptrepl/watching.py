"""`:watch`: sample again whenever training has written a new checkpoint."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Annotated

from . import offers
from .api import Choices, Event, GptreplError, LoadError, Notice, Progress
from .session import Session

PAUSE = 0.5
"""Seconds between two looks at the file."""

Source = Annotated[str, Choices(lambda _session: offers.sources(), paths=True)]
State = tuple[int, int]
"""What tells one state of a file from another: its size in bytes and when it was changed."""


def watch(
    session: Session, source: Source | None = None, times: int | None = None
) -> Iterator[Event]:
    """Sample from `start` each time a new checkpoint appears in SOURCE, until Ctrl-C.

    SOURCE is a folder with a ckpt.pt or the file itself, by default the model in memory; the
    checkpoint that is there comes first. A file is read once it is complete. TIMES ends it
    after so many checkpoints.
    """
    if times is not None and times < 1:
        raise GptreplError(f"times must be 1 or more, not {times}")
    source = source or session.source
    path = checkpoint_of(source)
    seen: State | None = None
    while times is None or times > 0:
        state = yield from changed(path, seen)
        seen = state
        settings = session.settings.but("typed", model=source)
        try:
            yield from session.apply(settings, reload=True)
        except LoadError as error:
            if complete(path) is None:  # it is being written again: the next look tells
                continue
            yield Notice(f"not loaded: {error}", warning=True)
            continue
        if session.loaded is not None:
            yield Notice(f"loaded {session.loaded.title}")
        yield from session.stream()
        times = None if times is None else times - 1


def checkpoint_of(source: str) -> Path:
    """Return the file to look at; raise GptreplError if *source* is no path."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path / "ckpt.pt"
    if path.suffix in (".pt", ".pth"):
        return path
    raise GptreplError(f"{source!r} is no folder and no checkpoint file: there is nothing to watch")


def changed(path: Path, seen: State | None) -> Generator[Event, None, State]:
    """Wait, with progress, until *path* is complete and another than *seen*; return its state."""
    while True:
        state = complete(path)
        if state is not None and state != seen:
            yield Progress(f"waiting for {path}", 1, 1)
            return state
        yield Progress(f"waiting for {path}", 0)
        time.sleep(PAUSE)


def complete(path: Path) -> State | None:
    """Return the state of a checkpoint that has been written to its end; None for any other.

    torch writes the directory of its archive last. An older format has none: such a file is
    complete when it has not changed for a moment.
    """
    before = state_of(path)
    if before is None:
        return None
    try:
        if not zipfile.is_zipfile(path):
            time.sleep(PAUSE)
    except OSError:
        return None
    return before if state_of(path) == before else None


def state_of(path: Path) -> State | None:
    """Return the size and the time of change of a file; None if it is not there or empty."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if found.st_size else None
