"""How fast a model in memory is: figures taken in rounds, one of each kind a round.

A round spreads what else the machine does over all figures, so that their ratios hold where the
figures do not. Every prompt is new to the model, except where a follow-up is measured.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .chain import bind, is_greedy
from .loading import Loaded
from .settings import Settings

PROMPT, NEW, ROWS, LONG = 32, 128, 10, 512
"""Ids in a prompt, ids drawn after it, rows of a batch, ids of a prefill; all within the block."""
TURN = 9
"""Ids of what is said in a turn of a chat."""
BEFORE = (9, 100, 300, 900)
"""Ids of the chat so far, when a turn begins; no more than the block has room for."""
NOISY = 1.3
"""The machine is too noisy for figures where its memory's speed varies by more than this."""
BYTES, READS = 1 << 28, 5
"""What is read to measure the memory's speed, and how often."""


@dataclass
class Figure:
    """What was measured of one kind, in the order of the rounds."""

    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.values)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return min(self.values), max(self.values)


class Bench:
    """The figures of one model under some settings, all on one thread of Python."""

    def __init__(self, loaded: Loaded, settings: Settings, new: int = NEW) -> None:
        self.loaded, self.settings = loaded, settings
        self.figures: dict[str, Figure] = {}
        self._chance = random.Random(settings.seed)  # noqa: S311 - it only makes up prompts
        room = loaded.model.block_size or PROMPT + LONG + NEW
        self.prompt = min(PROMPT, max(room // 2, 1))
        self.new = max(min(new, room - self.prompt), 1)
        self.long = min(LONG, room)
        most = max((loaded.model.block_size or BEFORE[-1] + TURN + 1) - TURN - 1, 1)
        self.before = sorted({min(ids, most) for ids in BEFORE})

    def add(self, name: str, unit: str, value: float) -> None:
        """Note one value of a figure."""
        self.figures.setdefault(name, Figure(unit)).values.append(value)

    def rounds(self, count: int) -> Iterator[int]:
        """Take every figure once a round; yield the number of each round when it is over."""
        self._decode(1, 2)  # what is only paid once
        for number in range(1, count + 1):
            self.add("memory bandwidth", "GB/s", bandwidth())
            first, each = self._decode(1, self.new)
            self.add("time to first token", "ms", first * 1e3)
            self.add("decode", "tokens/s", 1 / each)
            self._roofline(each)
            self.add("chain and draw", "% of a token", 100 * self._chain() / each)
            _, each = self._decode(ROWS, max(self.new // 4, 1))
            self.add(f"decode, {ROWS} rows", "tokens/s", ROWS / each)
            self.add("prefill", "tokens/s", self.long / self._prefill())
            for before in self.before:
                name = f"first token of a turn after {before} tokens"
                self.add(name, "ms", self._follow(before) * 1e3)
            yield number

    def ids(self, count: int) -> list[int]:
        """Return a prompt of *count* ids that the model has not seen."""
        size = min(self.loaded.model.vocab_size, self.loaded.tokenizer.vocab_size)
        return [self._chance.randrange(size) for _ in range(count)]

    def _ask(self, ids: list[int]) -> Any:
        return self.loaded.model.logits([ids])

    def _prefill(self) -> float:
        ids = self.ids(self.long)
        return timed(lambda: self._ask(ids))

    def _follow(self, before: int) -> float:
        """Return the seconds to the first token of a turn behind *before* ids of a chat."""
        from .generate import generate

        ids = self.ids(before)
        self._ask(ids)
        row = self._row(ids + self.ids(TURN), 0)
        known = self.loaded.tokenizer.vocab_size
        return timed(lambda: next(generate(self.loaded.model, [row], 1, known)))

    def _decode(self, count: int, new: int) -> tuple[float, float]:
        """Draw *new* tokens for so many rows; return the seconds to the first, and of each step."""
        from .generate import generate

        rows = [self._row(self.ids(self.prompt), seed) for seed in range(count)]
        began = time.perf_counter()
        marks = [
            time.perf_counter()
            for pick in generate(self.loaded.model, rows, new, self.loaded.tokenizer.vocab_size)
            if pick.row == 0
        ]
        each = (marks[-1] - marks[0]) / (len(marks) - 1) if new > 1 else marks[0] - began
        return marks[0] - began, max(each, 1e-9)

    def _row(self, ids: list[int], seed: int) -> Any:
        import torch

        from .rows import Row, begin

        device, active = self.loaded.device, self.settings.active
        greedy = any(is_greedy(sampler) for _, sampler in active)
        links = begin(bind(active, self.loaded.tokenizer, len(ids)), seed, device)
        return Row(ids, links, torch.Generator(device).manual_seed(seed), greedy)

    def _chain(self) -> float:
        """Return the seconds that the chain and the draw of one token take."""
        from .draw import draw
        from .generate import remaining

        row = self._row(self.ids(self.prompt), 0)
        logits = self._ask(row.ids)[0]
        times = [timed(lambda: draw(remaining(logits, row, None), row.generator)) for _ in range(9)]
        return statistics.median(times)

    def _roofline(self, each: float) -> None:
        """Note the share of the memory's speed at which the weights of a token are read."""
        read = getattr(self.loaded.model, "bytes_per_token", 0)
        if read:
            speed = self.figures["memory bandwidth"].values[-1] * 1e9
            self.add("share of the roofline", "%", 100 * read / each / speed)

    @property
    def threads(self) -> int:
        """How many threads the model runs on."""
        import torch

        return getattr(self.loaded.model, "threads", None) or torch.get_num_threads()

    @property
    def noise(self) -> str:
        """What is to be said of the machine if it was too noisy; nothing if it was not."""
        low, high = self.figures["memory bandwidth"].range
        if high < NOISY * low:
            return ""
        return (
            f"the machine was too noisy: its memory gave {low:.1f} to {high:.1f} GB/s, "
            "so compare ratios only, or measure again"
        )


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that *work* takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bandwidth() -> float:
    """Return the GB a second at which torch's threads read memory beyond the caches."""
    import torch

    room = torch.ones(BYTES // 4)
    return BYTES / statistics.median(timed(room.sum) for _ in range(READS)) / 1e9


def start_up(rounds: int) -> Figure:
    """Return the milliseconds of `--version`, above those of a bare Python."""
    figure = Figure("ms")
    for _ in range(rounds):
        bare, ours = started("-c", ""), started("-m", "gptrepl", "--version")
        figure.values.append((ours - bare) * 1e3)
    return figure


def started(*words: str) -> float:
    """Return the seconds that a Python of its own takes for these words."""
    command = [sys.executable, *words]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def memory() -> float:
    """Return the most MB of memory that this process has held; 0 where it cannot be told."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
