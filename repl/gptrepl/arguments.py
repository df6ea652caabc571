"""The arguments of a command: its annotations parse what is typed and say what Tab offers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from .api import Choices, GptreplError, Text
from .values import choices, convert, is_union, unquoted

WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


@dataclass(frozen=True)
class Candidate:
    """A word that could replace the last *length* characters of a line."""

    text: str
    length: int
    help: str = ""


@dataclass(frozen=True)
class Parameter:
    """One argument of a command; a *variadic* one takes all the words that are left."""

    name: str
    annotation: Any
    default: Any
    variadic: bool = False
    offer: Choices | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the command cannot do without it."""
        return self.default is inspect.Parameter.empty and not self.variadic

    @property
    def takes_rest(self) -> bool:
        """Whether it may hold spaces when it is the last one."""
        kinds = get_args(self.annotation) or (self.annotation,)
        return any(kind in (str, Path, Text) for kind in kinds)

    def offers(self, session: Any, word: str) -> Iterator[Candidate]:
        """Yield what *word* could become."""
        found = self.offer.offer(session) if self.offer else choices(self.annotation)
        helps = found if isinstance(found, Mapping) else dict.fromkeys(found, "")
        for choice, help in helps.items():
            if choice.lower().startswith(word.lower()):
                yield Candidate(choice, len(word), help)
        is_path = Path in (get_args(self.annotation) or (self.annotation,))
        if is_path or (self.offer is not None and self.offer.paths):
            inside = paths(word)
            yield from (
                path for path in inside if path.length < len(word) or path.text not in helps
            )


@dataclass(frozen=True)
class Signature:
    """The parameters of a command without the session, and its help."""

    parameters: tuple[Parameter, ...]
    help: str

    def complete(self, session: Any, text: str) -> Iterator[Candidate]:
        """Yield what the last word of *text* could become."""
        before = WORD.findall(text.rpartition(" ")[0])
        if not self.parameters:
            return
        parameter = self.parameters[min(len(before), len(self.parameters) - 1)]
        if len(before) < len(self.parameters) or parameter.variadic:
            yield from parameter.offers(session, text.rpartition(" ")[2])
        elif parameter.takes_rest:
            yield from parameter.offers(session, text)


@cache
def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature of a command's function."""
    hints = get_type_hints(function, include_extras=True)
    _, *declared = inspect.signature(function).parameters.values()
    parameters = []
    for parameter in declared:
        annotation, offer = bare(hints.get(parameter.name, str))
        variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        parameters.append(Parameter(parameter.name, annotation, parameter.default, variadic, offer))
    return Signature(tuple(parameters), inspect.getdoc(function) or "")


def bare(annotation: Any) -> tuple[Any, Choices | None]:
    """Return an annotation without its extras, and the choices among them."""
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        return inner, next((extra for extra in extras if isinstance(extra, Choices)), None)
    if not is_union(annotation):
        return annotation, None
    kinds = [bare(kind) for kind in get_args(annotation)]
    offers = [offer for _, offer in kinds if offer is not None]
    return Union[tuple(kind for kind, _ in kinds)], offers[0] if offers else None  # noqa: UP007


def usage_of(function: Callable[..., Any]) -> str:
    """Return the parameters as a help shows them: ` SOURCE`, ` [NAME]`, ` [NAME ...]`."""
    shown = ""
    for parameter in signature_of(function).parameters:
        word = parameter.name.upper() + (" ..." if parameter.variadic else "")
        shown += f" {word}" if parameter.is_needed else f" [{word}]"
    return shown


def parse(function: Callable[..., Any], name: str, text: str) -> list[Any]:
    """Return the arguments that *text* holds for command *name*, by the annotations.

    Words are parted by spaces; double quotes keep them together. A text or path that comes
    last takes all that is left.
    """
    values: list[Any] = []
    for parameter in signature_of(function).parameters:
        last = parameter is signature_of(function).parameters[-1]
        rest = text if parameter.annotation is Text else text.strip()
        if not rest:
            if parameter.is_needed:
                raise GptreplError(f":{name} needs a value: :{name}{usage_of(function)}")
            return values
        if parameter.variadic:
            words = map(unquoted, WORD.findall(rest))
            return [*values, *(convert(word, parameter.annotation, name) for word in words)]
        if last and parameter.takes_rest:
            word, text = rest, ""
        else:
            word = WORD.match(rest)[0]  # type: ignore[index]
            text = rest[len(word) :]
        values.append(argument(unquoted(word), parameter))
    if text.strip():
        raise GptreplError(f":{name} has no use for {text.strip()!r}: :{name}{usage_of(function)}")
    return values


def argument(word: str, parameter: Parameter) -> Any:
    """Return one word as its parameter wants it."""
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    if Path in kinds:
        return Path(word).expanduser()
    return convert(word, parameter.annotation, parameter.name)


def paths(word: str) -> Iterator[Candidate]:
    """Yield the files and folders that *word* could become."""
    shown, _, begun = word.rpartition("/")
    folder = Path(shown + "/").expanduser() if "/" in word else Path()
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return
    for path in inside:
        if path.name.startswith(begun) and (begun or not path.name.startswith(".")):
            yield Candidate(path.name + ("/" if path.is_dir() else ""), len(begun))
