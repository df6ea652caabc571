"""How long a sampler takes at the vocabulary of GPT-2, as a share of one of its tokens.

The token is the time of one pass over as many float32 weights as GPT-2 (124M) has, here and
now, which is what a token costs at least.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from .. import chain
from .result import Result

if TYPE_CHECKING:
    from torch import Tensor

    from ..api import Tokenizer

SIZE = 50_257
"""The vocabulary of GPT-2."""
WIDTH = 768
WEIGHTS = 124e6
ROW = 1000
CALLS = 11
LIMIT = 0.05
"""Above this share of a token a sampler is slow."""


def of(samplers: Sequence[Any], tokenizer: Tokenizer) -> Result:
    """Return how long the slowest of some settings takes for a token."""
    import torch

    logits, ids = row()
    times: dict[float, str] = {}
    with one_thread(), torch.inference_mode():
        for sampler in samplers:
            bind = getattr(sampler, "bind", None)
            begun = bind(tokenizer, ROW) if bind else sampler
            begin = getattr(begun, "begin", None)
            begun = begin(torch.Generator().manual_seed(7)) if begin else begun
            times[median(partial(begun, logits, ids))] = chain.written(sampler)
    slowest = max(times)
    return judged(slowest, f", slowest with {times[slowest]}")


def of_default_chain() -> Result:
    """Return how long the chain takes that is on from the start, the draw of the id included."""
    import torch

    from ..draw import draw
    from ..settings import Settings

    logits, ids = row()
    active = Settings().active
    generator = torch.Generator().manual_seed(7)

    def step() -> int:
        left = logits
        for _, sampler in active:
            left = sampler(left, ids)
        return draw(left, generator)

    with one_thread(), torch.inference_mode():
        return judged(median(step), f", {', '.join(name for name, _ in active)} and the draw")


def judged(seconds: float, more: str) -> Result:
    """Return a time as a share of a token."""
    with one_thread():
        token = token_seconds()
    share = seconds / token
    detail = (
        f"{seconds * 1e3:.2f} ms at {SIZE:,} ids, {share:.1%} of a token of GPT-2 "
        f"({token * 1e3:.0f} ms here){more}"
    )
    return Result("it is quick", "ok" if share <= LIMIT else "slow", detail)


def row() -> tuple[Tensor, list[int]]:
    """Return usual logits and the ids before them."""
    import torch

    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(SIZE, generator=generator) * 3
    return logits, torch.randint(0, SIZE, (ROW,), generator=generator).tolist()


@cache
def token_seconds() -> float:
    """Return how long a pass over the weights of GPT-2 takes on this machine."""
    import torch

    weights = torch.empty(SIZE, WIDTH).uniform_(-1, 1)
    hidden = torch.ones(1, WIDTH)
    seconds = median(lambda: torch.nn.functional.linear(hidden, weights))
    return seconds * WEIGHTS / weights.numel()


def median(call: Callable[[], Any]) -> float:
    """Return the median of the seconds that a call takes, after one to warm up."""
    call()
    seconds: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
