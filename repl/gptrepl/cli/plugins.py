"""`gptrepl plugins` lists what is installed: the list on stdout, what is wrong on stderr."""

from __future__ import annotations

import click

from .. import catalogue
from ..script import OK, plain, stdio


def command() -> click.Command:
    """Return the click command."""
    return click.Command(
        "plugins",
        callback=run,
        help="List the plugins that are installed: samplers, tokenizers, models and commands. "
        "What is wrong with one is a line below the list and hinders no other.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def run() -> int:
    """Show the plugins."""
    say(plain(catalogue.table()))
    for fault in catalogue.faults():
        say(fault, err=True)
    return OK


def say(text: str, *, err: bool = False) -> None:
    """Write what plugins say of themselves: nothing in it can drive the terminal."""
    from ..screen import harmless

    stdio()
    click.echo(harmless(text), err=err)
