"""From a source to a model in memory: the first loader that accepts the source loads it.

A load runs on a thread of its own, so that the prompt is there at once and Ctrl-C works; only
its result ever reaches a session, so a load that fails or is given up leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from . import plugins
from .api import (
    GptreplError,
    Loader,
    LoadError,
    LoadOptions,
    Model,
    Notice,
    Progress,
    Tokenizer,
)
from .contract import no_model, no_tokenizer
from .devices import resolve
from .fingerprint import Fingerprint, identify
from .preload import preload
from .settings import Settings

BUNDLED = "shakespeare"
WAYS = {"quantize": "off", "activation": "auto", "device_map": "off"}
"""The settings of how a model is held that its loader may not know, and what each is if unset."""
TICK = 0.1
"""Seconds between two reports of progress."""


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer, and all that was decided about them."""

    source: str
    loader: Loader
    model: Model
    tokenizer: Tokenizer
    device: str
    dtype: str
    notes: tuple[str, ...] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    """The hash of the weights, where the loader tells their files."""
    ways: list[Any] = field(default_factory=list)
    """What drafting has learned of it; no text depends on that."""

    @property
    def title(self) -> str:
        """The source, and how far the model was trained where that is known."""
        known = getattr(self.model, "about", "")
        return f"{self.source}: {known}" if known else self.source

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text* from its beginning: those before every text stand there once."""
        ids = self.tokenizer.encode(text)
        start = list(getattr(self.tokenizer, "start", ()))
        return ids if ids[: len(start)] == start else [*start, *ids]


class Loading:
    """A load under way. It begins at once; `wait` reports its progress, `result` ends it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source = source_of(settings)
        self._step = Progress(f"loading {self.source}", 0)
        self._loaded: Loaded | None = None
        self._error: BaseException | None = None
        self._notes: list[str] = []
        self._said = 0
        self._thread = Thread(target=self._run, name=f"load {self.source}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        preload()
        try:
            self._loaded = open_source(self.settings, self._report, self._notes)
        except BaseException as error:  # handed to whoever asks for the result
            self._error = error

    def _report(self, what: str, done: int, total: int | None) -> None:
        self._step = Progress(what, done, total)

    @property
    def alive(self) -> bool:
        """Whether it still goes on."""
        return self._thread.is_alive()

    @property
    def loaded(self) -> Loaded | None:
        """What was loaded; None while it goes on, and if it failed."""
        return self._loaded

    def notices(self) -> Iterator[Notice]:
        """Yield what was noted since the last call."""
        while self._said < len(self._notes):
            self._said += 1
            yield Notice(self._notes[self._said - 1])

    def wait(self) -> Iterator[Progress | Notice]:
        """Yield progress and notes until the load is over; the last progress says so."""
        began = time.monotonic()
        while self.alive:
            self._thread.join(TICK)
            if self.alive:
                yield from self.notices()
            if self.alive and time.monotonic() - began > 2 * TICK:
                yield self._step
        yield Progress(self._step.what, 1, 1)

    def result(self) -> Loaded:
        """Return what was loaded, or raise what went wrong, as a LoadError where users can act."""
        self._thread.join()
        if isinstance(self._error, GptreplError) or self._loaded is None:
            raise LoadError(str(self._error)) from None
        return self._loaded


def source_of(settings: Settings) -> str:
    """Return the source to load: `out` if none was named and it holds a checkpoint."""
    return settings.model or ("out" if Path("out", "ckpt.pt").is_file() else BUNDLED)


def open_source(
    settings: Settings, progress: Callable[[str, int, int | None], None], notes: list[str]
) -> Loaded:
    """Load what *settings* name; raise LoadError with the one line the user needs.

    What the user should know is put into *notes* as soon as it is known.
    """
    source = source_of(settings)
    tokenizer = open_tokenizer(settings.tokenizer)
    lenient = settings.origin("device").startswith("profile")
    device, dtype = resolve(settings.device, settings.dtype, notes.append, lenient=lenient)
    name, loader = find_loader(source, notes)
    files = identify(weight_files(loader, source))
    options = LoadOptions(
        device=device,
        dtype=dtype,
        activation=settings.activation,
        quantize=settings.quantize,
        compile=settings.compile,
        tokenizer=tokenizer,
        device_map=settings.device_map,
        trust_remote_code=settings.trust_remote_code,
        note=notes.append,
        progress=progress,
    )
    try:
        model, tokenizer = loader.load(source, options)
        misfit = no_model(model) or no_tokenizer(tokenizer)
        if misfit:
            raise plugins.blame("models", name, misfit)
    except GptreplError:
        raise
    except MemoryError:
        raise LoadError(f"{source!r} does not fit into memory") from None
    except OSError as error:
        raise LoadError(f"cannot read {source!r}: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if not plugins.is_own(plugins.installed("models")[name]):
            reason = str(plugins.blame("models", name, plugins.reason(error)))
        raise LoadError(f"cannot load {source!r}: {reason}") from error
    notes += without_effect(settings, model, name)
    check_vocabulary(model, tokenizer, notes)
    print_ = Fingerprint(files or identify(weight_files(loader, source)))  # now it is downloaded
    return Loaded(source, loader, model, tokenizer, device, dtype, tuple(notes), print_)


def without_effect(settings: Settings, model: Model, name: str) -> Iterator[str]:
    """Yield a line for each way to hold a model that the loader called *name* does not know."""
    for way, unset in WAYS.items():
        asked = getattr(settings, way)
        if asked not in (unset, getattr(model, way, unset)):
            yield f"{way} {asked} has no effect on the models of {name}"
    if settings.compile and not hasattr(model, "compiled"):
        yield f"compile has no effect on the models of {name}"


def weight_files(loader: Loader, source: str) -> list[Path]:
    """Return the files that the weights of *source* are read from, as far as the loader tells."""
    tell = getattr(loader, "files", None)
    try:
        return list(tell(source)) if tell is not None else []
    except Exception:  # it is no reason not to load
        return []


def find_loader(source: str, notes: list[str]) -> tuple[str, Loader]:
    """Return the first installed loader that accepts *source*, and its name; ours are first."""
    entries = plugins.installed("models")
    for name in sorted(entries, key=lambda name: not plugins.is_own(entries[name])):
        try:
            with plugins.guarded("models", name):
                loader: Loader = plugins.load("models", name)
                accepted = loader.accepts(source)
        except GptreplError as error:  # one broken loader must not stand before the others
            notes.append(str(error))
            continue
        if accepted:
            return name, loader
    raise LoadError(
        f"nothing here can load {source!r}: it is neither a file or folder that exists "
        f"nor one of {', '.join(known_sources())}"
    )


def known_sources() -> list[str]:
    """Return the names that the installed loaders know, sorted."""
    names: set[str] = set()
    for name in plugins.installed("models"):
        with contextlib.suppress(GptreplError), plugins.guarded("models", name):
            names.update(map(str, plugins.load("models", name).sources()))
    return sorted(names)


def open_tokenizer(setting: str) -> Tokenizer | None:
    """Return the tokenizer that `auto`, `NAME` or `NAME:PATH` names; None for auto."""
    if setting == "auto":
        return None
    name, _, path = setting.partition(":")
    made = plugins.load("tokenizers", name)
    with plugins.guarded("tokenizers", name):
        tokenizer: Tokenizer = made(path)
    misfit = no_tokenizer(tokenizer)
    if misfit:
        raise plugins.blame("tokenizers", name, misfit)
    return tokenizer


def check_vocabulary(model: Model, tokenizer: Tokenizer, notes: list[str]) -> None:
    """Refuse a tokenizer that knows ids the model lacks; note the ids that only the model has."""
    if tokenizer.vocab_size > model.vocab_size:
        raise LoadError(
            f"the tokenizer has {tokenizer.vocab_size} tokens but the model only "
            f"{model.vocab_size}: choose the one it was trained with by :tokenizer"
        )
    if tokenizer.vocab_size < model.vocab_size:
        notes.append(
            f"the model has {model.vocab_size} ids, its tokenizer knows {tokenizer.vocab_size}: "
            "the others are never drawn"
        )
