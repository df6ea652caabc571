"""How long a line takes, and its first token."""

from __future__ import annotations

import time
from collections.abc import Callable

from .api import Event, Token


class Clock:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: float | None = None

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return time.monotonic() - self._began

    def passing(self, show: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return *show*, which takes the time of the first token it gets."""

        def timed(event: Event) -> None:
            if self._first is None and isinstance(event, Token):
                self._first = self.seconds
            show(event)

        return timed

    def words(self) -> str:
        """Return what it shows now."""
        first = "" if self._first is None else f", the first token after {self._first:.2f} s"
        return f"{self.seconds:.2f} s{first}"
