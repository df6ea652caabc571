"""The command line: argv becomes settings, and a front end runs the session.

Settings and samplers are options by their own names, so a new sampler has its option at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from . import __version__

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
EPILOG = """
With a terminal on both ends it is a shell. Otherwise lines are read from standard input and run
as if typed: samples go to stdout, everything else to stderr. Exit status: 0 all went well, 1 a
command failed, 2 wrong arguments, 3 no model could be loaded, 130 interrupted.
"""


def main() -> None:
    """Run the command `gptrepl` and exit with its status."""
    leave(run(sys.argv[1:]))


def leave(status: int) -> NoReturn:
    """Exit; where a thread still loads a model, at once.

    A library that is being imported or computes on a thread does not survive the end of Python.
    """
    if any(thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads it
                stream.flush()
        os._exit(status)
    sys.exit(status)


def run(argv: Sequence[str]) -> int:
    """Run the command line *argv* and return the exit status."""
    if list(argv) == ["--version"]:  # nothing is imported for it
        sys.stdout.write(f"gptrepl {__version__}\n")
        return 0
    import click

    command = shell_command()
    try:
        with command.make_context("gptrepl", list(argv)) as context:
            return int(command.invoke(context))
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the samples has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def shell_command() -> Any:
    """Return the click command of the shell, with an option for each setting and sampler."""
    import click

    from .chain import help_of
    from .plugins import installed
    from .settings import FIELDS

    parameters: list[click.Parameter] = [
        click.Argument(["source"], required=False, default=""),
        click.Option(["--profile"], multiple=True, metavar="NAME", help="switch to it; later wins"),
        click.Option(["--script"], metavar="FILE", help="run the lines of FILE"),
        click.Option(["-c", "lines"], multiple=True, metavar="LINE", help="run LINE; may repeat"),
        click.Option(["--keep-going"], is_flag=True, help="go on after a line that fails"),
        click.Option(["--version"], is_flag=True, help="show the version and exit"),
    ]
    for name, limits in FIELDS.items():
        if name != "model":
            parameters.append(option(name, limits.help))
    parameters += [option(name, help_of(name).partition("\n")[0]) for name in installed("samplers")]
    return click.Command(
        "gptrepl",
        callback=shell,
        params=parameters,
        help="Sample from the GPT model of SOURCE: a folder, a checkpoint file or a name.",
        epilog=EPILOG,
        context_settings=CONTEXT,
    )


def option(name: str, help: str) -> Any:
    """Return the option of a setting or sampler; `-` and `_` are the same in it."""
    import click

    spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
    return click.Option([name, *spellings], metavar="VALUE", help=help)


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
    import click

    from .api import GptreplError, LoadError
    from .session import Session

    if version:
        click.echo(f"gptrepl {__version__}")
        return 0
    try:
        session = Session(settings_of(source, profile, values))
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    if not script and not lines and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        from . import terminal

        status: int = terminal.run(session)
        return status
    from .script import NO_MODEL, Script, stdio

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
    return front.run(found, name, keep_going=keep_going)


def settings_of(source: str, profiles: Sequence[str], values: dict[str, str | None]) -> Any:
    """Return the settings that the command line asks for."""
    from . import chain
    from .profiles import read
    from .settings import FIELDS, Settings

    settings = Settings()
    for name in profiles:
        found = read(name)
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
    import click

    from .script import read

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
