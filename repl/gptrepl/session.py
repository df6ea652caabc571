"""What stays in memory between two lines: a model, its tokenizer and the settings.

Text is a function of (model, settings, prompt): every sample owns a generator seeded with the
seed and its index, and nothing typed before can move it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from . import chain, starts, writing
from .api import Console, Event, GptreplError, Notice, Progress, Token
from .document import Line
from .generation import Generation, Recorder
from .loading import Loaded, Loading, source_of
from .prompts import start_of
from .remarks import remarks
from .samples import Sample, Start
from .scripting import Scope
from .settings import Settings, canonical

if TYPE_CHECKING:
    from .api import Model, Tokenizer

EARLIER = 100
"""How many turns can be taken back."""


class Session:
    """A loaded model and the settings it is sampled under.

    The model is loaded when it is first needed, or behind the prompt by `load_behind`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.samples: list[Sample] = []
        """The last samples, also where they were cut short."""
        self.earlier: list[list[Sample]] = []
        """The samples before them, the last ones last, for `:undo`."""
        self.drawing: Generation | None = None
        """What is being drawn at this moment."""
        self.block: list[str] | None = None
        """The lines of a prompt that goes on until `:end`; None: a line is a prompt."""
        self.console: Console | None = None
        """The terminal, where there is one, for commands that run other programs."""
        self.measure = False
        """Whether each token says what it was drawn from, for those who watch."""
        self.show_now: Callable[[Progress], None] | None = None
        """Shows how far work has come that yields nothing yet; None: nobody looks on."""
        self.scope = Scope()
        """The variables and loops of what is typed."""
        self.recorders: list[Recorder] = []
        """Whoever keeps what is drawn: the log, a script in the making."""
        self.startup: list[Event | Line] = []
        """What is said and run before the first line."""
        self.confirm: Callable[[str], bool] | None = None
        """Asks the user a question, where there is one to be asked; None: nobody is there."""
        self._loaded: Loaded | None = None
        self._loading: Loading | None = None
        self._said: set[str] = set()

    # --- the model ------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The source of the model in memory, or of the one to come."""
        return self._loaded.source if self._loaded else source_of(self.settings)

    @property
    def loaded(self) -> Loaded | None:
        """The model in memory with its tokenizer, device and dtype; None before the first load."""
        if self._loaded is None and self._loading is not None:
            return self._loading.loaded
        return self._loaded

    @property
    def is_loading(self) -> bool:
        """Whether a load goes on behind the prompt."""
        return self._loading is not None and self._loading.alive

    @property
    def load_failed(self) -> bool:
        """Whether the load behind the prompt is over without a model; the first prompt says why."""
        return self._loading is not None and not self._loading.alive and self.loaded is None

    @property
    def model(self) -> Model:
        """The model; it is loaded first if it is not in memory yet."""
        return self._ready().model

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; both are loaded first if they are not in memory yet."""
        return self._ready().tokenizer

    def _ready(self) -> Loaded:
        exhaust(self.ready())
        assert self._loaded is not None
        return self._loaded

    def load_behind(self) -> None:
        """Begin to load the model on a thread; the first prompt waits for it."""
        if self._loaded is None and self._loading is None:
            self._loading = Loading(self.settings)

    def ready(self) -> Iterator[Event]:
        """Wait until there is a model in memory, with progress; raise LoadError if none loads."""
        if self._loaded is not None:
            return
        if self._loading is None or self._loading.settings.model_key != self.settings.model_key:
            self._loading = Loading(self.settings)
        loading = self._loading
        yield from loading.wait()
        self._loading = None
        self._loaded = loading.result()
        yield from loading.notices()

    # --- the settings ---------------------------------------------------------------------------

    def apply(self, settings: Settings, *, reload: bool = False) -> Iterator[Event]:
        """Adopt *settings*, or raise GptreplError and stay exactly as before.

        The model is loaded anew if its source, tokenizer, device or dtype changed, or for
        *reload*. This is the only mutator; it has happened when the iterator is exhausted.
        """
        loaded = self._loaded
        notes: Iterator[Notice] = iter(())
        if reload or settings.model_key != self.settings.model_key:
            loading = Loading(settings)
            yield from loading.wait()
            loaded = loading.result()
            notes = loading.notices()
            self._loading = None
            self._said.clear()
        if loaded is not None:
            chain.bind(settings.active, loaded.tokenizer, 1)
        self.settings, self._loaded = settings, loaded
        yield from notes

    def beside(self, settings: Settings) -> Session:
        """Return another session under *settings*; it shares the model if that is the same."""
        other = Session(settings)
        if settings.model_key == self.settings.model_key:
            other._loaded = self._loaded
        other.show_now = self.show_now
        return other

    def set(self, **changes: Any) -> None:
        """Change settings and samplers by name, as in `set(temperature=0.7, top_k=40)`."""
        exhaust(self.apply(self.settings.but("typed", **changes)))

    # --- sampling -------------------------------------------------------------------------------

    def stream(
        self,
        prompt: str | Sequence[str] | None = None,
        n: int | None = None,
        *,
        one_stream: bool = False,
        **changes: Any,
    ) -> Generator[Event]:
        """Yield the events of *n* samples of *prompt*, one sample after the other.

        The default prompt is the setting `start`, the default n `num_samples`; several prompts
        give n samples each. *changes* hold for this call alone. Samples are decoded as one
        batch, of at most 32. An interrupt ends them with what they have, and is raised when all
        is said. With *one_stream* all samples are drawn one after the other from one stream of
        the seed, as sample.py draws them; by default each has a generator of its own seed.
        Raises GptreplError for an n below 1, and where there is no prompt.
        """
        settings = self.settings.but("typed", **changes) if changes else self.settings
        if settings.model_key != self.settings.model_key:
            raise GptreplError("a sample cannot change the model: use load, or set")
        count = settings.num_samples if n is None else settings.check("num_samples", n)
        yield from self.ready()
        loaded = self._ready()
        prompt = start_of(settings) if prompt is None else prompt
        prompts = [prompt] if isinstance(prompt, str) else prompt
        begun = starts.of(loaded, settings, prompts, count)
        if one_stream:
            begun = starts.in_one_stream(loaded, settings, begun)
        yield from self._sample(loaded, settings, begun)

    def resume(self, begun: Sequence[Start], **changes: Any) -> Generator[Event]:
        """Yield the events of one sample for each of *begun*, as `stream` does for prompts."""
        settings = self.settings.but("typed", **changes) if changes else self.settings
        yield from self.ready()
        yield from self._sample(self._ready(), settings, begun)

    def _sample(
        self, loaded: Loaded, settings: Settings, begun: Sequence[Start]
    ) -> Generator[Event]:
        samples = starts.samples(loaded, settings, begun)
        for text in remarks(loaded, settings, samples):
            yield from self.remark(text)
        self.take_up(samples)
        generation = Generation(
            loaded,
            settings,
            samples,
            self.recorders,
            measure=self.measure,
            show_now=self.show_now,
        )
        self.drawing = generation
        try:
            yield from generation.kept(writing.drawn(generation))
        finally:
            self.drawing = None

    def take_up(self, samples: list[Sample]) -> None:
        """Let *samples* be the last ones; those before them can be taken back."""
        if self.samples:
            self.earlier = [*self.earlier, self.samples][-EARLIER:]
        self.samples = samples

    def start(self, prompt: str) -> Start:
        """Return where a sample of *prompt* begins; the model has to be in memory."""
        loaded = self.loaded
        assert loaded is not None
        (start,) = starts.of(loaded, self.settings, [prompt], 1)
        return start

    def preview(self, start: Start, max_new_tokens: int) -> Iterator[str]:
        """Yield the pieces of text that would come after *start*; none of it is kept."""
        loaded = self.loaded
        assert loaded is not None
        settings = self.settings.but("typed", max_new_tokens=max_new_tokens)
        samples = starts.samples(loaded, settings, [start])
        for event in writing.drawn(Generation(loaded, settings, samples)):
            if isinstance(event, Token):
                yield event.text

    def remark(self, text: str) -> Iterator[Notice]:
        """Say *text*, once for each model."""
        if text not in self._said:
            self._said.add(text)
            yield Notice(text)

    @overload
    def generate(self, prompt: str | None = None, n: None = None, **changes: Any) -> str: ...
    @overload
    def generate(self, prompt: str | None, n: int, **changes: Any) -> list[str]: ...
    @overload
    def generate(self, prompt: Sequence[str], n: None = None, **changes: Any) -> list[str]: ...
    @overload
    def generate(self, prompt: Sequence[str], n: int, **changes: Any) -> list[list[str]]: ...
    def generate(
        self, prompt: str | Sequence[str] | None = None, n: int | None = None, **changes: Any
    ) -> str | list[str] | list[list[str]]:
        """Return the text that continues *prompt*, prompt included, as sample.py prints it.

        With *n*: a list of n texts, drawn with the seeds that follow each other. With several
        prompts: a list with one entry each. *changes* hold for this call alone:
        `generate("ROMEO:", n=3, temperature=0.5)`. Raises GptreplError as `stream` does, and for
        `num_samples`, which is n here.
        """
        if "num_samples" in canonical(changes):
            raise GptreplError("num_samples has no effect on generate: give n")
        exhaust(self.stream(prompt, 1 if n is None else n, **changes))
        texts = [sample.text for sample in self.samples]
        if prompt is None or isinstance(prompt, str):
            return texts if n else texts[0]
        return [texts[i : i + n] for i in range(0, len(texts), n)] if n else texts


def exhaust(events: Iterator[Event]) -> None:
    """Let *events* happen unseen."""
    for _ in events:
        pass


def load(source: str | PathLike[str] = "", **changes: Any) -> Session:
    """Return a session with the model of *source* in memory, under *changes* of the settings.

    *source* is what the shell takes: a folder, a checkpoint file or a name; none: `out/` if it
    holds a checkpoint, else the model that ships inside. Raises LoadError, a GptreplError.
    """
    name = str(source) if isinstance(source, PathLike) else source
    session = Session(Settings().but("command line", model=name, **changes))
    session._ready()
    return session
