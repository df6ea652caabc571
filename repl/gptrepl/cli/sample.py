"""`gptrepl sample` does what `python sample.py` does, and prints the same text.

It takes sample.py's options in sample.py's spelling, and by their meaning what sample.py trips
over: `--temperature=1`, `--top_k=None`, `--start=42`. Samples go to stdout, the rest to stderr.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from .. import chain, configuration
from ..api import GptreplError, LoadError
from ..commands import drive
from ..configuration import Configuration
from ..log import Log
from ..offers import sampler_help
from ..plugins import installed
from ..profiles import Profile
from ..profiles import read as read_profile
from ..prompts import start_of
from ..script import FAILED, INTERRUPTED, NO_MODEL, OK, Script, stdio
from ..session import Session
from ..settings import FIELDS, Settings
from ..values import near, spelled

OWN = {
    "init_from": "resume: the checkpoint in out_dir; or the name or folder of a GPT-2",
    "out_dir": "the folder of the checkpoint",
    "start": "the text to start from; FILE:PATH reads it from a file",
    "num_samples": "how many samples to draw",
    "max_new_tokens": "how long each sample gets",
    "seed": "seeds the one stream that all samples are drawn from",
    "device": "where the model runs: auto, cpu, cuda, cuda:N or mps",
    "dtype": "the type of the weights; on a CPU sample.py always computes in float32",
    "compile": "have torch compile the steps of the model, where that is faster",
}
DEFAULTS = {"init_from": "resume", "out_dir": "out", "start": "\n"}
SAMPLE = {"num_samples": 10, "max_new_tokens": 500, "seed": 1337, "temperature": 0.8, "top_k": 200}
SWITCHES = ("independent", "log")
FLAGS = ("independent", "log", "nolog", "help")
"""The options that take no value, as `spelled` spells them."""
EMPTY_STARTS = ("<|endoftext|>", "\n")
"""What an empty start begins with: the first of these that is one token of the model."""


def command() -> click.Command:
    """Return the click command, with an option for each of sample.py's and for each sampler."""
    return SampleCommand(
        "sample",
        callback=run,
        params=[
            *(option(name, help) for name, help in OWN.items()),
            *(
                option(name, sampler_help(name))
                for name in installed("samplers")
                if name not in OWN
            ),
            option("tokenizer", "auto (the model's own), NAME or NAME:PATH"),
            option("chain", "the order of the samplers"),
            click.Option(["--independent"], is_flag=True, help="give sample k the seed SEED + k"),
            click.Option(["log", "--log/--no_log"], default=None, help=FIELDS["log"].help),
        ],
        help="Do what `python sample.py` does. A FILE is a configuration such as my_sample.py, "
        "of which only the assignments of literals are read, or a YAML profile. "
        "Later options and files win.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        options_metavar="[OPTIONS] [FILE]...",
    )


def option(name: str, help: str) -> click.Option:
    """Return an option under both spellings."""
    spellings = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
    return click.Option([name, *spellings], metavar="VALUE", help=help)


class SampleCommand(click.Command):
    """A command whose file arguments stand for the options they assign, where they stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace each configuration file by its assignments, then parse as usual."""
        known = {name for name in self.names() if name not in SWITCHES}
        try:
            words = list(expand(args, known))
        except GptreplError as error:
            raise click.UsageError(str(error), ctx) from None
        for word in words:
            if word.startswith("--") and spelled(word[2:].split("=")[0]) not in self.spellings():
                name = word[2:].split("=")[0]
                raise click.UsageError(f"no option --{name}{near(name, self.names(), '--')}", ctx)
        return super().parse_args(ctx, [normal(word) for word in words])

    def names(self) -> list[str]:
        """Return the names of the options."""
        return [parameter.name or "" for parameter in self.params]

    def spellings(self) -> set[str]:
        """Return the names of the options, and `help`, as `spelled` spells them."""
        return {spelled(name) for name in [*self.names()]} | {*FLAGS}


def normal(word: str) -> str:
    """Return an option with its name in small letters and underscores."""
    if not word.startswith("--"):
        return word
    name, sign, value = word.partition("=")
    return "--" + name[2:].lower().replace("-", "_") + sign + value


def expand(args: Sequence[str], known: set[str]) -> Iterator[str]:
    """Yield the words of a command line, each file replaced by `--name=value` words."""
    words = iter(args)
    for word in words:
        if not word.startswith("-"):
            yield from assignments(word, known)
            continue
        yield word
        if word.startswith("--") and "=" not in word and spelled(word[2:]) not in FLAGS:
            yield from [value for value in [next(words, None)] if value is not None]


def assignments(file: str, known: set[str]) -> Iterator[str]:
    """Yield the options that a configuration file assigns; raise GptreplError if it cannot.

    Their texts are in quotes, as Python has them, so that `literal` takes them as they are.
    """
    if file.endswith((".yaml", ".yml")):
        yield from said_by(read_profile(file), known)
        return
    try:
        tree = ast.parse(Path(file).expanduser().read_text(encoding="utf-8"), file)
    except OSError as error:
        raise GptreplError(f"cannot read the configuration {file!r}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise GptreplError(f"{file}:{line}: it is not Python: {reason}") from None
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
            raise GptreplError(f"{file}:{node.lineno}: only `name = value` lines are read")
        if target.id in known:  # training configurations have many others, which are no options
            yield f"--{target.id}={constant(node, file)!r}"


def said_by(profile: Profile, known: set[str]) -> Iterator[str]:
    """Yield the options that *profile* sets; raise GptreplError for what sample.py has not."""
    if profile.commands:
        raise GptreplError(f"{profile.path} has commands, which only the shell runs")
    for name, value in profile.changes.items():
        if name not in known and name != "log":
            raise GptreplError(
                f"{profile.path}: {name} has no place here: sample.py has no such option"
            )
        switch = "--log" if value else "--no_log"
        yield switch if name == "log" else f"--{name}={written(name, value)!r}"


def constant(node: ast.Assign, file: str) -> str:
    """Return the literal that is assigned, as text."""
    try:
        return str(ast.literal_eval(node.value))
    except ValueError:
        text = ast.unparse(node.value)
        raise GptreplError(
            f"{file}:{node.lineno}: {text!r} is no literal, and nothing in the file is executed"
        ) from None


def written(name: str, value: Any) -> str:
    """Return a value of a profile as an option has it."""
    if name in installed("samplers"):
        return chain.written(value)
    return " ".join(value) if isinstance(value, tuple) else str(value)


def literal(value: str) -> str:
    """Return an option's text; one in quotes loses them, as in sample.py."""
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return found if isinstance(found, str) else value


def run(independent: bool, log: bool | None, **values: str | None) -> int:
    """Load the model, draw the samples and return the exit status."""
    given = {name: literal(value) for name, value in values.items() if value is not None}
    options = {**DEFAULTS, **given}
    try:
        found = configuration.read(os.environ)
        session = Session(settings_of(options, base(found), log))
    except GptreplError as error:
        raise click.UsageError(str(error)) from None
    front = Script(session, *stdio())
    for text in found.warnings:
        front.say(text)
    for name, value in given.items():
        front.say(f"{name} = {value}")
    with closing(Log()) as keeper:
        session.recorders.append(keeper)
        return draw(session, front, one_stream=not independent)


def draw(session: Session, front: Script, *, one_stream: bool) -> int:
    """Draw the samples and return the exit status."""
    try:
        for event in session.ready():
            front.show(event)
        with closing(session.stream(start(session, front), one_stream=one_stream)) as events:
            drive(events, front.show)
    except KeyboardInterrupt:
        return INTERRUPTED
    except LoadError as error:
        front.say(f"gptrepl sample: {error}")
        return NO_MODEL
    except GptreplError as error:
        front.say(f"gptrepl sample: {error}")
        return FAILED
    return OK


def base(found: Configuration) -> Settings:
    """Return the settings that a configuration asks for, and that is nothing but `log`.

    The text is sample.py's, wherever it is drawn.
    """
    settings, _ = found.begin()
    layers = {
        origin: {"log": layer["log"]} for origin, layer in settings.layers.items() if "log" in layer
    }
    return Settings().with_layers(layers)


def settings_of(options: Mapping[str, str], under: Settings, log: bool | None) -> Settings:
    """Return the settings that the options ask for; sample.py's defaults lie under them."""
    changes: dict[str, Any] = dict(SAMPLE) | ({} if log is None else {"log": log})
    for name, value in options.items():
        if name in installed("samplers"):
            changes[name] = chain.read(name, value)
        elif name not in ("init_from", "out_dir"):
            changes[name] = value
    if options["init_from"] == "resume":
        changes["model"] = str(Path(options["out_dir"])) + "/"
    else:  # sample.py runs GPT-2 with its own exact GELU, whatever the model's files say
        changes |= {"model": options["init_from"], "activation": "gelu"}
    return under.but("command line", **changes)


def start(session: Session, front: Script) -> str:
    """Return the text to start from; an empty one becomes the model's start token."""
    text = start_of(session.settings)
    if text:
        return text
    for candidate in EMPTY_STARTS:
        try:
            if len(session.tokenizer.encode(candidate)) == 1:
                front.say(f"the start is empty: beginning with {candidate!r}")
                return candidate
        except GptreplError:
            continue
    raise GptreplError("the start is empty, and the model has no token to begin with")
