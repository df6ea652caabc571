"""One line in, events out: `:name value` is a command, everything else a prompt.

A command is a function of the session and typed arguments, or the name of a setting or a
sampler; those of the settings and samplers are written nowhere, they follow from the fields.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from inspect import GEN_CLOSED, getgeneratorstate

from . import chain, plugins
from .api import Event, Failure, GptreplError
from .arguments import Candidate
from .command import Command, FunctionCommand, SettingCommand, first_line
from .document import Line
from .report import failure
from .scripting import located
from .session import Session
from .settings import FIELDS, known_names, proper
from .turns import answer
from .values import near, spelled

LINE = re.compile(r"(?P<name>[^\W\d_][\w-]*|[^\w\s]+)?(?P<sign>\s*=|\s?)(?P<rest>.*)", re.DOTALL)
BLOCK_END = ":end"


# --- the registry -------------------------------------------------------------------------------


def known() -> dict[str, Command]:
    """Return every command by its name, sorted. Those that do not load are left out."""
    broken = set(plugins.installed("samplers")) - set(chain.loading())
    names = [name for name in known_names() if name in FIELDS or name not in broken]
    found: dict[str, Command] = dict(functions(own=False))
    found |= {name: SettingCommand(name) for name in names}
    found |= functions(own=True)
    return dict(sorted(found.items()))


def functions(*, own: bool) -> Iterator[tuple[str, FunctionCommand]]:
    """Yield the commands that are functions and load: our *own* ones, or those of others."""
    for name, entry in plugins.installed("commands").items():
        if plugins.is_own(entry) == own and not plugins.outcome("commands", name).fault:
            yield name, FunctionCommand(name, plugins.load("commands", name))


def find(name: str) -> Command:
    """Return the command that *name* means: `:TEMP`, `:top-k` and `:topk` are names.

    Ours come first, then settings and samplers, then the commands of others. Raises GptreplError
    with the nearest name if there is none.
    """
    entries = plugins.installed("commands")
    named = [own for own in entries if spelled(own) == spelled(name)]
    if named and plugins.is_own(entries[named[0]]):  # the usual case: no other is imported
        return FunctionCommand(named[0], plugins.load("commands", named[0]))
    found = called(name, dict(functions(own=True)))
    if found is not None:
        return found
    try:
        return SettingCommand(proper(name))
    except GptreplError:
        pass
    found = called(name, dict(functions(own=False)))
    if found is not None:
        return found
    for broken in named:
        plugins.load("commands", broken)  # raises: it says what is wrong with it
    raise GptreplError(f"no command :{name}{suggestion(name)}")


def called(name: str, commands: Mapping[str, Command]) -> Command | None:
    """Return the one of *commands* that *name* means: the names go before the other names."""
    for own, command in commands.items():
        if spelled(own) == spelled(name):
            return command
    for command in commands.values():
        if spelled(name) in map(spelled, command.aliases):
            return command
    return None


def suggestion(name: str) -> str:
    """Return what to type instead of an unknown command."""
    if not name[:1].isalpha():
        return "; a prompt that begins with a colon is written with two"
    aliases = [alias for command in known().values() for alias in command.aliases]
    return near(name.lower(), [*aliases, *known()], ":") or ", see :help"


# --- a line -------------------------------------------------------------------------------------


def evaluate(session: Session, line: str, where: str = "") -> Generator[Event]:
    """Yield the events of one line; *where* is its place in a file, for errors.

    An empty line does nothing. A colon in column one begins a command, two begin a prompt with
    a colon, a space begins a prompt; a prompt is never stripped. What was pasted as several
    lines is a prompt, whatever it begins with, and so are the lines between :multi and :end.
    The lines of a loop run when its :end has come, each as if it were typed then. What the
    session has to do at its start comes before its first line, which may be an empty one.
    """
    yield from begin(session)
    is_text = session.block is not None
    try:
        for text, place in session.scope.take(line, where, is_text=is_text):
            try:
                yield from run(session, text)
            except EOFError:
                raise
            except Exception as error:
                yield failed(session, error, place)
    except GptreplError as error:
        yield failed(session, error, where)


def begin(session: Session) -> Generator[Event]:
    """Yield the events of what a session has to say and to run before its first line."""
    startup, session.startup = session.startup, []
    for step in startup:
        if not isinstance(step, Line):
            yield step
    yield from obey(session, [step for step in startup if isinstance(step, Line)])


def obey(session: Session, lines: Iterable[Line]) -> Generator[Event]:
    """Yield the events of lines that stand in files; what each names is relative to its file."""
    for file, group in itertools.groupby(lines, lambda line: line.file):
        with ExitStack() as stack:
            if file is not None and not session.scope.is_reading(file):
                stack.enter_context(session.scope.reading(file))
            for text, where in group:
                yield from evaluate(session, text, where)
            finish(session)


def failed(session: Session, error: Exception, where: str) -> Failure:
    """Return what is shown of *error* where the next line runs all the same; else raise it."""
    if not isinstance(error, GptreplError):
        own = GptreplError(failure(error))
        own.__cause__ = error
        error = own
    error = located(error, where)
    if not session.scope.keeps_going:
        raise error
    return Failure(failure(error), True, error.status)


def run(session: Session, line: str) -> Generator[Event]:
    """Yield the events of one line, which is taken as it stands."""
    if session.block is not None:
        yield from collect(session, line)
        return
    if not line:
        return
    if "\n" in line:
        yield from answer(session, line)
        return
    if line.startswith("::") or not line.startswith(":"):
        yield from answer(session, line.removeprefix(":"))
        return
    name, text = split(line)
    if not name.startswith("#"):
        yield from find(name).run(session, text)


def collect(session: Session, line: str) -> Generator[Event]:
    """Add *line* to the block that is open, or sample from the block where :end closes it."""
    assert session.block is not None
    if line.rstrip() != BLOCK_END:
        session.block.append(line)
        return
    text, session.block = "\n".join(session.block), None
    yield from answer(session, text)


def finish(session: Session) -> None:
    """Raise GptreplError if a block or a loop is open where the lines end; it is dropped."""
    block, session.block = session.block, None
    session.scope.close()
    if block is not None:
        raise GptreplError(":multi has no :end")


def split(line: str) -> tuple[str, str]:
    """Return the name and the rest of a command line; `:temp 0.7` and `:temp=0.7` are one."""
    found = LINE.match(line[1:])
    assert found is not None
    return found["name"] or "", found["rest"]


def candidates(session: Session, line: str) -> Iterator[Candidate]:
    """Yield what could stand at the end of *line*: command names, then their values."""
    if not line.startswith(":") or line.startswith("::"):
        return
    line = re.sub(r":set\s+(?=\S+[ =])", ":", line, count=1)  # from there on it is :NAME VALUE
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


def drive(events: Generator[Event], show: Callable[[Event], None]) -> None:
    """Show every event as it comes.

    An interrupt that arrives while one is shown is handed to the events, so that the work in
    hand can end itself; it is raised again when all is shown.
    """
    stop: KeyboardInterrupt | None = None
    while True:
        try:
            event = next(events) if stop is None else events.throw(stop)
            stop = None
            show(event)
        except StopIteration:
            return
        except KeyboardInterrupt as interrupt:
            if getgeneratorstate(events) == GEN_CLOSED:
                raise
            stop = interrupt
