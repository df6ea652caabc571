"""A live session becomes a script that gives the same text again.

What is written is what took effect: before each generation the settings that changed since the
last one, under every sampler and setting's own name, with the seed that was drawn; then the
prompt. Failed commands, loops, profiles and variables leave nothing but what they came to.
"""

from __future__ import annotations

import itertools
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from . import __version__
from .api import GptreplError, Notice
from .generation import Generation
from .loading import Loaded
from .samples import Sample
from .settings import FIELDS, NEVER_SAVED, Settings
from .stops import written as written_stops
from .values import quoted

PLAIN = re.compile(r"[\w./~+-]+")
NO_LINE = "no line of a script draws samples from one stream"
OWN_LINES = ("model", "num_samples", "max_new_tokens", "seed", "start", "mode")
"""The settings that are written as the generation needs them."""


class Recording:
    """The script of one session, written while the session goes on."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: TextIO = path.open("x", encoding="utf-8", newline="\n")
        except FileExistsError:
            raise GptreplError(f"{path} is there already: record to another file") from None
        except OSError as error:
            raise GptreplError(f"cannot record to {path}: {error.strerror}") from None
        self.path = path
        self._loaded: Loaded | None = None
        self._hash_due = False
        self._state: dict[str, Any] = {}
        self._trouble = ""

    def started(self, generation: Generation) -> None:
        """Nothing is written before it is known how the samples end."""

    def drawn(self, generation: Generation) -> None:
        """Nothing is written token by token."""

    def ended(self, generation: Generation) -> None:
        """Write the lines that give the samples again."""
        if any(sample.stream is not None for sample in generation.samples):
            self._trouble = f"it is not recorded to {self.path}: {NO_LINE}"
            self._write([f":# samples are missing here: {NO_LINE}"])
            return
        generation.loaded.fingerprint.begin()
        lines = [*self._model(generation), *self._changes(generation.settings)]
        for group in grouped(generation.samples):
            cut = cut_at(group[0])
            length = generation.settings.max_new_tokens if cut is None else cut
            lines += self._needed(length, group[0].seed, len(group))
            lines.append(line_of(group[0], generation.loaded))
        self._write(lines)

    def said(self) -> Iterator[Notice]:
        """Yield why nothing is recorded any more, once."""
        trouble, self._trouble = self._trouble, ""
        if trouble:
            yield Notice(trouble, True)

    def close(self) -> None:
        """Write what was not known before, and end the file."""
        if not self._file.closed:
            self._write(self._hash(wait=True))
            self._file.close()

    def _model(self, generation: Generation) -> Iterator[str]:
        """Yield the lines that load another model, and the hash of the one before."""
        loaded, settings = generation.loaded, generation.settings
        if loaded is self._loaded:
            yield from self._hash(wait=False)
            return
        yield from self._hash(wait=True)
        self._loaded, self._hash_due = loaded, True
        yield f":# {environment(loaded)}"
        source, tokenizer = place(loaded.source), tokenizer_of(settings)
        if tokenizer == "auto" or " " in tokenizer:
            yield f":load {word(source)}"
            before = Settings().but(model=settings.model)
        else:  # a checkpoint may not load without it
            yield f":load {source} {tokenizer}"
            before = Settings().but(model=settings.model, tokenizer=settings.tokenizer)
        yield ":defaults"
        self._state = {name: before.data(name) for name in [*FIELDS, *before.samplers]}

    def _hash(self, *, wait: bool) -> Iterator[str]:
        """Yield the line that holds the replay to the same weights, once their hash is known."""
        if self._loaded is None or not self._hash_due:
            return
        fingerprint = self._loaded.fingerprint
        if wait or fingerprint.is_done:
            self._hash_due = False
            value = fingerprint.value()
            if value:
                yield f":expect model {value}"

    def _changes(self, settings: Settings) -> Iterator[str]:
        """Yield a line for each setting that is not what the script has made it so far."""
        for name in dict.fromkeys([*FIELDS, *self._state, *settings.samplers]):
            value = settings.data(name)
            if name in (*OWN_LINES, *NEVER_SAVED):
                continue
            if value != self._state.get(name, Settings().data(name)):
                self._state[name] = value
                yield f":{name} {typed(name, value)}"

    def _needed(self, tokens: int, seed: int, samples: int) -> Iterator[str]:
        """Yield the lines for the length, the seed and the number of the samples to come."""
        for name, value in (("max_new_tokens", tokens), ("seed", seed), ("num_samples", samples)):
            if self._state[name] != value:
                self._state[name] = value
                yield f":{name} {value}"

    def _write(self, lines: Iterable[str]) -> None:
        if self._file.closed:
            return
        try:
            self._file.writelines(f"{line}\n" for line in lines)
            self._file.flush()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._trouble = f"nothing is recorded any more to {self.path}: {reason}"
            try:
                self._file.close()
            except OSError:  # it cannot write what it holds
                return


def grouped(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Yield the samples that one line draws again, together."""
    begun = (sample for sample in samples if sample.tokens or sample.ending is not None)
    groups = itertools.groupby(
        begun,
        lambda one: (one.prompt, tuple(one.ids), one.seed - one.index, cut_at(one)),
    )
    for _, group in groups:
        yield list(group)


def cut_at(sample: Sample) -> int | None:
    """Return the length at which a sample was cut short; None where it ended by itself."""
    return None if sample.ending in ("length", "stop") else len(sample.tokens)


def line_of(sample: Sample, loaded: Loaded) -> str:
    """Return the line that samples from the prompt of *sample*, and from the same ids."""
    prompt = sample.prompt
    if loaded.encode(prompt) != list(sample.ids):
        ids = " ".join(map(str, sample.ids))
        return f":ids {ids} as {quoted(prompt)}"
    is_plain = prompt == prompt.strip("\ufeff") and not prompt.startswith(":")
    if is_plain and not re.search(r"[\r\n]", prompt):
        return prompt
    return f":prompt {quoted(prompt)}"


def typed(name: str, value: Any) -> str:
    """Return *value* exactly, as it is typed behind the command of setting or sampler *name*."""
    match value:
        case bool():
            return "on" if value else "off"
        case dict():
            return " ".join(f"{field}={word(typed(field, one))}" for field, one in value.items())
        case str() if name in FIELDS:
            return word(value)
        case list() if name == "stop":
            return written_stops(value)
        case list():
            return " ".join(map(str, value)) or "default"
        case float():
            return repr(value)
        case _:
            return str(value)


def word(text: str) -> str:
    """Return *text* as one word of a command line."""
    return text if PLAIN.fullmatch(text) else quoted(text)


def place(source: str) -> str:
    """Return a path that holds wherever the script is run, and a name as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def tokenizer_of(settings: Settings) -> str:
    """Return the tokenizer that was chosen, a file by a path that holds everywhere."""
    name, sign, path = settings.tokenizer.partition(":")
    return f"{name}{sign}{place(path)}" if sign else name


def environment(loaded: Loaded) -> str:
    """Return in a line what the text may depend on besides the settings."""
    import torch

    return (
        f"gptrepl {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{loaded.device} {loaded.dtype}"
    )
