"""Drafting: several tokens are guessed, one pass of the model verifies them, the text is the same.

Each step has its own noise, drawn in order from the generator of the sample. What is kept is what
the exact logits and that noise draw; a guess only decides how many logits one pass computes. The
generator is left where the plain loop leaves it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .api import GptreplError, Model
from .chain import Chain
from .draw import Noise, noise_is_known
from .generate import choose, generate, pick, remaining
from .rows import Pick, Row
from .settings import Settings

if TYPE_CHECKING:
    from .loading import Loaded

FIRST, MOST = 4, 12
"""How many tokens are guessed at first, and at most, where nobody says."""
LONGEST_MATCH, SHORTEST_MATCH = 4, 2
REACH = 4096
"""How many ids back a match is looked for."""
FADING = 0.9
"""What a round counts for, against the one after it."""
TRIALS, PAUSE = 3, 64
"""Rounds before a way of guessing is judged; tokens before one that did not pay is tried again."""


@dataclass
class Way:
    """A way of guessing, and what it has cost lately: a round counts for less with each new one."""

    copied: bool
    """Whether guesses are copied from the text; else a rough copy of the model makes them."""
    rounds: int = 0
    weight: float = 0.0
    """How many rounds count, the latest as one."""
    tokens: float = 0.0
    guesses: float = 0.0
    kept: float = 0.0
    refused: float = 0.0
    guessing: float = 0.0
    """Seconds that the guesses took."""
    seconds: float = 0.0
    """Seconds that it took in all."""
    rests: int = 0

    def learn(self, guessed: int, kept: int, guessing: float, seconds: float) -> None:
        """Note a round, in which so many of the guesses were kept."""
        self.rounds += 1
        now = {
            "weight": 1.0,
            "tokens": kept + 1,
            "guesses": guessed,
            "kept": kept,
            "refused": kept < guessed,
            "guessing": guessing,
            "seconds": seconds,
        }
        for name, value in now.items():
            setattr(self, name, FADING * getattr(self, name) + value)

    def pays(self, each: float) -> bool:
        """Return whether it gives a token in less than *each* seconds, or has yet to show it."""
        if self.rests:
            self.rests -= 1
            return False
        if self.rounds < TRIALS or self.seconds < each * self.tokens:
            return True
        vars(self).update(vars(Way(self.copied, rests=PAUSE)))
        return False

    @property
    def length(self) -> int:
        """How many guesses give the most tokens a second, as far as is known.

        Where each of N guesses is kept with probability a, one after the other, a round gives
        (1 - a ** (N + 1)) / (1 - a) tokens.
        """
        if self.rounds < TRIALS or not self.guesses:
            return FIRST
        share = min(self.kept / (self.kept + self.refused or 1), 0.99)
        each = self.guessing / self.guesses
        once = (self.seconds - self.guessing) / self.weight
        return max(
            range(1, MOST + 1),
            key=lambda count: (1 - share ** (count + 1)) / (1 - share) / (once + each * count),
        )


class Plan:
    """How one sample is drafted: *length* tokens at once, or as many as pay where it is 0.

    *ways* is what is known from samples before, and learns from this one.
    """

    def __init__(self, model: Model, length: int = 0, ways: list[Way] | None = None) -> None:
        self.model: Any = model
        self.fixed = length
        self.guessed = 0
        """How many tokens were guessed so far."""
        self.kept = 0
        """How many of them the model would have drawn."""
        self._rough: Any = None
        known = [] if ways is None else ways
        if not known:
            known += [Way(copied=False), Way(copied=True), Way(copied=False)]
        self._plain, *self._ways = known

    @property
    def each(self) -> float:
        """The seconds that a plain token takes; 0 while that is not known."""
        return self._plain.seconds / self._plain.tokens if self._plain.rounds >= TRIALS else 0.0

    def guess(self, row: Row, room: int, draws: Draws, known: int | None) -> tuple[list[int], Way]:
        """Return at most *room* guesses of what follows *row*, and the way they were made."""
        if room < 1 or (not self.fixed and not self.each):
            return [], self._plain
        for way in self._ways:
            if not self.fixed and not way.pays(self.each):
                continue
            count = min(room, self.fixed or way.length)
            found = (
                lookup(row.ids, count) if way.copied else self._roughly(row, count, draws, known)
            )
            if found:
                return found, way
        return [], self._plain

    def learn(self, way: Way, guessed: int, kept: int, guessing: float, seconds: float) -> None:
        """Take note of a round."""
        way.learn(guessed, kept, guessing, seconds)
        self.guessed += guessed
        self.kept += kept

    def _roughly(self, row: Row, room: int, draws: Draws, known: int | None) -> list[int]:
        if self._rough is None:
            self._rough = getattr(self.model, "rough", lambda: None)() or ()
        if not self._rough:
            return []
        ahead = Row(list(row.ids), row.chain, row.generator, row.greedy)
        try:
            for place in range(room):
                left = remaining(self._rough[0].logits([ahead.ids])[0], ahead, known)
                ahead.ids.append(choose(left, row, draws.at(place)))
        except GptreplError:  # what is wrong is said where the model itself is asked
            pass
        return ahead.ids[len(row.ids) :]


class Draws:
    """The noise of the steps to come: drawn when it is first asked for, in order."""

    def __init__(self, row: Row, size: int) -> None:
        self._row, self._size = row, size
        self._ahead: deque[Noise] = deque()

    def at(self, place: int) -> Noise | None:
        """Return the noise of the step after *place* others; None where nothing is drawn."""
        if self._row.greedy:
            return None
        while len(self._ahead) <= place:
            self._ahead.append(Noise(self._size, self._row.generator))
        return self._ahead[place]

    def use(self) -> Noise | None:
        """Return the noise of this step, and go on to the next."""
        found = self.at(0)
        if self._ahead:
            self._ahead.popleft()
        return found

    def return_rest(self) -> None:
        """Put the generator back to where it was before what has not been used."""
        if self._ahead:
            self._row.generator.set_state(self._ahead[0].before)
            self._ahead.clear()


@torch.inference_mode()
def draft(
    plan: Plan, row: Row, max_new_tokens: int, known: int | None = None, *, measure: bool = False
) -> Iterator[Pick]:
    """Yield the picks that `generate` yields for this one row, most of them in less time."""
    model, draws = plan.model, Draws(row, plan.model.vocab_size)
    left = max_new_tokens
    try:
        while left and not row.done:
            began = time.perf_counter()
            block = model.block_size or len(row.ids) + MOST
            room = min(left - 1, block - len(row.ids))
            guesses, way = plan.guess(row, room, draws, known)
            guessing = time.perf_counter() - began
            logits = ask(model, row.ids, guesses)
            seconds, kept = time.perf_counter() - began, 0
            for place in range(len(guesses) + 1):
                began = time.perf_counter()
                found = pick(0, logits[place], row, known, measure=measure, noise=draws.use())
                seconds += time.perf_counter() - began  # whoever takes it has time of their own
                left -= 1
                is_guessed = place < len(guesses) and guesses[place] == found.token
                kept += is_guessed
                yield found
                if row.done or not is_guessed:
                    break
            plan.learn(way, len(guesses), kept, guessing, seconds)
    finally:
        draws.return_rest()


def picks(
    model: Model,
    rows: Sequence[Row],
    max_new_tokens: int,
    known: int | None,
    plan: Plan | None,
    *,
    measure: bool = False,
) -> Iterator[Pick]:
    """Return the picks of *rows*, drafted where there is a *plan* for the only one of them."""
    if plan is None:
        return generate(model, rows, max_new_tokens, known, measure=measure)
    return draft(plan, rows[0], max_new_tokens, known, measure=measure)


def plan_of(loaded: Loaded, settings: Settings, count: int) -> Plan | None:
    """Return how the only one of *count* samples is drafted; None where nothing is."""
    wanted = settings.draft
    if wanted == "off" or hindrance(loaded.model, settings.active, loaded.device, count):
        return None
    return Plan(loaded.model, 0 if wanted == "auto" else wanted, loaded.ways)


def ask(model: Any, ids: Sequence[int], guesses: Sequence[int]) -> torch.Tensor:
    """Return the logits after *ids*, and after each of the *guesses* that follow them."""
    if not guesses:
        plain: torch.Tensor = model.logits([ids])
        return plain
    several: torch.Tensor = model.positions([*ids, *guesses], len(guesses) + 1)
    return several


def lookup(ids: Sequence[int], count: int) -> list[int]:
    """Return *count* ids as they followed the last ids when those stood in the text before.

    Where the text has come round to itself, it goes round on. Nothing if they stand there once.
    """
    near = list(ids[-REACH:])
    for size in range(LONGEST_MATCH, SHORTEST_MATCH - 1, -1):
        tail = near[-size:]
        for end in range(len(near) - 1, size - 1, -1):
            if near[end - 1] == tail[-1] and near[end - size : end] == tail:
                period = near[end:]
                return [period[place % len(period)] for place in range(count)]
    return []


def hindrance(model: Model, chain: Chain, device: str, count: int = 1) -> str:
    """Return why nothing of *count* samples can be drafted; nothing if it can."""
    if not hasattr(model, "positions"):
        return "this model gives the logits of one position at a time"
    for name, sampler in chain:
        if hasattr(sampler, "begin"):
            return f"{name} keeps state or draws, and cannot look ahead"
    if device != "cpu" or not noise_is_known():
        return "the noise of the draw is known on the cpu alone"
    if count > 1:
        return "several samples are decoded together, which is quicker"
    return ""
