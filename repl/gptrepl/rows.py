"""Rows: samples in the making as the loop sees them, ids and what draws them, and their picks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from . import plugins

if TYPE_CHECKING:
    from .api import Sampler
    from .chain import Chain

SPARE = 0x9E3779B97F4A7C15
"""Set against a sample's seed it seeds the generators of its samplers: golden ratio, 64 bits."""


@dataclass
class Row:
    """One sample in the making. The loop appends to *ids*; a row that is *done* gets no more."""

    ids: list[int]
    chain: Chain
    generator: Generator
    greedy: bool = False
    done: bool = False


@dataclass(frozen=True)
class Pick:
    """One id drawn for one row, with the log-probability the model gave it before the chain.

    If asked for: the entropy of the model's probabilities in bits, how many ids the chain left.
    """

    row: int
    token: int
    logprob: float
    entropy: float | None = None
    candidates: int | None = None


def begin(chain: Chain, seed: int, device: torch.device | str = "cpu") -> Chain:
    """Return the chain for one sample: those that keep state or draw begin afresh.

    Each of them gets a generator of its own, made from the sample's seed and its place, so that
    it never moves the draw.
    """
    begun: list[tuple[str, Sampler]] = []
    for place, (name, sampler) in enumerate(chain, 1):
        start = getattr(sampler, "begin", None)
        if start is not None:
            own = Generator(device).manual_seed((seed + place * SPARE) % 2**64)
            with plugins.guarded("samplers", name):
                sampler = start(own)
        begun.append((name, sampler))
    return begun


def measures(logits: Tensor, left: Tensor) -> tuple[float, int]:
    """Return the entropy of *logits* in bits, and how many ids are *left* to draw from."""
    entropy = torch.special.entr(logits.softmax(-1)).sum()
    return float(entropy) / math.log(2), int((left > -math.inf).sum())


def broken(logits: Tensor) -> str:
    """Return the error for logits that no chain can mend."""
    what = "nan" if bool(logits.isnan().any()) else f"{float(logits.max())} alone"
    return f"the model produced {what}: its weights are broken, or its dtype is too small for it"
