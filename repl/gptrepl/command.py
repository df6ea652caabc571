"""What a colon command is: a function with typed arguments, or a setting or sampler by its name."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, get_origin

from . import chain, offers, plugins
from .api import Event, Notice, Text
from .arguments import Candidate, parse, signature_of, usage_of
from .session import Session
from .settings import FIELDS, HINTS
from .values import choices, describe, metavar, unquoted


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
    def verbs(self) -> dict[str, FunctionCommand]:
        """The commands that its first word can choose instead, by that word."""
        marked = getattr(self.function, "verbs", {}).items()
        return {verb: FunctionCommand(f"{self.name} {verb}", found) for verb, found in marked}

    @property
    def usage(self) -> str:
        """Its name and its parameters in capitals; those with a default in brackets."""
        return f":{self.name}{usage_of(self.function)}"

    @property
    def help(self) -> str:
        """Its docstring, and a line for each of its verbs."""
        lines = [f"{verb.usage}: {first_line(verb.help)}" for verb in self.verbs.values()]
        return "\n\n".join([signature_of(self.function).help, *lines])

    def run(self, session: Session, text: str) -> Iterator[Event]:
        """Parse *text* by the annotations and call the function."""
        word, _, rest = text.strip().partition(" ")
        if word in self.verbs:
            yield from self.verbs[word].run(session, rest)
            return
        arguments = parse(self.function, self.name, text)
        name = self.name.partition(" ")[0]
        entry = plugins.installed("commands").get(name)
        if entry is None or plugins.is_own(entry):
            yield from self.function(session, *arguments) or ()
        else:
            with plugins.guarded("commands", name):
                yield from supervised(name, self.function(session, *arguments) or ())

    def complete(self, session: Session, text: str) -> Iterator[Candidate]:
        """Yield what the parameter under the last word allows."""
        word, _, rest = text.lstrip().partition(" ")
        if word in self.verbs and text.lstrip() != word:
            yield from self.verbs[word].complete(session, rest)
            return
        yield from signature_of(self.function).complete(session, text)
        for verb, found in self.verbs.items() if not rest else ():
            if verb.startswith(word) and not verb.endswith("!"):
                yield Candidate(verb, len(word), first_line(found.help))


def supervised(name: str, events: Iterable[Event]) -> Generator[Event]:
    """Yield the *events* of a stranger's command; raise GptreplError for what is no event.

    An interrupt at one of them is handed on, so that the work in hand can end itself.
    """
    iterator = iter(events)
    step: Callable[[], Event] = lambda: next(iterator)  # noqa: E731
    while True:
        try:
            event = step()
        except StopIteration:
            return
        except EOFError as error:  # only ours may end the shell
            raise plugins.blame("commands", name, plugins.reason(error)) from error
        if not isinstance(event, Event):
            raise plugins.blame("commands", name, f"it yields {event!r:.60}, which is no event")
        step = lambda: next(iterator)  # noqa: E731
        try:
            yield event
        except KeyboardInterrupt as interrupt:
            if not isinstance(iterator, Generator):
                raise
            step = partial(iterator.throw, interrupt)


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
        if get_origin(HINTS[self.name]) is tuple:  # a list is read by its own rule
            return text.strip()
        return unquoted(text if HINTS[self.name] is Text else text.strip())

    def complete(self, session: Session, text: str) -> Iterator[Candidate]:  # noqa: ARG002
        """Yield the words that the value can be."""
        word = text.rpartition(" ")[2]
        if self.name in FIELDS:
            offer = offers.SETTINGS.get(self.name)
            offered = offer() if offer else dict.fromkeys(choices(HINTS[self.name]), "")
        else:
            offered = chain.offers(self.name, is_first=word == text)
        for choice, help in offered.items():
            if choice.startswith(word):
                yield Candidate(choice, len(word), help)


def first_line(help: str) -> str:
    """Return the first paragraph of a help text on one line."""
    return " ".join(help.partition("\n\n")[0].split())
