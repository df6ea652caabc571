"""The shell's command line: argv becomes settings, and a front end runs the session.

Settings and samplers are options by their own names, so a new sampler has its option at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from .. import __version__, chain
from ..api import GptreplError, LoadError
from ..offers import sampler_help
from ..plugins import installed
from ..profiles import read as read_profile
from ..script import NO_MODEL, Script, stdio
from ..scripting import read
from ..session import Session
from ..settings import FIELDS, HINTS, Settings
from . import DISABLE, SUBCOMMANDS

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
EPILOG = """
{subcommands}

With a terminal on both ends it is a shell. Otherwise lines are read from standard input and run
as if typed: samples go to stdout, everything else to stderr. Exit status: 0 all went well, 1 a
command failed, 2 wrong arguments, 3 no model could be loaded, 130 interrupted.
"""


def command() -> click.Command:
    """Return the click command of the shell, with an option for each setting and sampler."""
    parameters: list[click.Parameter] = [
        click.Argument(["source"], required=False, default=""),
        click.Option(["--profile"], multiple=True, metavar="NAME", help="switch to it; later wins"),
        click.Option(["--script"], metavar="FILE", help="run the lines of FILE"),
        click.Option(["-c", "lines"], multiple=True, metavar="LINE", help="run LINE; may repeat"),
        click.Option(["--keep-going"], is_flag=True, help="go on after a line that fails"),
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
    version: bool,
    **values: str | None,
) -> int:
    """Build the settings, choose the front end and run it."""
    if version:
        click.echo(f"gptrepl {__version__}")
        return 0
    try:
        session = Session(settings_of(source, profile, values))
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    if not script and not lines and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        from .. import terminal

        status: int = terminal.run(session)
        return status
    front = Script(session, *stdio())
    if source:  # named on the command line, so it has to be there whatever the lines say
        try:
            for event in session.ready():
                front.show(event)
        except LoadError as error:
            front.say(f"gptrepl: {error}")
            return NO_MODEL
    found, name = inputs(script, lines)
    keep_going = keep_going or is_terminal(sys.stdin)
    path = Path(script).expanduser() if script and not lines else None
    return front.run(found, name, path=path, keep_going=keep_going)


def settings_of(source: str, profiles: Sequence[str], values: dict[str, str | None]) -> Settings:
    """Return the settings that the command line asks for."""
    settings = Settings()
    for name in profiles:
        found = read_profile(name)
        settings = settings.under(
            found.name, {**settings.layers.get("profile", {}), **found.changes}
        )
    changes: dict[str, Any] = {"model": source} if source else {}
    for name, value in values.items():
        if value is not None:
            changes[name] = value if name in FIELDS else chain.read(name, value)
    return settings.but("command line", **changes)


def inputs(script: str | None, lines: Sequence[str]) -> tuple[Iterator[str], str]:
    """Return the lines to run and the name to call them by in errors."""
    if lines:
        return (line for text in lines for line in text.split("\n")), "-c"
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
