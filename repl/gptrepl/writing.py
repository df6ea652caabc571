"""Who writes the samples: the loop here, or a model elsewhere that gives text, not logits."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import cast

from .api import Ending, Event, GptreplError, Request, Writer
from .generation import Generation, InOrder, draw, row_of
from .loading import Loaded
from .samples import Message, Sample
from .settings import Settings
from .streams import Streams

BATCH = 32
"""The most samples decoded at once: each needs room in memory for its context."""
LOCAL = ("device", "dtype")
"""The settings of a model that runs here."""


def writer_of(loaded: Loaded) -> Writer | None:
    """Return the model if it samples by itself."""
    return cast("Writer", loaded.model) if hasattr(loaded.model, "complete") else None


def request_of(settings: Settings, sample: Sample) -> Request:
    """Return what a writer is asked for to draw *sample*."""
    messages: tuple[Message, ...] = ()
    if sample.turn is not None and sample.turn.at_server:
        begun = sample.prompt[sample.turn.opening :]
        turn: Message = {"role": "assistant", "content": begun}
        messages = (*sample.turn.messages, turn) if begun else sample.turn.messages
    return Request(
        prompt=sample.prompt,
        max_new_tokens=settings.max_new_tokens,
        seed=sample.seed,
        samplers=dict(settings.active),
        stop=settings.stop,
        stop_at_end=settings.stop_at_end,
        messages=messages,
    )


def write(generation: Generation, in_order: InOrder) -> Generator[Event]:
    """Yield the events of the samples of *generation*, each as it is written.

    An interrupt or an error ends the sample in hand with what it has, and is raised after that;
    those behind it do not begin.
    """
    for sample in generation.samples:
        stopped: BaseException | None = None
        try:
            yield from in_order.put(sample.start())
            ending = yield from pieces(generation, sample, in_order)
        except KeyboardInterrupt as interrupt:
            stopped, ending = interrupt, "interrupted"
        except GptreplError as error:
            stopped, ending = error, "failed"
        yield from in_order.put(sample.end(ending, generation.seconds))
        if stopped is not None:
            raise stopped


def pieces(
    generation: Generation, sample: Sample, in_order: InOrder
) -> Generator[Event, None, Ending]:
    """Yield the events of what comes behind the prompt of *sample*; return why it ended."""
    writer = writer_of(generation.loaded)
    request = request_of(generation.settings, sample)
    if writer is None or not request.max_new_tokens:
        return "length"
    coming = writer.complete(request)
    try:
        while True:
            try:
                token, logprob = next(coming)
            except StopIteration as end:
                ending: Ending = end.value
                return ending
            event = sample.add(token, logprob)
            generation.drawn()
            yield from in_order.put(event)
            if sample.has_stopped:
                return "stop"
    finally:
        coming.close()


def remarks(loaded: Loaded, settings: Settings, sample: Sample) -> Iterator[str]:
    """Yield a line for each setting that the writer of *loaded* cannot honour."""
    writer = writer_of(loaded)
    if writer is None:
        return
    for name, reason in writer.idle(request_of(settings, sample)).items():
        yield f"{name} {settings.value(name)} has no effect: {reason}"
    if settings.chain:
        yield "chain has no effect: the order of the samplers is the server's own"
    for name in LOCAL:
        if settings.origin(name) in ("command line", "typed"):
            yield f"{name} {settings.value(name)} has no effect: the model does not run here"


def drawn(generation: Generation) -> Generator[Event]:
    """Yield the events of all samples: a writer's own, or those of the loop, batch by batch."""
    in_order = InOrder()
    if writer_of(generation.loaded) is not None:
        yield from write(generation, in_order)
        return
    loaded, settings = generation.loaded, generation.settings
    streams = Streams(loaded)
    for first in range(0, len(generation.samples), BATCH):
        batch = generation.samples[first : first + BATCH]
        rows = [row_of(loaded, settings, sample, streams) for sample in batch]
        yield from draw(generation, batch, rows, in_order)
