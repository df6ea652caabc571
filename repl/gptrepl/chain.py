"""The chain: which samplers there are, how they are set, and in which order they run.

It knows samplers by what their classes declare and never by name.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

from . import plugins
from .api import GptreplError, Knob, Sampler, Stage, Tokenizer
from .values import (
    OFF,
    choices,
    convert,
    describe,
    format_value,
    metavar,
    near,
    quoted,
    spelled,
    unquoted,
)

GIVEN = re.compile(r'(?:\w+=)?"(?:[^"\\]|\\.)*"(?!\S)|\S+')
"""A value as it is typed: `0.5`, `window=64`, `end="the end"`."""
BARE = re.compile(r'[^\s"]\S*')
"""A value that needs no double quotes."""
Chain = Sequence[tuple[str, Sampler]]
"""The samplers that are on, with their names, in the order they run."""
STAGES: tuple[Stage, ...] = ("penalty", "temperature", "truncation", "selection")


def sampler_class(name: str) -> Any:
    """Return the class of a sampler plugin; raise GptreplError if it does not load."""
    return plugins.load("samplers", name)


@cache
def hints_of(found: Any) -> dict[str, Any]:
    """Return the types that the fields of a sampler's class are annotated with."""
    return get_type_hints(found)


def loading() -> list[str]:
    """Return the names of the installed samplers that load, sorted."""
    return [
        name
        for name in plugins.installed("samplers")
        if not plugins.outcome("samplers", name).fault
    ]


def by_origin() -> list[str]:
    """Return the names of the installed samplers, our own first."""
    entries = plugins.installed("samplers")
    return sorted(entries, key=lambda name: not plugins.is_own(entries[name]))


def aliases(name: str) -> tuple[str, ...]:
    """Return the other names of a sampler; none if it does not load."""
    try:
        return tuple(getattr(sampler_class(name), "aliases", ()))
    except GptreplError:
        return ()


def place(name: str) -> tuple[int, int, str]:
    """Return the default place of a sampler, as a key to sort by: stage, rank, name."""
    try:
        found = sampler_class(name)
    except GptreplError:
        return len(STAGES), 0, name
    return STAGES.index(stage(found)), getattr(found, "rank", 50), name


def stage(sampler: Any) -> Stage:
    """Return the stage that a sampler or its class declares."""
    declared: Stage = getattr(sampler, "stage", "truncation")
    return declared


def stage_of(name: str) -> str:
    """Return the stage of a sampler by its name; a question mark if it does not load."""
    try:
        return stage(sampler_class(name))
    except GptreplError:
        return "?"


def arrange(names: Iterable[str], listed: Collection[str] = ()) -> tuple[str, ...]:
    """Return sampler *names* in the order they run.

    By default they stand by stage, then rank, then name. The *listed* ones share the places
    they hold by default, in the order in which they are listed.
    """
    ordered = sorted(names, key=place)
    queue = iter(listed)
    return tuple(next(queue) if name in listed else name for name in ordered)


def check(chain: Chain) -> None:
    """Raise GptreplError if the chain cannot work: one that selects is alone and the last.

    Whatever came after it would change the odds it has just set.
    """
    places = [place for place, (_, one) in enumerate(chain) if stage(one) == "selection"]
    if len(places) > 1:
        one, other = (chain[place][0] for place in places[:2])
        raise GptreplError(f"{one} and {other} both select the token: set one of them off first")
    if places and places[0] + 1 < len(chain):
        name, after = chain[places[0]][0], chain[places[0] + 1][0]
        raise GptreplError(
            f"{name} selects the token, so {after} cannot come after it: "
            "change the order by :chain, or set one of them off"
        )


def default(name: str) -> Sampler:
    """Return sampler *name* as it is before anyone sets it: off."""
    found = sampler_class(name)
    with plugins.guarded("samplers", name):
        made: Sampler = found()
    return made


def build(name: str, value: Any, current: Sampler | None = None) -> Sampler:
    """Return sampler *name* set to *value*.

    *value* is one value for its first field, several by place, a mapping by field (the other
    fields keep what *current* has), `off`, or a sampler of that class.
    """
    found = sampler_class(name)
    if isinstance(value, found):
        sampler: Sampler = value
        return sampler
    known = {field.name: field for field in dataclasses.fields(found)}
    if isinstance(value, Mapping):
        given = {proper_field(name, str(key), list(known)): item for key, item in value.items()}
    elif isinstance(value, list | tuple):
        if len(value) > len(known):
            raise GptreplError(f"{name} takes at most {len(known)} values: {', '.join(known)}")
        if not value:
            raise GptreplError(f"{name} has no value; `off` switches it off")
        given = dict(zip(known, value, strict=False))
    else:
        given = {next(iter(known)): value}
    hints = hints_of(found)
    fields = {key: check_field(name, known[key], hints[key], item) for key, item in given.items()}
    base = {key: getattr(current, key) for key in known} if current is not None else {}
    with plugins.guarded("samplers", name):
        made: Sampler = found(**{**base, **fields})
    return made


def check_field(name: str, field: dataclasses.Field[Any], hint: Any, value: Any) -> Any:
    """Return the value that one field of sampler *name* takes from *value*."""
    label = name if name.endswith(field.name) else f"{name} {field.name}"
    if (value is None or value is False or str(value).lower() in OFF) and "off" not in str(hint):
        return field.default
    return convert(value, hint, label, field.metadata.get("knob"))


def proper_field(name: str, key: str, known: list[str]) -> str:
    """Return the field of sampler *name* that *key* spells."""
    for field in known:
        if spelled(field) == spelled(key):
            return field
    raise GptreplError(f"{name} has no {key!r}{near(key, known)}; it has {', '.join(known)}")


def is_on(sampler: Any) -> bool:
    """Return whether a sampler is on: its first field differs from the default."""
    switch = dataclasses.fields(sampler)[0]
    return bool(getattr(sampler, switch.name) != switch.default)


def is_greedy(sampler: Any) -> bool:
    """Return whether a sampler leaves one token, so that nothing is drawn."""
    return bool(getattr(sampler, "greedy", False))


def written(sampler: Any) -> str:
    """Return a sampler's setting as it is typed: `0.8`, `off`, `0.5 threshold=0.1`."""
    if not is_on(sampler):
        return "off"
    first, *rest = dataclasses.fields(sampler)
    parts = [format_value(getattr(sampler, first.name))]
    parts += [f"{field.name}={word(getattr(sampler, field.name))}" for field in rest]
    return " ".join(parts)


def word(value: Any) -> str:
    """Return one of several values as it is typed: in double quotes where it needs them."""
    text = format_value(value)
    return text if BARE.fullmatch(text) else quoted(text)


def data(sampler: Any) -> Any:
    """Return a sampler's setting exactly, as plain data: one value, or several by field."""
    values = {field.name: getattr(sampler, field.name) for field in dataclasses.fields(sampler)}
    if len(values) > 1:
        return values
    return next(iter(values.values())) if is_on(sampler) else "off"


def bind(chain: Chain, tokenizer: Tokenizer, prompt_length: int) -> Chain:
    """Return the chain for texts of one tokenizer after a prompt of so many ids.

    Samplers that speak of texts or of new tokens turn into ones that speak of ids. Raises
    GptreplError where a text has no ids.
    """
    bound: list[tuple[str, Sampler]] = []
    for name, sampler in chain:
        with plugins.guarded("samplers", name):
            bind = getattr(sampler, "bind", None)
            bound.append((name, bind(tokenizer, prompt_length) if bind else sampler))
    return bound


def knobs(name: str) -> dict[str, Knob]:
    """Return what is known of each field of a sampler, by field."""
    fields = dataclasses.fields(sampler_class(name))
    return {field.name: field.metadata.get("knob", Knob()) for field in fields}


def read(name: str, text: str) -> dict[str, str]:
    """Return the values by field that *text* gives sampler *name*: `0.5 threshold=0.1`.

    A sampler with one field takes all of *text* for it. With several, a value with spaces stands
    in double quotes.
    """
    return assign(name, list(knobs(name)), text)


def assign(name: str, fields: Sequence[str], text: str) -> dict[str, str]:
    """Return the values that *text* gives the *fields* of the sampler called *name*."""
    if len(fields) == 1:
        return {fields[0]: text.strip()}
    given: dict[str, str] = {}
    for place, word in enumerate(GIVEN.findall(text)):
        key, sign, value = word.partition("=") if not word.startswith('"') else (word, "", "")
        if not sign and place >= len(fields):
            raise GptreplError(f"{name} takes at most {len(fields)} values: {', '.join(fields)}")
        field, value = (
            (proper_field(name, key, list(fields)), value) if sign else (fields[place], word)
        )
        if field in given:
            raise GptreplError(f"{name} {field} is given twice")
        given[field] = unquoted(value)
    return given


def help_of(name: str) -> str:
    """Return the docstring of a sampler and a line for each of its fields."""
    found = sampler_class(name)
    hints = hints_of(found)
    lines = [inspect.getdoc(found) or f"The sampler {name}.", ""]
    for place, field in enumerate(dataclasses.fields(found)):
        limits = field.metadata.get("knob", Knob())
        takes = describe(hints[field.name], limits)
        label = "default" if place else "off"
        lines.append(f"{field.name}: {limits.help} ({takes}; {label}: {written_value(field)})")
    return "\n".join(lines)


def usage_of(name: str) -> str:
    """Return the fields of a sampler as a usage line shows them: `X threshold=X`."""
    hints = hints_of(sampler_class(name))
    first, *rest = (metavar(hints[field], limits) for field, limits in knobs(name).items())
    named = zip(list(knobs(name))[1:], rest, strict=True)
    return " ".join([first, *(f"{field}={value}" for field, value in named)])


def written_value(field: dataclasses.Field[Any]) -> str:
    """Return the default of a field as it is typed; an empty text as two quotes."""
    return format_value(field.default) or '""'


def offers(name: str, *, is_first: bool) -> dict[str, str]:
    """Return the words that a value of the sampler can begin with, with their helps."""
    hints = hints_of(sampler_class(name))
    first, *rest = knobs(name).items()
    words = {"off": "no effect"} if is_first else {}
    words |= dict.fromkeys(choices(hints[first[0]]) if is_first else [], first[1].help)
    return words | {f"{field}=": limits.help for field, limits in rest}
