"""`gptrepl profile` lists and shows profiles, and checks files of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from .. import document, profiles
from ..api import GptreplError
from ..profile_commands import check
from ..script import FAILED, OK
from .answer import CONTEXT, answer

HELP = """List the profiles, show or compare them, or check files.

gptrepl profile check FILE ... says all that is wrong, as FILE:LINE: KEY: what; the exit status
is 1 if there is anything. gptrepl profile show NAME, gptrepl profile diff A B.
"""
SHOWN = ("show", "diff")


def command() -> click.Command:
    """Return the click command."""
    return click.Command(
        "profile",
        callback=run,
        params=[click.Argument(["words"], nargs=-1, metavar="[check|show|diff] [NAME|FILE] ...")],
        help=HELP,
        context_settings=CONTEXT,
    )


def run(words: Sequence[str]) -> int:
    """Do what the first word says."""
    if not words:
        return answer("profile", ())
    verb, *names = words
    if verb in SHOWN:
        return answer("profile", words)
    if verb != "check" or not names:
        raise click.UsageError("it is check FILE ..., show NAME or diff A B")
    found = [fault for name in names for fault in faults(Path(name))]
    for fault in found:
        click.echo(fault, err=True)
    return FAILED if found else OK


def faults(path: Path) -> Iterator[str]:
    """Yield all that is wrong with the profile in a file, a line each."""
    try:
        profile, found = profiles.examine(document.read(path, "the profile"), path)
        yield from found
        if not found:
            check(profile)
    except GptreplError as error:
        yield str(error)
