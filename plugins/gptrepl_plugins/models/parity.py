"""The random numbers nanoGPT's sample.py has used before a sample begins.

sample.py seeds torch, then builds the model, which draws numbers for weights that are replaced
at once, then draws the samples from the same stream. To give its text with a model that is in
memory, a generator has to stand where that stream stands by then. Reading GPT-2 weights through
transformers, as `--init_from=gpt2` does, uses no numbers (measured with transformers 5.24).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gptrepl_plugins.models.gpt import GPTConfig

_PIECE = 1 << 18  # a multiple of 16: normal_ draws blocks of 16, and another way below 16


def replay_build(config: GPTConfig, generator: torch.Generator) -> None:
    """Draw from a CPU *generator* what building nanoGPT's GPT of this shape draws, and drop it.

    First every layer draws its own weights as it is made, then all are drawn again as GPT-2's
    were, the last layer of each residual branch once more.
    """
    width = config.n_embd
    embeddings = [config.vocab_size * width, config.block_size * width]
    linears = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    scratch = torch.empty(2 * _PIECE)
    for size in embeddings:
        _normal(scratch, size, generator)
    for rows, columns in linears * config.n_layer:
        _uniform(scratch, rows * columns, generator)
        _uniform(scratch, rows if config.bias else 0, generator)
    _uniform(scratch, embeddings[0], generator)  # the head
    for size in embeddings:
        _normal(scratch, size, generator)
    for rows, columns in linears * config.n_layer:
        _normal(scratch, rows * columns, generator)
    _normal(scratch, embeddings[0], generator)  # the head, by then one with the embedding
    for rows, columns in linears[1::2] * config.n_layer:
        _normal(scratch, rows * columns, generator)


def _normal(scratch: Tensor, size: int, generator: torch.Generator) -> None:
    for piece in _pieces(size):
        scratch[:piece].normal_(generator=generator)


def _uniform(scratch: Tensor, size: int, generator: torch.Generator) -> None:
    for piece in _pieces(size):
        scratch[:piece].uniform_(generator=generator)


def _pieces(size: int) -> Iterator[int]:
    """Split a number of draws; the last piece is the longest, so that it is never a short one."""
    while size >= 2 * _PIECE:
        yield _PIECE
        size -= _PIECE
    yield size
