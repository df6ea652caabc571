"""Small stand-ins that satisfy the protocols: a model that spells a given text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from gptrepl.loading import Loaded
from gptrepl.session import Session
from gptrepl.settings import Settings


class Bytes:
    """A tokenizer whose ids are the bytes of the text."""

    vocab_size = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


class Speller:
    """Says *text* over and over after any prompt of *prompt* tokens; pure, by position."""

    def __init__(self, text: str, prompt: int = 1, block_size: int | None = None) -> None:
        self.ids = text.encode("utf-8")
        self.prompt = prompt
        self.vocab_size = 256
        self.block_size = block_size
        self.calls: list[list[list[int]]] = []

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        self.calls.append([list(row) for row in rows])
        out = torch.full((len(rows), self.vocab_size), -20.0)
        for place, row in enumerate(rows):
            out[place, self.ids[(len(row) - self.prompt) % len(self.ids)]] = 20.0
        return out


class Uniform:
    """Finds every id equally likely."""

    def __init__(self, vocab_size: int = 256, block_size: int | None = None) -> None:
        self.vocab_size = vocab_size
        self.block_size = block_size

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.zeros(len(rows), self.vocab_size)


class Learned(Uniform):
    """Likes some ids more than others, and other ones after every row."""

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        likes = torch.sin(torch.arange(self.vocab_size) * 1.7) * 3
        return torch.stack([likes.roll(sum(row) % self.vocab_size) for row in rows])


class Interrupted(Speller):
    """Raises *error* when it is asked for the token after *calls* others."""

    def __init__(self, text: str, after: int, error: type[BaseException]) -> None:
        super().__init__(text)
        self.after = after
        self.error = error

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        if len(self.calls) == self.after:
            self.after = -1
            raise self.error
        return super().logits(rows)


def session_of(model: object, tokenizer: object | None = None, **changes: object) -> Session:
    """Return a session that has *model* in memory, under *changes* of the settings."""
    session = Session(Settings().but("command line", **changes))
    session._loaded = Loaded("fake", None, model, tokenizer or Bytes(), "cpu", "float32")
    return session


@contextmanager
def distribution(folder: Path, name: str, entry_points: str, **files: str) -> Iterator[Path]:
    """Lay a distribution into *folder* as pip leaves it; each file is NAME='its text'."""
    from gptrepl import plugins

    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text)
    plugins.forget()
    yield folder
    plugins.forget()
