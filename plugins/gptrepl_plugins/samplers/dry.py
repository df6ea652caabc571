"""DRY makes it ever harder to go on with what was already said."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from gptrepl.api import Stage, Tokenizer, knob
from gptrepl_plugins.samplers.phrases import unescaped
from gptrepl_plugins.samplers.window import places, recent

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 1e30
"""No penalty is larger, so that it stays a number."""

Test = Callable[[int], bool]


@dataclass(frozen=True)
class DRY:
    """Penalise the tokens that would extend a repetition, the more the longer it is already.

    If the last n tokens also stood before an earlier occurrence of a token, and n >= A, then
    z' = z - M * B^(n - A), n the longest such match. Weidmann 2024 (text-generation-webui, pull
    request 5677). M >= 0; off at 0; usual is M 0.8, B 1.75, A 2.

    A match does not reach across a breaker, a token whose text holds one of the breaking
    characters: they frame what a chat or a list has to repeat. Breakers
    themselves are never penalised. The window is the whole row, prompt included, as in
    text-generation-webui; llama.cpp looks at the last 64 tokens.
    """

    multiplier: float = knob(0.0, help="the strength M; 0 is off", ge=0)
    base: float = knob(1.75, help="what each further repeated token multiplies by", ge=1)
    allowed_length: int = knob(2, help="the shortest repetition that is penalised", ge=1)
    breakers: str = knob(
        '\\n:"*', help="the characters that end a repetition; \\n, \\t and \\s are escapes"
    )
    window: int | Literal["off", "all"] = knob(
        "all", help="how many of the last tokens count: off, all or N", ge=1
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 40

    def idle(self, vocab_size: int) -> str:
        """Return why nothing is penalised, or an empty string."""
        return "its window is off" if self.window == "off" else ""

    def bind(self, tokenizer: Tokenizer, prompt_length: int) -> BoundDRY:
        """Return the sampler that knows which tokens hold a breaker."""
        return BoundDRY(self, breaker_test(tokenizer, self.breakers))

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the penalised logits; without a tokenizer no token is a breaker."""
        return self.penalise(logits, ids, lambda _token: False)

    def penalise(self, logits: Tensor, ids: Sequence[int], breaks: Test) -> Tensor:
        """Return the logits with those of tokens that extend a repetition lowered."""
        if self.multiplier == 0:
            return logits
        matches = extensions(list(recent(ids, self.window)), breaks)
        lengths = {
            token: length
            for token, length in matches.items()
            if length >= self.allowed_length and token < len(logits)
        }
        penalised = logits.clone()
        penalties = [self.penalty(length) for length in lengths.values()]
        penalised[list(lengths)] -= logits.new_tensor(penalties)
        return penalised

    def penalty(self, length: int) -> float:
        """Return what a token loses that extends a repetition of *length* tokens."""
        growth = (length - self.allowed_length) * math.log(self.base)
        return min(LARGEST, self.multiplier * math.exp(min(growth, math.log(LARGEST))))


@dataclass(frozen=True)
class BoundDRY:
    """DRY together with the test that tells a breaker from other tokens."""

    settings: DRY
    breaks: Test

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with those of tokens that extend a repetition lowered."""
        return self.settings.penalise(logits, ids, self.breaks)


def breaker_test(tokenizer: Tokenizer, characters: str) -> Test:
    """Return the test for tokens whose text holds one of the *characters*."""
    marks = [character.encode() for character in unescaped(characters)]

    @cache
    def breaks(token: int) -> bool:
        return any(mark in tokenizer.token_bytes(token) for mark in marks)

    return breaks


def extensions(row: list[int], breaks: Test) -> dict[int, int]:
    """Return the tokens that would extend a repetition, and how long it is without them.

    The lengths are those of the Z algorithm over the row read backwards, in time proportional
    to the row however often it repeats itself.
    """
    back = row[::-1]
    limit = next((place for place, token in enumerate(back) if breaks(token)), len(back))
    found: dict[int, int] = {}
    if limit == 0:
        return found
    lengths = [0] * len(back)
    left = right = 0
    for start in list(places(back, back[0]))[1:]:
        length = min(right - start, lengths[start - left]) if start < right else 0
        while start + length < len(back) and back[length] == back[start + length]:
            length += 1
        lengths[start] = length
        if start + length > right:
            left, right = start, start + length
        token = back[start - 1]
        if not breaks(token):
            found[token] = max(found.get(token, 0), min(length, limit))
    return found
