"""`gptrepl bench` measures a model: a table or JSON on stdout, the progress on stderr."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import click

from ..api import GptreplError, LoadError, Table
from ..bench import Bench, Figure, memory, start_up
from ..script import FAILED, INTERRUPTED, NO_MODEL, OK, Script, plain, stdio
from ..session import Session
from ..settings import Settings
from .peers import Peer

HELP = """Measure how fast the model of SOURCE is: medians and ranges over interleaved rounds.

Every round takes each figure once. The first token of a turn is timed in chats of several
lengths, as one grows. A peer is a process that continues the same prompts; what it
has to speak is told in the module gptrepl.cli.peers. The share of the roofline is the speed at
which the weights of a token are read, against the memory bandwidth that is measured beside it."""


def command() -> click.Command:
    """Return the click command."""
    return click.Command(
        "bench",
        callback=run,
        params=[
            click.Argument(["source"], required=False, default=""),
            click.Option(["--rounds"], type=click.IntRange(1), default=5, help="how many rounds"),
            click.Option(["--tokens"], type=click.IntRange(2), default=128, help="tokens to draw"),
            click.Option(["--quantize"], default="off", help="off, bf16, int8 or int4"),
            click.Option(
                ["--against"], multiple=True, metavar="PEER", help="nanogpt, transformers or a FILE"
            ),
            click.Option(["--json", "as_json"], is_flag=True, help="write one JSON object"),
        ],
        help=HELP,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def run(
    source: str, rounds: int, tokens: int, quantize: str, against: tuple[str, ...], as_json: bool
) -> int:
    """Load the model, measure and show; return the exit status."""
    try:
        settings = Settings().but("command line", model=source, quantize=quantize)
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    session = Session(settings)
    front = Script(session, *stdio())
    began = time.perf_counter()
    try:
        for event in session.ready():
            front.show(event)
        loading = Figure("s", [time.perf_counter() - began])
        loaded = session.loaded
        assert loaded is not None
        bench = Bench(loaded, settings, tokens)
        with ExitStack() as stack:
            peers: list[Peer] = []
            for which in against:
                peers.append(Peer(which, session.source, bench.threads))
                stack.callback(peers[-1].close)
            for number in bench.rounds(rounds):
                for peer in peers:
                    measure(bench, peer)
                front.say(f"round {number} of {rounds}")
        bench.figures["start-up"] = start_up(rounds)
        bench.figures["loading"] = loading
        bench.figures["memory, at most"] = Figure("MB", [memory()])
    except KeyboardInterrupt:
        return INTERRUPTED
    except GptreplError as error:
        front.say(f"gptrepl bench: {error}")
        return NO_MODEL if isinstance(error, LoadError) else FAILED
    if bench.noise:
        front.say(bench.noise)
    click.echo(json.dumps(data(bench, session)) if as_json else plain(table(bench, session)))
    return OK


def measure(bench: Bench, peer: Peer) -> None:
    """Take the figures of a peer once."""
    first, total = peer.ask(bench.ids(bench.prompt), bench.new, 0.8, 200)
    each = (total - first) / max(bench.new - 1, 1)
    bench.add(f"{peer.name}: time to first token", "ms", first * 1e3)
    bench.add(f"{peer.name}: decode", "tokens/s", 1 / max(each, 1e-9))
    ours = bench.figures["decode"].values[-1]
    bench.add(f"gptrepl / {peer.name}, decode", "x", ours * each)


def table(bench: Bench, session: Session) -> Table:
    """Return the figures as a table."""
    rows = [
        (name, f"{one.median:.4g}", "{:.4g} to {:.4g}".format(*one.range), one.unit)
        for name, one in bench.figures.items()
    ]
    return Table(("figure", "median", "range", "unit"), tuple(rows), session.source)


def data(bench: Bench, session: Session) -> dict[str, Any]:
    """Return the figures as plain data."""
    figures = {
        name: {"median": one.median, "low": one.range[0], "high": one.range[1], "unit": one.unit}
        for name, one in bench.figures.items()
    }
    loaded = session.loaded
    return {
        "source": session.source,
        "device": loaded.device if loaded else "",
        "quantize": session.settings.quantize,
        "prompt": bench.prompt,
        "tokens": bench.new,
        "noise": bench.noise,
        "figures": figures,
    }
