"""The shell's command line: argv becomes settings, and a front end runs the session.

Settings and samplers are options by their own names, so a new sampler has its option at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from .. import __version__, chain, configuration
from ..api import Event, GptreplError, LoadError, Notice
from ..jsonlines import JsonScript
from ..log import Log
from ..offers import sampler_help
from ..plugins import installed
from ..recording import Recording
from ..script import NO_MODEL, Script, stdio
from ..scripting import located, read
from ..session import Session
from ..settings import FIELDS, HINTS
from . import DISABLE, SUBCOMMANDS

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
EPILOG = """
{subcommands}

With a terminal on both ends it is a shell. Otherwise lines are read from standard input and run
as if typed: samples go to stdout, everything else to stderr. Exit status: 0 all went well, 1 a
command failed, 2 wrong arguments, 3 no model could be loaded, 4 an expectation failed, 130
interrupted.

Later ones win: defaults, config.yaml, GPTREPL_ variables, profiles, options, what is typed.
"""


def command() -> click.Command:
    """Return the click command of the shell, with an option for each setting and sampler."""
    parameters: list[click.Parameter] = [
        click.Argument(["source"], required=False, default=""),
        click.Option(["--profile"], multiple=True, metavar="NAME", help="switch to it; later wins"),
        click.Option(["--script"], metavar="FILE", help="run the lines of FILE"),
        click.Option(["-c", "lines"], multiple=True, metavar="LINE", help="run LINE; may repeat"),
        click.Option(["--keep-going"], is_flag=True, help="go on after a line that fails"),
        click.Option(["--json", "as_json"], is_flag=True, help="write JSON lines to stdout"),
        click.Option(["--record"], metavar="FILE", help="write a script that gives it all again"),
        click.Option(["--version"], is_flag=True, help="show the version and exit"),
        # Taken off the command line before any option is made: see `disabled` in this package.
        click.Option(["--disable"], metavar="NAME", expose_value=False, help=DISABLE),
    ]
    for name, limits in FIELDS.items():
        if name != "model":
            parameters.append(option(name, limits.help))
    taken = {parameter.name for parameter in parameters}
    parameters += [SamplerOption(name) for name in installed("samplers") if name not in taken]
    others = [f"gptrepl {name} --help: {help}" for name, help in SUBCOMMANDS.items()]
    return click.Command(
        "gptrepl",
        callback=shell,
        params=parameters,
        help="Sample from the GPT model of SOURCE: a folder, a checkpoint file or a name.",
        epilog=EPILOG.format(subcommands="\n\n".join(others)),
        context_settings=CONTEXT,
    )


def option(name: str, help: str) -> click.Option:
    """Return the option of a setting; `-` and `_` are the same in it."""
    if HINTS.get(name) is bool:
        both = [f"{spelling}/--no{spelling[1:]}" for spelling in spellings(name)]
        return click.Option([name, *both], default=None, help=help)
    return click.Option([name, *spellings(name)], metavar="VALUE", help=help)


def spellings(name: str) -> list[str]:
    """Return the ways in which an option can be written."""
    return list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))


class SamplerOption(click.Option):
    """The option of a sampler, which is not imported before its help is wanted."""

    def __init__(self, name: str) -> None:
        super().__init__([name, *spellings(name)], metavar="VALUE")

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return what the help shows of it."""
        self.help = sampler_help(self.name or "")
        return super().get_help_record(ctx)


def shell(
    source: str,
    profile: Sequence[str],
    script: str | None,
    lines: Sequence[str],
    keep_going: bool,
    as_json: bool,
    record: str | None,
    version: bool,
    **values: str | None,
) -> int:
    """Build the session, choose the front end and run it."""
    if version:
        click.echo(f"gptrepl {__version__}")
        return 0
    if script is not None and lines:
        raise click.UsageError("lines come from --script or from -c, not from both")
    talks = not (script or lines or as_json) and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    log = Log()
    keepers: list[Log | Recording] = [log]
    try:
        session = session_of(source, profile, values, lenient=talks)
        if record:
            keepers.append(Recording(Path(record).expanduser()))
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    session.recorders += keepers
    try:
        if not talks:
            return run_lines(session, source, script, lines, keep_going, as_json)
        from .. import terminal

        return int(terminal.run(session))
    finally:
        for keeper in keepers:
            keeper.close()


def run_lines(
    session: Session,
    source: str,
    script: str | None,
    lines: Sequence[str],
    keep_going: bool,
    as_json: bool,
) -> int:
    """Run the lines of a script or of standard input; return the exit status."""
    front = (JsonScript if as_json else Script)(session, *stdio())
    if source:  # named on the command line, so it has to be there whatever the lines say
        try:
            for event in session.ready():
                front.show(event)
        except LoadError as error:
            front.fail(located(error, "gptrepl"))
            return NO_MODEL
    found, name = inputs(script, lines)
    keep_going = keep_going or is_terminal(sys.stdin)
    path = Path(script).expanduser() if script and not lines else None
    return front.run(found, name, path=path, keep_going=keep_going)


def session_of(
    source: str, names: Sequence[str], values: dict[str, str | None], *, lenient: bool
) -> Session:
    """Return a session as the configuration, the profiles *names* and the command line want it.

    A *lenient* call leaves out a configuration that has a fault, and has it said.
    """
    warnings: list[Event] = []
    try:
        found = configuration.read(os.environ)
    except GptreplError as error:
        if not lenient:
            raise
        warnings.append(Notice(f"the configuration is left out: {error}", True))
        found = configuration.Configuration()
    settings, first = found.begin(names)
    changes: dict[str, Any] = {"model": source} if source else {}
    for name, value in values.items():
        if value is not None:
            changes[name] = value if name in FIELDS else chain.read(name, value)
    session = Session(settings.but("command line", **changes))
    session.startup = [*warnings, *(Notice(text, True) for text in found.warnings), *first]
    return session


def inputs(script: str | None, lines: Sequence[str]) -> tuple[Iterator[str], str]:
    """Return the lines to run and the name to call them by in errors."""
    if lines:
        return read(BytesIO("\n".join(lines).encode("utf-8", "surrogateescape"))), "-c"
    if script is None:
        stream = getattr(sys.stdin, "buffer", None)  # None: it was closed before we began
        return (read(stream) if stream else iter(())), "<stdin>"
    try:
        return read(BytesIO(Path(script).expanduser().read_bytes())), script
    except OSError as error:
        raise click.UsageError(f"cannot read the script {script!r}: {error.strerror}") from None


def is_terminal(stream: Any) -> bool:
    """Return whether *stream* is open and a terminal."""
    return stream is not None and not stream.closed and stream.isatty()
