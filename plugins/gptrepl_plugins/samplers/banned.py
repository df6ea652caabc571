"""Banned texts never appear, however they would be split into tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import GptreplError, Stage, Tokenizer, knob
from gptrepl_plugins.samplers.phrases import phrases
from gptrepl_plugins.samplers.removal import without

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Banned:
    r"""Remove every token that would complete one of the banned texts.

    A list such as `foo, "two words", "\n\n"`. A token goes if the text so far, continued with
    it, would hold a banned text that ends within it. Off if nothing is listed.

    transformers' `bad_words_ids` bans sequences of tokens, which the same text split otherwise
    escapes; here the text itself never appears. Where no token would be left all stay.
    """

    banned: str = knob("", help="texts that never appear", form='a list such as foo, "two words"')

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 60

    def __post_init__(self) -> None:
        """Refuse what is no list of texts."""
        for phrase in phrases(self.banned, "banned"):
            if phrase.value is not None:
                raise GptreplError(
                    f"banned takes texts without values; quote the equals sign of {phrase.text!r}"
                )

    def bind(self, tokenizer: Tokenizer, prompt_length: int) -> BoundBanned:
        """Return the sampler that knows the tokens; raise GptreplError for a text it lacks."""
        texts = [phrase.text for phrase in phrases(self.banned, "banned")]
        for text in texts:
            tokenizer.encode(text)
        return BoundBanned(tokenizer, [text.encode() for text in texts])

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits as they are: texts need a tokenizer."""
        return logits


class BoundBanned:
    """Banned texts, as bytes, with the tokens that hold or can complete each of them."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[bytes]):
        import torch

        self.tokenizer = tokenizer
        self.reach = max(map(len, texts), default=1) - 1
        tokens = range(tokenizer.vocab_size) if texts else range(0)
        pieces = [tokenizer.token_bytes(token) for token in tokens]
        holds = [
            token for token, piece in enumerate(pieces) if any(text in piece for text in texts)
        ]
        self.always = torch.tensor(holds, dtype=torch.long)
        starts: dict[int, list[int]] = defaultdict(list)
        for token, piece in enumerate(pieces):
            starts[piece[0] if piece else -1].append(token)
        self.after: dict[bytes, list[int]] = defaultdict(list)
        for text in texts:
            for cut in range(1, len(text)):
                ends = (
                    token for token in starts[text[cut]] if pieces[token].startswith(text[cut:])
                )
                self.after[text[:cut]] += ends

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits without the tokens that would complete a banned text."""
        import torch

        tail = b""
        for token in reversed(ids):
            if len(tail) >= self.reach:
                break
            tail = self.tokenizer.token_bytes(token) + tail
        ends = [
            token for start in self.after if tail.endswith(start) for token in self.after[start]
        ]
        return without(logits, torch.cat((self.always, self.always.new_tensor(ends))))
