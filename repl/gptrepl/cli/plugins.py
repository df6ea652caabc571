"""`gptrepl plugins` lists what is installed: the list on stdout, what is wrong on stderr."""

from __future__ import annotations

import click

from .. import catalogue
from ..script import OK, plain


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
    click.echo(plain(catalogue.table()))
    for fault in catalogue.faults():
        click.echo(fault, err=True)
    return OK
