"""The command line: the first word picks a subcommand, anything else starts the shell.

A source that is called like a subcommand is written with a slash: `gptrepl ./sample`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from .. import __version__

SUBCOMMANDS = {"sample": "what sample.py of nanoGPT does, with all its options"}
"""Each is a module of this package with a function `command` that returns a click command."""


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

    name, words = "shell", list(argv)
    if words and words[0] in SUBCOMMANDS:
        name = words.pop(0)
    title = "gptrepl" if name == "shell" else f"gptrepl {name}"
    command: click.Command = import_module(f".{name}", __name__).command()
    try:
        with command.make_context(title, words) as context:
            return int(command.invoke(context) or 0)
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
