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

SUBCOMMANDS = {
    "sample": "what sample.py of nanoGPT does, with all its options",
    "bench": "how fast a model is here, and how fast others are",
    "log": "find the receipts of what was generated, and keep them",
    "replay": "draw a receipt again and say whether the text is identical",
    "profile": "list, show and compare profiles, or check files of them",
    "plugins": "the plugins that are installed, and what is wrong with them",
    "plugin": "write a plugin of your own, or check one",
}
"""Each is a module of this package with a function `command` that returns a click command."""
FAILED = 1
"""The exit status where a command failed."""
DISABLE = "leave out the plugin NAME, or KIND:NAME; may repeat"
"""The option `--disable` of every command."""


def main() -> None:
    """Run the command `gptrepl` and exit with its status."""
    open_closed()
    leave(run(sys.argv[1:]))


def open_closed() -> None:
    """Open what was closed of the standard streams, so that no other file takes its number.

    Nothing can be read from them, what is written to stderr is lost, and stdout refuses it.
    """
    for number, name, flags in (
        (0, "stdin", os.O_RDONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, flags), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def leave(status: int) -> NoReturn:
    """Exit; where a thread still loads a model, at once.

    A library that is being imported or computes on a thread does not survive the end of Python.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # it takes no more, which Python would find out once more
            status = status or FAILED
            with contextlib.suppress(OSError, ValueError):
                silence(stream.fileno())
    if any(thread.daemon for thread in threading.enumerate()):
        os._exit(status)
    sys.exit(status)


def silence(number: int) -> None:
    """Let what is still written to the open file *number* be lost."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def disabled(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line without its `--disable NAME`, and the names."""
    words: list[str] = []
    names: list[str] = []
    rest = iter(argv)
    for word in rest:
        option, sign, name = word.partition("=")
        if word == "--":
            return [*words, word, *rest], names
        if option != "--disable":
            words.append(word)
        elif sign:
            names.append(name)
        else:
            names.append(next(rest, ""))
    return words, names


def run(argv: Sequence[str]) -> int:
    """Run the command line *argv* and return the exit status."""
    try:
        return obey(argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the samples has seen enough
        silence(1)
        return 0
    except OSError as error:  # stdout, where the disk is full
        from ..report import failure

        with contextlib.suppress(OSError):
            sys.stderr.write(f"gptrepl: {failure(error)}\n")
        return FAILED


def obey(argv: Sequence[str]) -> int:
    """Do what the command line *argv* says and return the exit status."""
    if list(argv) == ["--version"]:  # nothing is imported for it
        sys.stdout.write(f"gptrepl {__version__}\n")
        sys.stdout.flush()
        return 0
    import click

    words, off = disabled(argv)
    if off:
        from ..api import GptreplError
        from ..plugins import disable

        try:
            disable(off)
        except GptreplError as error:
            click.UsageError(str(error)).show()
            return 2
    name = words.pop(0) if words and words[0] in SUBCOMMANDS else "shell"
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
