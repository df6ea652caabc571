"""How many threads a model runs fastest on: one, or all that torch has, whichever was measured so.

A small model loses more by waking a second thread than the thread gives back; on a busy machine
it can be forty times slower. The number is never raised above what torch had at first, and left
alone where OMP_NUM_THREADS says it.
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

_before: list[int] = []  # what torch had before the first choice, and what was chosen last


def choose(model: Model) -> int:
    """Set torch's number of threads to what decodes *model* faster, and return it.

    The model is on the CPU; its next call finds a cold cache.
    """
    now = torch.get_num_threads()
    most = _before[0] if _before and _before[1] == now else now
    if most == 1 or "OMP_NUM_THREADS" in os.environ:
        return now
    chosen = _faster(lambda: _decode(model), most)
    _before[:] = [most, chosen]
    torch.set_num_threads(chosen)
    return chosen


def _faster(step: Callable[[], None], most: int) -> int:
    """Return *most* if the median *step* is clearly faster on that many threads, else 1."""
    seconds: dict[int, list[float]] = {1: [], most: []}
    end = time.perf_counter() + _PATIENCE
    for _ in range(_ROUNDS):
        for threads, taken in seconds.items():
            torch.set_num_threads(threads)
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
