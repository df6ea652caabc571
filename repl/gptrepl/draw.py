"""The draw of one token: exactly that of `torch.multinomial`, without the work nobody sees.

On a CPU multinomial takes p / q where it is largest, q being exponential noise for every id,
-log(1 - u) of a uniform u. Behind top-k nearly every p is 0, so only the others need their
logarithm; the uniforms are drawn for all, which leaves the generator where multinomial does.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Generator, Tensor

SMALL = 4096
"""Below so many ids multinomial itself is as quick."""
SHARE = 4
"""Above one id in four left, too."""


def draw(logits: Tensor, generator: Generator) -> int:
    """Return one id, each as likely as softmax of the *logits*, shape (vocab_size,), says."""
    probabilities = logits.softmax(-1)
    size = len(probabilities)
    if size < SMALL or probabilities.device.type != "cpu" or not noise_is_known():
        return int(torch.multinomial(probabilities, 1, generator=generator))
    left = probabilities.nonzero().squeeze(1)
    if len(left) * SHARE > size:
        return int(torch.multinomial(probabilities, 1, generator=generator))
    return of_few(probabilities, left, generator)


def of_few(probabilities: Tensor, left: Tensor, generator: Generator) -> int:
    """Return one of the ids in *left*, which are those whose probability is not 0."""
    uniform = torch.empty(len(probabilities), dtype=torch.float64).uniform_(generator=generator)
    noise = -torch.log1p(-uniform[left]).to(probabilities.dtype)
    return int(left[(probabilities[left] / noise).argmax()])


@cache
def noise_is_known() -> bool:
    """Return whether this torch draws as described above, by comparing draws once."""
    ours, theirs = (torch.Generator().manual_seed(1) for _ in range(2))
    probabilities = torch.linspace(0, 1, 97).softmax(-1)
    left = probabilities.nonzero().squeeze(1)
    for _ in range(50):
        drawn = int(torch.multinomial(probabilities, 1, generator=theirs))
        if of_few(probabilities, left, ours) != drawn:
            return False
    return torch.equal(ours.get_state(), theirs.get_state())
