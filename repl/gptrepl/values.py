"""A value as it was written becomes a value of the type that an annotation names.

Commands, profiles, command lines and Python share this one parser, so that `40` means the same
everywhere and is refused in the same words.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from .api import GptreplError, Knob, Text

WHOLE = re.compile(r"-?\d+")
OFF = ("off", "none", "null", "false", "no")
ON = ("on", "true", "yes")

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "on or off",
    str: "text",
    Text: "text",
}


def convert(value: Any, annotation: Any, name: str, limits: Knob | None = None) -> Any:
    """Return *value* as the annotated type, within *limits*.

    Raises GptreplError, one line that names the thing, the value and what it should be.
    """
    limits = limits or Knob()
    plain = annotation in (str, Text) or not isinstance(value, str)
    try:
        if isinstance(value, Real) and not isinstance(value, bool | int | float):  # of numpy, say
            value = int(value) if isinstance(value, Integral) else float(value)
        result = msgspec.convert(
            value if plain else literal(value, annotation),
            narrowed(annotation, limits),
            strict=False,
        )
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError):
        result = math.nan
    if isinstance(result, float) and not math.isfinite(result):
        wanted = describe(annotation, limits)
        raise GptreplError(f"{name} must be {wanted}, not {shown(value)}")
    return result


def literal(text: str, annotation: Any) -> Any:
    """Return the number or the truth value that *text* spells, if the annotation has one."""
    kinds = get_args(annotation) if is_union(annotation) else (annotation,)
    if bool in kinds and text.lower() in ON + OFF:
        return text.lower() in ON
    if "_" not in text and (int in kinds or float in kinds):
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                pass
    choices = {str(c).lower(): c for k in kinds if get_origin(k) is Literal for c in get_args(k)}
    return choices.get(text.lower(), text)


def whole(text: str) -> int | None:
    """Return the whole number that *text* spells; None where it is none that can be read."""
    try:
        return int(text) if WHOLE.fullmatch(text) else None
    except ValueError:  # Python reads no more than some thousand digits
        return None


def narrowed(annotation: Any, limits: Knob) -> Any:
    """Return the annotation with its limits, as msgspec reads them."""
    if is_union(annotation):
        return Union[tuple(narrowed(kind, limits) for kind in get_args(annotation))]  # noqa: UP007
    if annotation in (int, float):
        bounds = {key: getattr(limits, key) for key in ("ge", "gt", "le", "lt")}
        return Annotated[annotation, msgspec.Meta(**bounds)]
    if annotation is str and limits.pattern:
        return Annotated[str, msgspec.Meta(pattern=f"^(?:{limits.pattern})$")]
    return annotation


def is_union(annotation: Any) -> bool:
    """Return whether the annotation allows several types."""
    return get_origin(annotation) in (Union, types.UnionType)


def describe(annotation: Any, limits: Knob | None = None) -> str:
    """Return in words what the annotation and its limits allow."""
    limits = limits or Knob()
    if limits.form:
        return limits.form
    kinds = get_args(annotation) if is_union(annotation) else (annotation,)
    parts: list[str] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            parts += [str(choice) for choice in get_args(kind)]
        elif kind is not types.NoneType:
            span = scope(limits) if kind in (int, float) else ""
            parts.append(WORDS.get(kind, "a list") + span)
    return ", ".join(parts[:-1]) + (" or " if parts[1:] else "") + parts[-1]


def metavar(annotation: Any, limits: Knob | None = None) -> str:
    """Return what a usage line shows for a value: `N`, `X`, `TEXT`, `on|off`, `N|off|all`."""
    if limits and limits.form:
        return limits.form.replace(", ", "|").replace(" or ", "|")
    kinds = get_args(annotation) if is_union(annotation) else (annotation,)
    letters = {int: "N", float: "X", bool: "on|off", str: "NAME", Text: "TEXT"}
    parts: list[str] = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            parts += map(str, get_args(kind))
        else:
            parts.append(letters.get(kind, "NAME ..."))
    return "|".join(parts)


def scope(limits: Knob) -> str:
    """Return the range in words: ` from 0 to 1`, ` above 0`, or nothing."""
    low = "" if limits.ge is None else f" from {limits.ge:g}"
    low = low or ("" if limits.gt is None else f" above {limits.gt:g}")
    upper = " to" if limits.ge is not None else ", at most" if low else " up to"
    high = "" if limits.le is None else f"{upper} {limits.le:g}"
    if limits.lt is not None:
        high = f" below {limits.lt:g}"
    if low.startswith(" from") and not high:
        return f", {limits.ge:g} or more"
    return low + high


def shown(value: Any) -> str:
    """Return *value* as an error quotes it: text in quotes, a list in brackets, cut if long."""
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(shown, value))}]"
    else:
        text = repr(value) if isinstance(value, str) else format_value(value)
    return text if len(text) <= 60 else text[:57] + "..."


def format_value(value: Any) -> str:
    """Return *value* as a user would type it, a number with all the digits that make it."""
    match value:
        case bool():
            return "on" if value else "off"
        case float():
            short = f"{value:g}"
            return short if float(short) == value else repr(float(value))
        case None:
            return "nothing"
        case tuple() | list():
            return " ".join(map(format_value, value))
        case _:
            return str(value)


def near(name: str, known: Iterable[str], sign: str = "") -> str:
    """Return ` (did you mean top_p?)` for the known name closest to *name*, or nothing."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {sign}{found[0]}?)" if found else ""


def quoted(text: str) -> str:
    """Return *text* in double quotes on one line, as `unquoted` reads it."""
    return json.dumps(text, ensure_ascii=False)


def unquoted(word: str) -> str:
    """Return *word*, read with its escapes if it stands in double quotes."""
    if len(word) < 2 or not word.startswith('"') or not word.endswith('"'):
        return word
    try:
        text = str(json.loads(word, strict=False))
    except ValueError:
        return word
    return word if is_broken(text) else text


def is_broken(value: Any) -> bool:
    """Return whether a text, or one of a list, holds what no UTF-8 can spell.

    That are bytes that were none, or half of a surrogate pair.
    """
    if isinstance(value, list | tuple):
        return any(map(is_broken, value))
    return isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value)


@lru_cache(maxsize=1024)
def spelled(name: str) -> str:
    """Return the one spelling under which `top-k`, `topk` and `TOP_K` are the same name."""
    return name.lower().replace("-", "").replace("_", "")


def choices(annotation: Any) -> list[str]:
    """Return the words that the annotation allows: those of a Literal, on and off."""
    kinds = get_args(annotation) if is_union(annotation) else (annotation,)
    words = [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return words + (["on", "off"] if bool in kinds else [])
