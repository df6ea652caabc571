"""`gptrepl log` is the command :log of the shell, outside of it."""

from __future__ import annotations

import click

from .answer import CONTEXT, answer

HELP = """Find the receipts of what was generated, and keep them.

gptrepl log [N|TEXT] lists the newest N, or those whose texts hold every word of TEXT;
gptrepl log show ID shows one; gptrepl log export FILE.jsonl [TEXT] writes them to a file;
gptrepl log rm ID ... removes some.
"""


def command() -> click.Command:
    """Return the click command."""
    return click.Command(
        "log",
        callback=lambda words, as_json: answer("log", words, as_json),
        params=[
            click.Argument(["words"], nargs=-1, metavar="[show|export|rm] [N|TEXT|ID|FILE] ..."),
            click.Option(["--json", "as_json"], is_flag=True, help="write JSON lines to stdout"),
        ],
        help=HELP,
        context_settings=CONTEXT,
    )
