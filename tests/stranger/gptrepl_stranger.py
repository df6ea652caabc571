"""A sampler and a tokenizer of a stranger: they know `gptrepl.api` and nothing else."""

from dataclasses import dataclass
from typing import ClassVar

from gptrepl.api import knob


@dataclass(frozen=True)
class OnlyEven:
    """Remove every token whose id is no multiple of some number."""

    only_even: int = knob(1, ge=1, le=9, help="the number; 1 removes nothing")
    aliases: ClassVar[tuple[str, ...]] = ("evens",)

    def __call__(self, logits, ids):
        keep = logits.new_full(logits.shape, float("-inf"))
        keep[:: self.only_even] = logits[:: self.only_even]
        return keep


class Upper:
    """65 capital letters: every id is shown as one of A to Z."""

    vocab_size = 65

    def __init__(self, path: str) -> None:
        self.path = path

    def encode(self, text: str) -> list[int]:
        return [(ord(character) - 65) % 26 for character in text]

    def token_bytes(self, token: int) -> bytes:
        return bytes([65 + token % 26])
