"""Where the random numbers of a sample come from: a seed of its own, or one stream for several.

nanoGPT's sample.py seeds once, builds the model, which draws numbers too, and then draws one
sample after the other. A sample that is drawn beside the others, or again, gets a generator that
stands where that stream stands when its turn comes: after so many draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import chain
from .loading import Loaded
from .settings import Settings

if TYPE_CHECKING:
    import torch

PIECE = 1 << 18


def places(settings: Settings, count: int) -> list[int]:
    """Return how many draws of one stream come before each of *count* samples.

    Every sample has its full length in the stream, also where it ends sooner.
    """
    greedy = any(chain.is_greedy(sampler) for _, sampler in settings.active)
    draws = 0 if greedy else settings.max_new_tokens
    return [draws * place for place in range(count)]


class Streams:
    """The generators of samples of one model; those of one stream are quickest in its order."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._generator: torch.Generator | None = None
        self._seed = 0
        self._draws = 0

    def at(self, seed: int, draws: int | None) -> torch.Generator:
        """Return a generator that stands where the stream of *seed* stands after *draws*.

        The build of the model comes before them. None: it is a stream of the sample's own.
        """
        import torch

        if draws is None:
            return torch.Generator(self._loaded.device).manual_seed(seed)
        if self._generator is None or seed != self._seed or draws < self._draws:
            self._generator, self._seed, self._draws = self._begun(seed), seed, 0
        advance(self._generator, draws - self._draws, self._loaded.model.vocab_size)
        self._draws = draws
        return self._generator.clone_state()

    def _begun(self, seed: int) -> torch.Generator:
        """Return a generator that stands where the model has been built.

        A model without `replay_build` is built without random numbers.
        """
        import torch

        generator = torch.Generator(self._loaded.device).manual_seed(seed)
        replay_build = getattr(self._loaded.model, "replay_build", None)
        if replay_build is not None and generator.device.type == "cpu":  # where models are built
            replay_build(generator)
        return generator


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
