"""Logit bias adds a number to the logits of chosen tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import GptreplError, Stage, Tokenizer, knob
from gptrepl_plugins.samplers.phrases import Phrase, phrases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

DIGITS = 18
"""An id has no more of them."""
LARGEST = 1e30
"""A bias is smaller, so that a logit stays a number."""


@dataclass(frozen=True)
class LogitBias:
    r"""Add a number to the logits of chosen tokens; -inf removes them.

    z' = z + b. OpenAI's API and llama.cpp's `--logit-bias`. A list such as
    `50256=-inf, " the"=2.5, "\n"=-1`: a token is named by its id or by its text, which goes in
    quotes if it looks like a number or has spaces around it. b is any number below 1e30, or -inf;
    off if nothing is listed.

    A text has to be one token of the tokenizer. Where no token would be left nothing is done.
    """

    logit_bias: str = knob(
        "", help="tokens and what is added to each", form="a list such as 50256=-inf, the=2.5"
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 5

    def __post_init__(self) -> None:
        """Refuse what is no list of tokens and numbers."""
        for phrase in phrases(self.logit_bias, "logit_bias"):
            _amount(phrase)
            if _is_id(phrase) and len(phrase.text) > DIGITS:
                raise GptreplError(f"logit_bias has no token of {len(phrase.text)} digits")

    def bind(self, tokenizer: Tokenizer, prompt_length: int) -> BoundLogitBias:
        """Return the sampler that knows the ids.

        Raises GptreplError if a text is not one token, and if a token is listed twice.
        """
        amounts: dict[int, float] = {}
        for phrase in phrases(self.logit_bias, "logit_bias"):
            token = _token(phrase, tokenizer)
            if token in amounts:
                raise GptreplError(f"logit_bias lists token {token} twice, also as {phrase.text!r}")
            amounts[token] = _amount(phrase)
        return BoundLogitBias(amounts)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the biases of the ids added; texts need a tokenizer."""
        listed = phrases(self.logit_bias, "logit_bias")
        known = {int(phrase.text): _amount(phrase) for phrase in listed if _is_id(phrase)}
        return BoundLogitBias(known)(logits, ids)


@dataclass(frozen=True)
class BoundLogitBias:
    """Logit bias by ids."""

    amounts: dict[int, float]

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits with the biases added."""
        known = {token: amount for token, amount in self.amounts.items() if token < len(logits)}
        if not known:
            return logits
        import torch

        places = torch.tensor(list(known), device=logits.device)
        biased = logits.index_add(0, places, logits.new_tensor(list(known.values())))
        return logits if biased.max() == float("-inf") else biased


def _is_id(phrase: Phrase) -> bool:
    return not phrase.quoted and phrase.text.isdecimal()


def _amount(phrase: Phrase) -> float:
    """Return the number that a token is given."""
    try:
        amount = float(phrase.value or "nan")
    except ValueError:
        amount = math.nan
    if not amount < LARGEST:
        written = "nothing" if phrase.value is None else repr(phrase.value[:DIGITS])
        name = repr(phrase.text[:DIGITS])
        raise GptreplError(f"logit_bias of {name} must be a number or -inf, not {written}")
    return amount


def _token(phrase: Phrase, tokenizer: Tokenizer) -> int:
    """Return the id of the token that is named."""
    if _is_id(phrase):
        if int(phrase.text) >= tokenizer.vocab_size:
            size = tokenizer.vocab_size
            raise GptreplError(f"logit_bias has no token {phrase.text}: the vocabulary has {size}")
        return int(phrase.text)
    tokens = tokenizer.encode(phrase.text)
    if len(tokens) != 1:
        raise GptreplError(f"logit_bias needs one token, and {phrase.text!r} is {len(tokens)}")
    return tokens[0]
