"""What a plugin of each kind has to be, as far as it can be told without running it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

from .api import Stage

LOADER = ("sources", "accepts", "load")


def misfit(kind: str, plugin: Any) -> str:
    """Return why *plugin* is none of its kind, or an empty text."""
    if kind == "samplers":
        return no_sampler(plugin) or unreadable(plugin)
    if kind == "models":
        if isinstance(plugin, type):
            return f"it is {shape(plugin)}: name a module or an object"
        missing = [name for name in LOADER if not callable(getattr(plugin, name, None))]
        return f"it has no function {missing[0]}" if missing else ""
    if not callable(plugin):
        return f"it is no function or class but {shape(plugin)}"
    return no_command(plugin) or unreadable(plugin) if kind == "commands" else ""


def no_sampler(plugin: Any) -> str:
    """Return why an object is no class of samplers, or an empty text."""
    if not isinstance(plugin, type) or not dataclasses.is_dataclass(plugin):
        return f"it is no dataclass but {shape(plugin)}"
    if not inspect.isfunction(getattr(plugin, "__call__", None)):  # noqa: B004
        return "it cannot be called: it has no method __call__(logits, ids)"
    fields = dataclasses.fields(plugin)
    if not fields:
        return "it has no field that could switch it on"
    for field in fields:
        if field.default is dataclasses.MISSING:
            return f"its field {field.name} has no default that means off"
    if getattr(plugin, "stage", "truncation") not in get_args(Stage):
        return f"its stage is {plugin.stage!r}, none of {', '.join(get_args(Stage))}"  # type: ignore[attr-defined]
    if not isinstance(getattr(plugin, "rank", 50), int | float):
        return "its rank is no number"
    aliases = getattr(plugin, "aliases", ())
    if not isinstance(aliases, tuple | list) or not all(isinstance(one, str) for one in aliases):
        return "its aliases are no tuple of names"
    return ""


def no_command(plugin: Any) -> str:
    """Return why a callable is no command, or an empty text."""
    try:
        parameters = list(inspect.signature(plugin).parameters.values())
    except (TypeError, ValueError):
        return "its parameters cannot be read"
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        return "it takes no session as its first argument"
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    wrong = [parameter.name for parameter in parameters if parameter.kind in named]
    return f"its argument {wrong[0]} cannot be typed: only places count" if wrong else ""


def no_model(model: Any) -> str:
    """Return why an object is no model, or an empty text."""
    return lacking(model, ("vocab_size", "block_size", "logits"))


def no_tokenizer(tokenizer: Any) -> str:
    """Return why an object is no tokenizer, or an empty text."""
    return lacking(tokenizer, ("vocab_size", "encode", "token_bytes"))


def lacking(thing: Any, names: tuple[str, ...]) -> str:
    """Return which of *names* an object lacks, or an empty text."""
    missing = [name for name in names if not hasattr(thing, name)]
    return f"it gives {shape(thing)} without {missing[0]}" if missing else ""


def unreadable(plugin: Any) -> str:
    """Return why the annotations of an object cannot be read, or an empty text."""
    try:
        get_type_hints(plugin, include_extras=True)
    except Exception as error:
        return f"its annotations cannot be read when it runs: {error}"
    return ""


def shape(plugin: Any) -> str:
    """Return in words what an object is."""
    if isinstance(plugin, type):
        return f"the class {plugin.__name__}"
    kind = type(plugin).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
