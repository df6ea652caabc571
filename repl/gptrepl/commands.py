"""One line in, events out: `:name value` is a command, everything else a prompt.

A command is a function of the session and typed arguments, or the name of a setting or a
sampler; those of the settings and samplers are written nowhere, they follow from the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from . import chain, plugins
from .api import Event, GptreplError, Notice, Text
from .arguments import Candidate, parse, signature_of, unquoted, usage_of
from .loading import known_sources
from .session import Session
from .settings import FIELDS, HINTS, known_names, proper
from .values import choices, describe, metavar, near, spelled

LINE = re.compile(r"(?P<name>[^\W\d_][\w-]*|[^\w\s]+)?(?P<sign>\s*=|\s?)(?P<rest>.*)", re.DOTALL)


OFFERS: dict[str, Callable[[], Iterable[str]]] = {
    "device": lambda: ("auto", "cpu", "cuda", "mps"),
    "model": known_sources,
    "tokenizer": lambda: ("auto", *plugins.installed("tokenizers")),
}
"""What Tab offers for settings whose annotation does not say it."""


class Command(Protocol):
    """What the shell knows of a colon command."""

    @property
    def name(self) -> str:
        """The name it is listed under, without the colon."""
        ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        ...

    @property
    def usage(self) -> str:
        """What can be typed: `:load [SOURCE]`."""
        ...

    @property
    def help(self) -> str:
        """What it does; the first line says it all."""
        ...

    def run(self, session: Session, text: str) -> Iterator[Event]:
        """Do it; *text* is what stood behind the name."""
        ...

    def complete(self, session: Session, text: str) -> Iterator[Candidate]:
        """Yield what the last word of *text* could become."""
        ...


@dataclass(frozen=True)
class FunctionCommand:
    """A command that is a function: its annotations parse, its docstring is the help."""

    name: str
    function: Callable[..., Iterator[Event]]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names, as `gptrepl.api.command` marked them."""
        return tuple(getattr(self.function, "aliases", ()))

    @property
    def usage(self) -> str:
        """Its name and its parameters in capitals; those with a default in brackets."""
        return f":{self.name}{usage_of(self.function)}"

    @property
    def help(self) -> str:
        """Its docstring."""
        return signature_of(self.function).help

    def run(self, session: Session, text: str) -> Iterator[Event]:
        """Parse *text* by the annotations and call the function."""
        arguments = parse(self.function, self.name, text)
        yield from self.function(session, *arguments) or ()

    def complete(self, session: Session, text: str) -> Iterator[Candidate]:
        """Yield what the parameter under the last word allows."""
        yield from signature_of(self.function).complete(session, text)


@dataclass(frozen=True)
class SettingCommand:
    """The command of a setting or sampler: alone it shows the value, with one it sets it."""

    name: str

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names, from the field or the sampler's class."""
        return FIELDS[self.name].aliases if self.name in FIELDS else chain.aliases(self.name)

    @property
    def usage(self) -> str:
        """Its name and the fields it takes."""
        if self.name in FIELDS:
            return f":{self.name} [{metavar(HINTS[self.name], FIELDS[self.name])}]"
        return f":{self.name} [{chain.usage_of(self.name)}]"

    @property
    def help(self) -> str:
        """What the field or the sampler says about itself, and the values it takes."""
        if self.name in FIELDS:
            limits = FIELDS[self.name]
            text = limits.help[0].upper() + limits.help[1:] + "."
            return f"{text}\n\nIt takes {describe(HINTS[self.name], limits)}."
        return chain.help_of(self.name)

    def run(self, session: Session, text: str) -> Iterator[Event]:
        """Show the value, or set it and say what it is now."""
        if not text.strip():
            origin = session.settings.origin(self.name)
            yield Notice(f"{self.name} {session.settings.value(self.name)} ({origin})")
            return
        yield from session.apply(session.settings.but("typed", **{self.name: self._read(text)}))
        yield Notice(f"{self.name} {session.settings.value(self.name)}")

    def _read(self, text: str) -> Any:
        if self.name not in FIELDS:
            return chain.read(self.name, text)
        return unquoted(text if HINTS[self.name] is Text else text.strip())

    def complete(self, session: Session, text: str) -> Iterator[Candidate]:  # noqa: ARG002
        """Yield the words that the value can be."""
        word = text.rpartition(" ")[2]
        if self.name in FIELDS:
            words = OFFERS.get(self.name, lambda: choices(HINTS[self.name]))()
            offered = dict.fromkeys(words, "")
        else:
            offered = chain.offers(self.name, is_first=word == text)
        for choice, help in offered.items():
            if choice.startswith(word):
                yield Candidate(choice, len(word), help)


# --- the registry -------------------------------------------------------------------------------


def known() -> dict[str, Command]:
    """Return every command by its name, sorted. Those that do not load are left out."""
    found: dict[str, Command] = {name: SettingCommand(name) for name in known_names()}
    for name in plugins.installed("commands"):
        try:
            found[name] = FunctionCommand(name, plugins.load("commands", name))
        except GptreplError:
            continue
    return dict(sorted(found.items()))


def find(name: str) -> Command:
    """Return the command that *name* means: `:TEMP`, `:top-k` and `:topk` are names.

    Raises GptreplError with the nearest name if there is none.
    """
    entries = plugins.installed("commands")
    for own in entries:
        if spelled(own) == spelled(name):
            return FunctionCommand(own, plugins.load("commands", own))
    for own, entry in entries.items():
        if plugins.is_own(entry):
            function = FunctionCommand(own, plugins.load("commands", own))
            if spelled(name) in map(spelled, function.aliases):
                return function
    try:
        return SettingCommand(proper(name))
    except GptreplError:
        pass
    for command in known().values():
        if spelled(name) in map(spelled, command.aliases):
            return command
    raise GptreplError(f"no command :{name}{suggestion(name)}")


def suggestion(name: str) -> str:
    """Return what to type instead of an unknown command."""
    if not name[:1].isalpha():
        return "; a prompt that begins with a colon is written with two"
    aliases = [alias for command in known().values() for alias in command.aliases]
    return near(name.lower(), [*aliases, *known()], ":") or ", see :help"


# --- a line -------------------------------------------------------------------------------------


def evaluate(session: Session, line: str) -> Generator[Event]:
    """Yield the events of one line.

    An empty line does nothing. A colon in column one begins a command, two begin a prompt with
    a colon, a space begins a prompt; a prompt is never stripped. What was pasted as several
    lines is a prompt, whatever it begins with.
    """
    if not line:
        return
    if "\n" in line:
        yield from session.stream(line)
        return
    if line.startswith("::") or not line.startswith(":"):
        yield from session.stream(line.removeprefix(":"))
        return
    name, text = split(line)
    if not name.startswith("#"):
        yield from find(name).run(session, text)


def split(line: str) -> tuple[str, str]:
    """Return the name and the rest of a command line; `:temp 0.7` and `:temp=0.7` are one."""
    found = LINE.match(line[1:])
    assert found is not None
    return found["name"] or "", found["rest"]


def candidates(session: Session, line: str) -> Iterator[Candidate]:
    """Yield what could stand at the end of *line*: command names, then their values."""
    if not line.startswith(":") or line.startswith("::"):
        return
    if re.fullmatch(r":[\w-]*", line):
        for name, command in known().items():
            for spelling in (name, *command.aliases):
                if spelling.startswith(line[1:].lower()):
                    yield Candidate(spelling, len(line) - 1, first_line(command.help))
        return
    name, text = split(line)
    try:
        command = find(name)
    except GptreplError:
        return
    yield from command.complete(session, text)


def first_line(help: str) -> str:
    """Return the first paragraph of a help text on one line."""
    return " ".join(help.partition("\n\n")[0].split())


def drive(events: Generator[Event], show: Callable[[Event], None]) -> None:
    """Show every event as it comes.

    An interrupt that arrives while one is shown is handed to the events, so that the work in
    hand can end itself; it is raised again when all is shown.
    """
    send: Callable[[], Event] = lambda: next(events)  # noqa: E731
    while True:
        try:
            event = send()
        except StopIteration:
            return
        send = lambda: next(events)  # noqa: E731
        try:
            show(event)
        except KeyboardInterrupt as interrupt:
            send = lambda stop=interrupt: events.throw(stop)  # type: ignore[misc]  # noqa: E731
