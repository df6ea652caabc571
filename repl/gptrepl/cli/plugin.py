"""`gptrepl plugin new` writes a plugin, `gptrepl plugin check` tells whether one is sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .. import plugins, skeleton
from ..api import GptreplError, Table
from ..plugins import KINDS, Kind
from ..script import FAILED, OK, plain
from .plugins import say

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COLUMNS = ("state", "requirement", "what was seen")
ONE = [kind[:-1] for kind in KINDS]


def command() -> click.Command:
    """Return the click command with its two verbs."""
    group = click.Group("plugin", help="Write a plugin, or check one.", context_settings=CONTEXT)
    group.add_command(
        click.Command(
            "new",
            callback=new,
            params=[
                click.Argument(["name"]),
                click.Option(["--kind"], type=click.Choice(ONE), default="sampler"),
                click.Option(["--into"], metavar="FOLDER", default=".", help="where it is put"),
            ],
            help="Write a distribution with a plugin called NAME that works, and its test.",
            context_settings=CONTEXT,
        )
    )
    group.add_command(
        click.Command(
            "check",
            callback=check,
            params=[
                click.Argument(["names"], nargs=-1),
                click.Option(["--with", "given"], metavar="TEXT", help=GIVEN),
            ],
            help="Try whether the installed plugins NAMES do what is required of their kind, and "
            "how long a sampler takes for a token. Without NAMES: every sampler. KIND:NAME tells "
            "apart plugins of one name. The exit status is 1 if one fails.",
            context_settings=CONTEXT,
        )
    )
    return group


GIVEN = (
    "what cannot be guessed: the value of a sampler, the PATH of a tokenizer, the SOURCE of a "
    "model, the arguments of a command"
)


def new(name: str, kind: str, into: str) -> int:
    """Write a distribution and say how to go on."""
    plural: Kind = KINDS[ONE.index(kind)]
    try:
        folder, *files = skeleton.write(name, plural, Path(into).expanduser())
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    for path in files:
        say(f"wrote {path}")
    given = {"model": f" --with {name}", "command": " --with ''"}.get(kind, "")
    say(f"next: pip install -e {folder}; gptrepl plugin check {name}{given}")
    return OK


def check(names: Sequence[str], given: str | None) -> int:
    """Check each plugin and return the exit status."""
    from ..conformance import Result, speed
    from ..conformance import check as conform

    try:
        chosen = [meant(name) for name in names] or [
            ("samplers", name) for name in plugins.installed("samplers")
        ]
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    overview: list[tuple[str, str, str]] = []
    for kind, name in chosen:
        came = plugins.outcome(kind, name)
        entry = plugins.installed(kind)[name]
        results = conform(kind, came.plugin, given, timed=True)
        if came.fault:
            results = [Result("it loads", "fails", came.fault)]
        rows = tuple((result.state, result.what, result.detail) for result in results)
        origin = plugins.origin(entry)
        say(f"{kind[:-1]} {name} of {origin}\n{plain(Table(COLUMNS, rows))}\n")
        fails = any(result.state == "fails" for result in results)
        overview.append((name, "fails" if fails else results[-1].state, results[-1].detail))
    if not names:
        chain = speed.of_default_chain()
        overview.append(("the default chain", chain.state, chain.detail))
    if len(overview) > 1:
        say(plain(Table(("plugin", "state", "time for a token"), tuple(overview))))
    return FAILED if any(state == "fails" for _, state, _ in overview) else OK


def meant(written: str) -> tuple[Kind, str]:
    """Return the kind and the name of the one plugin that NAME or KIND:NAME means."""
    word, sign, name = written.rpartition(":")
    found = [
        (kind, name)
        for kind in KINDS
        if name in plugins.installed(kind) and (not sign or kind[:-1] == word.removesuffix("s"))
    ]
    if not found:
        raise GptreplError(f"no plugin named {written!r} is installed, see gptrepl plugins")
    if len(found) > 1:
        ways = " or ".join(f"{kind[:-1]}:{name}" for kind, name in found)
        raise GptreplError(f"several plugins are named {name}: say {ways}")
    return found[0]
