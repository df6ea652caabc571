"""Samples that are drawn together: whoever keeps them, their order, and the drawing itself."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from . import chain, plugins
from .api import (
    Ending,
    Event,
    GptreplError,
    Notice,
    Progress,
    SampleEnded,
    SampleStarted,
    Token,
)
from .loading import Loaded
from .prefill import Prefill
from .samples import Sample
from .settings import Settings
from .streams import Streams

if TYPE_CHECKING:
    from .drafting import Plan
    from .rows import Row


class Recorder(Protocol):
    """Whoever keeps what is drawn: the session tells it, and shows what it says."""

    def started(self, generation: Generation) -> None:
        """Take note that samples are about to be drawn."""
        ...

    def drawn(self, generation: Generation) -> None:
        """Take note of one more token; this is called for each, so it has to be quick."""
        ...

    def ended(self, generation: Generation) -> None:
        """Take note that the samples are what they are going to be."""
        ...

    def said(self) -> Iterable[Notice]:
        """Return what the user has to know, each once."""
        ...


class Generation:
    """Samples that are drawn together, and who keeps them."""

    def __init__(
        self,
        loaded: Loaded,
        settings: Settings,
        samples: Sequence[Sample],
        recorders: Sequence[Recorder] = (),
        *,
        measure: bool = False,
        show_now: Callable[[Progress], None] | None = None,
    ) -> None:
        self.loaded = loaded
        self.settings = settings
        self.samples = samples
        self.recorders = recorders
        self.measure = measure
        self.show_now = show_now
        self.began = time.time()
        """Seconds since 1970."""
        self._clock = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return time.perf_counter() - self._clock

    @property
    def share(self) -> tuple[int, int, float]:
        """How many samples are over, of how many, and how much of all of them is drawn."""
        over = [sample.ending is not None for sample in self.samples]
        longest = max(self.settings.max_new_tokens, 1)
        drawn = [
            1.0 if is_over else len(sample.tokens) / longest
            for sample, is_over in zip(self.samples, over, strict=True)
        ]
        return sum(over), len(over), sum(drawn) / len(drawn)

    def drawn(self) -> None:
        """Tell that a token was drawn."""
        for recorder in self.recorders:
            recorder.drawn(self)

    def kept(self, events: Generator[Event]) -> Generator[Event]:
        """Yield *events*, which draw the samples, and have them kept however they end."""
        for recorder in self.recorders:
            recorder.started(self)
            yield from recorder.said()
        try:
            yield from events
        finally:
            for recorder in self.recorders:
                recorder.ended(self)
        for recorder in self.recorders:
            yield from recorder.said()


class InOrder:
    """Puts the events of samples that are decoded together one sample after the other.

    The first sample that has not ended streams; the events of later ones wait for their turn.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._waiting: defaultdict[int, deque[Event]] = defaultdict(deque)
        self.ended: set[int] = set()
        """The samples whose end has come."""

    def put(self, event: SampleStarted | Token | SampleEnded) -> Iterator[Event]:
        """Yield the events whose turn it is once *event* has come."""
        self.hold(event)
        yield from self.ready()

    def hold(self, event: SampleStarted | Token | SampleEnded) -> None:
        """Keep *event* until its turn comes."""
        self._waiting[event.index].append(event)
        if isinstance(event, SampleEnded):
            self.ended.add(event.index)

    def ready(self) -> Iterator[Event]:
        """Yield the events whose turn it is."""
        while queue := self._waiting[self._turn]:
            ready = queue.popleft()
            if isinstance(ready, SampleEnded):
                self._turn += 1
            yield ready


def row_of(loaded: Loaded, settings: Settings, sample: Sample, streams: Streams) -> Row:
    """Return the row that draws *sample*, by its own seed or from its place in a stream."""
    from .rows import Row, begin

    generator = streams.at(sample.seed, sample.stream)
    greedy = any(chain.is_greedy(sampler) for _, sampler in settings.active)
    bound = chain.bind(settings.active, loaded.tokenizer, len(sample.ids))
    links = begin(bound, sample.seed + (sample.stream or 0), loaded.device)
    return Row(list(sample.ids), links, generator, greedy)


def draw(
    generation: Generation, samples: Sequence[Sample], rows: Sequence[Row], in_order: InOrder
) -> Generator[Event]:
    """Yield the events of *samples*, each drawn by its row, all of them decoded as one batch.

    A sample that stops ends at once; the others go on. An interrupt or an error ends the samples
    with what they have, and is raised after that.
    """
    from .drafting import picks, plan_of

    loaded, settings = generation.loaded, generation.settings
    began = time.perf_counter()
    ending: Ending = "length"
    stopped: BaseException | None = None
    plan: Plan | None = None
    prefill = Prefill(loaded.model, generation.show_now)
    unstarted = deque(samples)
    try:
        while unstarted:
            yield from in_order.put(unstarted.popleft().start())
        prefill.begin()
        plan = plan_of(loaded, settings, len(generation.samples))
        length, known = settings.max_new_tokens, loaded.tokenizer.vocab_size
        for pick in picks(loaded.model, rows, length, known, plan, measure=generation.measure):
            prefill.end()
            sample = samples[pick.row]
            token = sample.add(pick.token, pick.logprob, pick.entropy, pick.candidates)
            generation.drawn()
            yield from in_order.put(token)
            if sample.has_stopped:
                rows[pick.row].done = True
                yield from in_order.put(sample.end("stop", time.perf_counter() - began))
    except KeyboardInterrupt as interrupt:
        stopped, ending = interrupt, "interrupted"
    except GptreplError as error:
        stopped, ending = error, "failed"
    except Exception as error:  # whoever is at fault: what was drawn is shown and kept
        stopped, ending = plugins.culprit(error, loaded.loader) or error, "failed"
    finally:
        prefill.end()
    for sample in unstarted:  # stopped while the first one was shown
        yield from in_order.put(sample.start())
    for sample in samples:
        if sample.index not in in_order.ended:
            in_order.hold(sample.end(ending, time.perf_counter() - began))
    late = yield from to_the_end(in_order)
    stopped = stopped or late
    if plan is not None and plan.guessed:
        yield Notice(f"draft: {plan.kept} of {plan.guessed} guesses kept")
    if stopped is not None:
        raise stopped


def to_the_end(in_order: InOrder) -> Generator[Event, None, KeyboardInterrupt | None]:
    """Yield all that waits for its turn, and return the interrupt that came meanwhile.

    What was drawn is shown, since nothing is saved by leaving it out.
    """
    found: KeyboardInterrupt | None = None
    while True:
        try:
            yield from in_order.ready()
        except KeyboardInterrupt as interrupt:
            found = interrupt
        else:
            return found
