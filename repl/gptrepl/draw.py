"""The draw of one token: exactly that of `torch.multinomial`, without the work nobody sees.

On a CPU multinomial takes p / q where it is largest, q being exponential noise for every id,
-log(1 - u) of a uniform u. Behind top-k nearly every p is 0, so only the others need their
logarithm; the bits of u are drawn for all, which leaves the generator where multinomial does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Generator, Tensor

SMALL = 4096
"""Below so many ids the noise is drawn as it is."""
SHARE = 4
"""Above one id in four left, too."""
MANTISSA = 2**53 - 1
"""The bits of a random number that its uniform number in double precision has."""


def draw(logits: Tensor, generator: Generator) -> int:
    """Return one id, each as likely as softmax of the *logits*, shape (vocab_size,), says."""
    return _one_of(logits.softmax(-1), generator)


def draw_all(logits: Tensor, generators: Sequence[Generator]) -> Tensor:
    """Return the ids that `draw` returns for each row of *logits*, (rows, vocab_size)."""
    probabilities = logits.softmax(-1)
    if logits.device.type == "cpu" and logits.shape[1] < SMALL and noise_is_known():
        noise = torch.empty_like(probabilities)
        for row, generator in zip(noise, generators, strict=True):
            row.exponential_(generator=generator)
        return probabilities.div_(noise).argmax(-1)
    pairs = zip(probabilities, generators, strict=True)
    return torch.tensor([_one_of(row, own) for row, own in pairs], device=logits.device)


def _one_of(probabilities: Tensor, generator: Generator) -> int:
    if probabilities.device.type != "cpu" or not noise_is_known():
        return int(torch.multinomial(probabilities, 1, generator=generator))
    if len(probabilities) >= SMALL:
        left = probabilities.nonzero().squeeze(1)
        if len(left) * SHARE <= len(probabilities):
            return of_few(probabilities, left, bits(len(probabilities), generator))
    return of_all(probabilities, generator)


class Noise:
    """The random numbers of one draw, for those who take several times with the same ones."""

    def __init__(self, size: int, generator: Generator) -> None:
        """Draw from a CPU *generator* what one draw among *size* ids uses."""
        self.before = generator.get_state()
        """The state of the generator before."""
        self._bits = bits(size, generator)

    def take(self, logits: Tensor) -> int:
        """Return the id that `draw` takes from *logits* with these numbers."""
        probabilities = logits.softmax(-1)
        return of_few(probabilities, probabilities.nonzero().squeeze(1), self._bits)


def of_all(probabilities: Tensor, generator: Generator) -> int:
    """Return one id, as multinomial does where its checks are left out."""
    noise = torch.empty_like(probabilities).exponential_(generator=generator)
    return int((probabilities / noise).argmax())


def bits(size: int, generator: Generator) -> Tensor:
    """Return the 64 random bits of each of *size* ids that its exponential noise is made of."""
    return torch.empty(size, dtype=torch.int64).random_(-(2**63), None, generator=generator)


def of_few(probabilities: Tensor, left: Tensor, drawn: Tensor) -> int:
    """Return one of the ids in *left*, whose probability is not 0; *drawn* are the bits of all."""
    uniform = (drawn[left] & MANTISSA).double().mul_(2.0**-53)
    noise = torch.log1p(uniform.neg_()).neg_().to(probabilities.dtype)
    return int(left[(probabilities[left] / noise).argmax()])


@cache
def noise_is_known() -> bool:
    """Return whether this torch draws as described above, by comparing draws once."""
    one, two, three = (torch.Generator().manual_seed(1) for _ in range(3))
    probabilities = torch.linspace(0, 1, 97).softmax(-1)
    left = probabilities.nonzero().squeeze(1)
    for _ in range(50):
        drawn = int(torch.multinomial(probabilities, 1, generator=one))
        few = of_few(probabilities, left, bits(97, two))
        if few != drawn or of_all(probabilities, three) != drawn:
            return False
    return torch.equal(one.get_state(), two.get_state())
