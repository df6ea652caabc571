"""A text does not end before it has a length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import GptreplError, Stage, Tokenizer, knob
from gptrepl_plugins.samplers.phrases import unescaped
from gptrepl_plugins.samplers.removal import without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class MinNewTokens:
    """Hold back the token that ends a text until there are n new ones.

    The token goes while the row has fewer than n ids after the prompt. transformers'
    `min_new_tokens`. n >= 0; off at 0.

    The end is named by its text, which has to be one token of the tokenizer. Where it is the
    only token left it stays.
    """

    min_new_tokens: int = knob(0, help="how many new tokens come before the end; 0 is off", ge=0)
    end: str = knob(
        "<|endoftext|>", help="the text of the token held back; \\n and \\s are escapes"
    )

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 70

    def bind(self, tokenizer: Tokenizer, prompt_length: int) -> BoundMinNewTokens:
        """Return the sampler that knows the token; raise GptreplError if it is not one token."""
        try:
            tokens = tokenizer.encode(unescaped(self.end))
        except GptreplError:
            tokens = []
        if self.min_new_tokens and len(tokens) != 1:
            raise GptreplError(
                f"min_new_tokens has nothing to hold back: {self.end!r} is not one token of this "
                "tokenizer; name the token with end=TEXT, or set it off"
            )
        return BoundMinNewTokens(tuple(tokens), prompt_length + self.min_new_tokens)

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits as they are: the end and the prompt are not known."""
        return logits


@dataclass(frozen=True)
class BoundMinNewTokens:
    """The tokens held back until the row has a length."""

    tokens: tuple[int, ...]
    length: int

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits, without the end if it is too early for it."""
        return without(logits, self.tokens) if len(ids) < self.length else logits
