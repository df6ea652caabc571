"""One stream of random numbers for all samples, as nanoGPT's sample.py draws them.

sample.py seeds once, builds the model, which draws numbers too, and then draws one sample after
the other. A sample that is drawn beside the others gets a generator that stands where that
stream stands when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import chain
from .session import Session

if TYPE_CHECKING:
    import torch

PIECE = 1 << 18


def one_stream(session: Session) -> Iterator[torch.Generator]:
    """Yield the generator of each sample of one seeding, the build of the model counted in.

    A model without `replay_build` is built without random numbers.
    """
    import torch

    session.model  # noqa: B018 - it has to be loaded
    loaded, settings = session.loaded, session.settings
    assert loaded is not None
    generator = torch.Generator(loaded.device)
    generator.manual_seed(settings.seed) if settings.seed != "random" else generator.seed()
    replay_build = getattr(loaded.model, "replay_build", None)
    if replay_build is not None and generator.device.type == "cpu":  # where models are built
        replay_build(generator)
    greedy = any(chain.is_greedy(sampler) for _, sampler in settings.active)
    while True:
        yield generator.clone_state()
        if not greedy:
            advance(generator, settings.max_new_tokens, loaded.model.vocab_size)


def advance(generator: torch.Generator, draws: int, vocab_size: int) -> None:
    """Bring *generator* to where it stands after so many draws of one token out of vocab_size."""
    import torch

    if generator.device.type == "cpu" and draws_are_uniforms():
        left = 2 * draws * vocab_size
        scratch = torch.empty(min(left, PIECE))
        while left:
            left -= scratch[:left].uniform_(generator=generator).numel()
        return
    even = torch.ones(1, vocab_size, device=generator.device)
    for _ in range(draws):
        torch.multinomial(even, 1, generator=generator)


def draws_are_uniforms() -> bool:
    """Return whether a draw out of n uses as many numbers as 2 * n uniform ones, which is faster.

    It does in the versions of torch tried, on a CPU.
    """
    import torch

    drawn, uniform = (torch.Generator().manual_seed(1) for _ in range(2))
    torch.multinomial(torch.ones(1, 37), 1, generator=drawn)
    torch.empty(2 * 37).uniform_(generator=uniform)
    return torch.equal(drawn.get_state(), uniform.get_state())
