"""Samples in the making: rows of ids become text here, whole characters only."""

from __future__ import annotations

import codecs
import time
from collections import defaultdict, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from . import chain, plugins
from .api import Ending, Event, GptreplError, Notice, SampleEnded, SampleStarted, Token
from .loading import Loaded
from .settings import Settings
from .stops import Watch

if TYPE_CHECKING:
    import torch

    from .drafting import Plan
    from .generate import Row


Message = Mapping[str, str]
"""One turn of a conversation: its `role` (system, user or assistant) and its `content`."""


@dataclass(frozen=True)
class Turn:
    """The turn of a conversation that a sample writes: behind *messages*, from *opening* on.

    *opening* is a place in the sample's text. *at_server*: the messages are sent, not the text.
    """

    messages: tuple[Message, ...]
    opening: int
    at_server: bool = False


@dataclass(frozen=True)
class Start:
    """Where a sample begins: the text so far, as ids too, and its seed.

    *known* characters of the text were shown before, as part of another sample.
    """

    prompt: str
    ids: Sequence[int]
    seed: int
    known: int = 0
    turn: Turn | None = None


class Sample:
    """One sample: its prompt, its seed and the text so far.

    The texts of its events, joined, are the decoding of all the bytes, however characters
    split over tokens; bytes that are no UTF-8 become one U+FFFD as in any decoder. One of
    *stops* ends it, and so does a token of *ends*; neither they nor what follows are part of it.
    """

    def __init__(
        self,
        index: int,
        start: Start,
        loaded: Loaded,
        stops: Sequence[str] = (),
        ends: Collection[int] = (),
    ) -> None:
        self.index = index
        self.prompt = start.prompt
        self.ids = start.ids
        self.seed = start.seed
        self.known = start.known
        self.turn = start.turn
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        """What the model gave each of the tokens, before the chain."""
        self.ending: Ending | None = None
        """Why it ended; None while it goes on."""
        self.loaded = loaded
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces = [start.prompt]
        self._watch = Watch(stops)
        self._ends = ends

    @property
    def text(self) -> str:
        """All of it so far, prompt included."""
        return "".join(self._pieces)

    @property
    def has_stopped(self) -> bool:
        """Whether it came to a stop string or to the end of the text."""
        return bool(self._watch.found) or any(t in self._ends for t in self.tokens[-1:])

    def without(self, tokens: int) -> Sample:
        """Return this sample as it was before its last *tokens* tokens, at least one."""
        start = Start(self.prompt, self.ids, self.seed, self.known, self.turn)
        shorter = Sample(self.index, start, self.loaded, self._stops, self._ends)
        for token, logprob in zip(self.tokens[:-tokens], self.logprobs, strict=False):
            shorter.add(token, logprob)
        shorter.end("interrupted", 0.0)
        return shorter

    def start(self) -> SampleStarted:
        """Return the event that opens it."""
        role = "assistant" if self.turn is not None else ""
        return SampleStarted(self.index, self.prompt, self.seed, self.known, role)

    def add(
        self,
        token: int,
        logprob: float,
        entropy: float | None = None,
        candidates: int | None = None,
    ) -> Token:
        """Return the event of one token drawn, with the characters it completes."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        piece = ""
        if token not in self._ends:
            decoded = self._decoder.decode(self.loaded.tokenizer.token_bytes(token))
            piece = self._watch.add(decoded)
        self._pieces.append(piece)
        return Token(self.index, token, piece, logprob, entropy, candidates)

    def end(self, ending: Ending, seconds: float) -> SampleEnded:
        """Return the event that closes it, with what was held back and is part of it after all.

        *ending* says why, where it has not stopped by itself.
        """
        tail = "" if self._watch.found else self._watch.held + self._decoder.decode(b"", final=True)
        self._pieces.append(tail)
        self.ending = ending
        block_size = self.loaded.model.block_size
        context = len(self.ids) + len(self.tokens)
        return SampleEnded(
            index=self.index,
            text=self.text,
            tail=tail,
            tokens=len(self.tokens),
            seconds=seconds,
            seed=self.seed,
            context=context if block_size is None else min(context, block_size),
            block_size=block_size,
            ending="stop" if self.has_stopped else ending,
        )


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
    ) -> None:
        self.loaded = loaded
        self.settings = settings
        self.samples = samples
        self.recorders = recorders
        self.measure = measure
        self.began = time.time()
        """Seconds since 1970."""
        self._clock = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return time.perf_counter() - self._clock

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
        self._waiting[event.index].append(event)
        if isinstance(event, SampleEnded):
            self.ended.add(event.index)
        while queue := self._waiting[self._turn]:
            ready = queue.popleft()
            if isinstance(ready, SampleEnded):
                self._turn += 1
            yield ready


def row_of(
    loaded: Loaded,
    settings: Settings,
    sample: Sample,
    generators: Iterator[torch.Generator] | None = None,
) -> Row:
    """Return the row that draws *sample*: by the next of *generators*, or by its own seed."""
    import torch

    from .generate import Row, begin

    own = torch.Generator(loaded.device).manual_seed(sample.seed)
    generator = next(generators) if generators is not None else own
    greedy = any(chain.is_greedy(sampler) for _, sampler in settings.active)
    bound = chain.bind(settings.active, loaded.tokenizer, len(sample.ids))
    links = begin(bound, sample.seed, loaded.device)
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
    try:
        for sample in samples:
            yield from in_order.put(sample.start())
        plan = plan_of(loaded, settings, rows)
        length, known = settings.max_new_tokens, loaded.tokenizer.vocab_size
        for pick in picks(loaded.model, rows, length, known, plan, measure=generation.measure):
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
    for sample in samples:
        if sample.index not in in_order.ended:
            yield from in_order.put(sample.end(ending, time.perf_counter() - began))
    if plan is not None and plan.guessed:
        yield Notice(f"draft: {plan.kept} of {plan.guessed} guesses kept")
    if stopped is not None:
        raise stopped
