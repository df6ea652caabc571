"""Where samples begin: their prompts in ids, their seeds, their places in one stream."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence

from . import stops, streams
from .api import GptreplError
from .loading import Loaded
from .samples import Sample, Start
from .settings import LAST_SEED, Settings
from .writing import writer_of


def of(loaded: Loaded, settings: Settings, prompts: Sequence[str], n: int) -> list[Start]:
    """Return where *n* samples of each prompt begin; sample k of a prompt has the seed `seed + k`.

    Raise GptreplError for a prompt without ids, and where there is no prompt.
    """
    first = settings.seed
    if not isinstance(first, int):
        first = secrets.randbelow(2**32)
    starts: list[Start] = []
    for prompt in prompts:
        ids = loaded.encode(prompt)
        if not ids:
            raise GptreplError("the prompt is empty: there is nothing to continue")
        seeds = [(first + place) % (LAST_SEED + 1) for place in range(n)]
        starts += [Start(prompt, ids, seed) for seed in seeds]
    if not starts:
        raise GptreplError("there is no prompt: name one at least")
    return starts


def in_one_stream(loaded: Loaded, settings: Settings, starts: Sequence[Start]) -> list[Start]:
    """Return *starts* as samples of one stream, that of the first one's seed."""
    if writer_of(loaded) is not None:
        raise GptreplError("a server draws by itself: it cannot follow one stream of draws")
    places = streams.places(settings, len(starts))
    return [
        dataclasses.replace(start, seed=starts[0].seed, stream=place)
        for start, place in zip(starts, places, strict=True)
    ]


def samples(loaded: Loaded, settings: Settings, starts: Sequence[Start]) -> list[Sample]:
    """Return the samples that begin there, with what ends them."""
    ends = stops.ends_of(loaded.tokenizer) if settings.stop_at_end else ()
    return [Sample(index, start, loaded, settings.stop, ends) for index, start in enumerate(starts)]
