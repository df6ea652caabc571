"""How far the model has come with a long prompt, while nobody sees a token yet.

It is told by the model between its layers, so that it is exact and no arithmetic changes. What is
shown is gone before the first token comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .api import Model, Progress

WHAT = "reading the prompt"
PATIENCE = 0.5
"""Seconds after which it is worth showing."""


class Prefill:
    """The passes of *model* before the first token; *show* None: nobody looks."""

    def __init__(self, model: Model, show: Callable[[Progress], None] | None) -> None:
        self._model: Any = model if hasattr(model, "progress") else None
        self._show = show
        self._began = 0.0
        self._tells = self._shown = False

    def begin(self) -> None:
        """Let the model tell, from now on."""
        if self._model is not None and self._show is not None:
            self._began = time.monotonic()
            self._tells = True
            self._model.progress = self._tell

    def end(self) -> None:
        """Let it tell nothing more, and have what was shown taken away."""
        if not self._tells:
            return
        self._tells, self._model.progress = False, None
        if self._shown and self._show is not None:
            self._shown = False
            self._show(Progress(WHAT, 1, 1))

    def _tell(self, done: int, total: int) -> None:
        late = time.monotonic() - self._began >= PATIENCE
        if late and done < total and self._show is not None:
            self._shown = True
            self._show(Progress(WHAT, done, total))
