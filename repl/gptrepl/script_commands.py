"""The commands that make a script: variables, loops, expectations, other scripts."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from . import expectations
from .api import Event, ExpectationError, GptreplError, Notice, Table, Text
from .builtins import change
from .commands import evaluate, finish
from .samples import Start
from .scripting import NAME, header, read_file
from .session import Session
from .settings import LAST_SEED, OF_MODEL, Settings
from .values import shown, unquoted, whole

NOTHING = Text("")
ASSIGNMENT = re.compile(rf"\s*({NAME})(?:\s*=\s*|\s+)(.*)", re.DOTALL)


def let(session: Session, assignment: Text = NOTHING) -> Iterator[Event]:
    """Set a variable, as in `:let x = 0.7`; `{x}` then stands for it. Alone it lists them.

    Commands and prompts have their variables replaced before they run. What is no variable
    passes as it is, and `{{x}}` is `{x}` where x is one. Quotes keep spaces and read escapes.
    """
    text, known = assignment.strip(), session.scope.variables
    if not text:
        rows = tuple(sorted(known.items()))
        yield Table(("variable", "value"), rows, "variables")
        return
    found = ASSIGNMENT.fullmatch(text)
    if found is not None:
        known[found[1]] = unquoted(found[2])
    elif text not in known:
        raise GptreplError(f"there is no variable {text!r}: one is made by `:let x = 0.7`")
    name = found[1] if found else text
    yield Notice(f"{name} = {known[name]}")


def for_(session: Session, loop: Text) -> Iterator[Event]:
    """Run the lines up to `:end` once for each value: `:for t in 0.2 0.5 1.0`.

    `{t}` stands for the value. `1..5` is five values, and quotes keep spaces together. Loops
    can stand within loops; an error ends them all, unless `:on-error continue` says otherwise.
    """
    del session
    header(f":for {loop}")
    raise GptreplError("a loop stands on lines of its own")
    yield


def echo(session: Session, text: Text = NOTHING) -> Iterator[Event]:
    """Say TEXT, with the variables in it replaced."""
    del session
    yield Notice(text)


def prompt(session: Session, text: Text) -> Iterator[Event]:
    r"""Sample from TEXT, which in double quotes can hold escapes: `:prompt "a\nb"`."""
    yield from session.stream(text)


def ids(session: Session, ids: Text) -> Iterator[Event]:
    """Sample from the tokens IDS: `:ids 12 7 31`, or `:ids 12 7 31 as "the text"`.

    They are the prompt exactly as they are, and the text that they spell is shown, or the text
    that is given.
    """
    yield from session.ready()
    numbers, sign, text = ids.partition(" as ")
    tokens = [known_id(word, session.tokenizer.vocab_size) for word in numbers.split()]
    if not tokens:
        raise GptreplError(":ids needs at least one token")
    spelled = b"".join(map(session.tokenizer.token_bytes, tokens)).decode("utf-8", "replace")
    prompt = unquoted(text.strip()) if sign else spelled
    first = session.settings.seed
    first = first if isinstance(first, int) else secrets.randbelow(2**32)
    seeds = [(first + place) % (LAST_SEED + 1) for place in range(session.settings.num_samples)]
    yield from session.resume([Start(prompt, tokens, seed) for seed in seeds])


def known_id(word: str, vocabulary: int) -> int:
    """Return the id that *word* spells, one of a *vocabulary* of so many."""
    number = whole(word)
    if number is None or not 0 <= number < vocabulary:
        raise GptreplError(f"an id is a whole number from 0 to {vocabulary - 1}, not {shown(word)}")
    return number


def expect(session: Session, condition: Text) -> Iterator[Event]:
    """Fail unless CONDITION is true of every sample drawn last; a script then ends with status 4.

    `/regex/` or `text ~ /regex/i` searches the text with its prompt, `new` means the text
    without it, `!~` that there is no match; `text == "..."` is all of it. `tokens 20` counts
    the new tokens, `logprob > -40` adds up their log-probabilities, `ending == stop` tells how
    it ended. `model HASH` is true if the weights have that hash or one that begins so.
    """
    word, _, rest = condition.strip().partition(" ")
    if word == "model":
        yield from session.ready()
        expect_model(session, rest.strip())
        yield Notice(f"as expected: model {rest.strip()}")
        return
    expectation = expectations.parse(condition)
    expectation.check(session.samples)
    yield Notice(f"as expected: {expectation}")


def expect_model(session: Session, wanted: str) -> None:
    """Raise ExpectationError unless the hash of the model's weights begins with *wanted*."""
    found = session.loaded.fingerprint.value() if session.loaded else ""
    if not wanted or not found.startswith(wanted.removeprefix("sha256:").lower()):
        known = found or "unknown: its loader does not tell its files"
        raise ExpectationError(
            f"expected the model {wanted}, but the hash of its weights is {known}"
        )


def source(session: Session, path: Path) -> Iterator[Event]:
    """Run the lines of the script PATH; where a file says it, PATH is relative to that file."""
    with session.scope.reading(path) as found:
        for line, where in read_file(found, str(found)):
            yield from evaluate(session, line, where)
        finish(session)


def on_error(session: Session, what: Literal["stop", "continue"] | None = None) -> Iterator[Event]:
    """Stop at the first error of a script or a loop, or say it and continue with the next line.

    The exit status is that of the first error either way.
    """
    if what is not None:
        session.scope.keeps_going = what == "continue"
    yield Notice(f"on-error {'continue' if session.scope.keeps_going else 'stop'}")


def defaults(session: Session) -> Iterator[Event]:
    """Put every setting but those of the model at its default, whatever set it.

    That is the ground on which a script gives the same text everywhere: configuration,
    environment, profile and command line have no say any more.
    """
    layers = {
        origin: {name: layer[name] for name in OF_MODEL if name in layer}
        for origin, layer in session.settings.layers.items()
    }
    of_profile, said = layers.pop("profile", {}), layers.get("command line", {})
    kept = {name: of_profile[name] for name in of_profile if name not in said}
    layers["typed"] = kept | layers.get("typed", {})
    yield from change(session, Settings().with_layers(layers))
