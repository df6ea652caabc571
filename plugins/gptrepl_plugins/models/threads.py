"""How many threads a model runs fastest on: one, or all that torch has, whichever was measured so.

A small model loses more by waking a second thread than the thread gives back; on a busy machine
it can be forty times slower. The number is never raised above what torch had before this module
changed it, and left alone where OMP_NUM_THREADS says it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gptrepl.api import Model

_ROUNDS = 5
_PATIENCE = 0.25  # seconds: a large model decides after its first rounds

_most = torch.get_num_threads()
_last = 0  # what was set here last, so that it is not taken for torch's own number


def use(threads: int) -> None:
    """Let this thread's work in torch run on so many threads; torch keeps the number by thread."""
    global _last
    if torch.get_num_threads() != threads:
        _last = threads
        torch.set_num_threads(threads)


def choose(model: Model) -> int | None:
    """Return the number of threads that decodes *model*, on the CPU, faster.

    None: there is no choice. The cache of the model is cold afterwards.
    """
    now = torch.get_num_threads()
    most = _most if now == _last else now
    if most == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    try:
        return _faster(lambda: _decode(model), most)
    finally:
        use(now)


def _faster(step: Callable[[], None], most: int) -> int:
    """Return *most* if the median *step* is clearly faster on that many threads, else 1."""
    seconds: dict[int, list[float]] = {1: [], most: []}
    end = time.perf_counter() + _PATIENCE
    for _ in range(_ROUNDS):
        for threads, taken in seconds.items():
            use(threads)
            step()  # the first step on other threads pays for the change
            start = time.perf_counter()
            step()
            taken.append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    alone, together = (statistics.median(taken) for taken in seconds.values())
    return most if together < 0.9 * alone else 1


def _decode(model: Model) -> None:
    row = [0]
    for _ in range(3):
        model.logits([row])
        row.append(0)
