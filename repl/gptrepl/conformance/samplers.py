"""What is required of a sampler, tried over its range on easy and on odd distributions."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from .. import chain
from ..api import GptreplError, Knob
from ..plugins import reason
from ..values import convert, is_union
from . import speed
from .result import Result, documented, required

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 3
SIZE = 65
NUMBERS = (0, 0.02, 0.1, 0.5, 0.9, 1, 1.5, 2, 5, 40, -1)
TEXTS = ("a", "1=-1", "a, b")
EDITED = "the logits and ids given are not edited"
REQUIRED = (
    "it runs",
    "shape and dtype are kept",
    EDITED,
    "a token is always left, and no nan",
    "removed tokens stay removed",
    "same in, same out",
    "no generator but its own is used",
    "off changes no bit",
)
END = "<|endoftext|>"


class EditedError(Exception):
    """A sampler changed the ids it was given."""


class Letters:
    """A tokenizer of any size: the end of text is token 0, the others are characters."""

    end = 0

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        """Return an id for each character."""
        return [0] if text == END else [ord(sign) % self.vocab_size for sign in text]

    def token_bytes(self, token: int) -> bytes:
        """Return the character of an id."""
        return END.encode() if token == self.end else chr(token).encode()


def results(found: Any, given: str, *, timed: bool) -> list[Result]:
    """Return what came of each requirement of a sampler."""
    fields = [field.name for field in dataclasses.fields(found) if not knob_of(field).help]
    undocumented = f"{fields[0]} has no line of help: declare it with knob" if fields else ""
    thawed = "" if found.__dataclass_params__.frozen else "it is not declared frozen=True"
    tried = [sampler for sampler in settings(found, given) if is_bound(sampler, SIZE)]
    unset = "" if tried else "no value was found that switches it on: give one by --with"
    seen = [
        required("it is documented, and so is each field", documented(found) or undocumented),
        required("it is frozen", thawed),
        required("it can be switched on", unset, f"{len(tried)} settings tried"),
    ]
    changes = off(found)
    faults = {"off changes no bit": changes} if changes else {}
    for sampler in tried:
        for name, logits, ids in distributions():
            faults = trial(sampler, name, logits, ids) | faults
    seen += [required(what, faults.get(what, "")) for what in REQUIRED]
    if getattr(found, "rowwise", False):
        seen.append(required("rows together are as each alone", together(tried)))
    if timed and tried:
        letters = Letters(speed.SIZE)
        seen.append(speed.of([one for one in tried if is_bound(one, speed.SIZE)], letters))
    return seen


def knob_of(field: dataclasses.Field[Any]) -> Knob:
    """Return what is known of a field."""
    found: Knob = field.metadata.get("knob", Knob())
    return found


# --- its range ----------------------------------------------------------------------------------


def settings(found: Any, given: str) -> list[Any]:
    """Return the sampler switched on in many ways: each field over its range, and as *given*."""
    hints = get_type_hints(found)
    switch, *others = dataclasses.fields(found)
    on = [{switch.name: value} for value in candidates(switch, hints)]
    if given:
        names = [field.name for field in dataclasses.fields(found)]
        texts = chain.assign(found.__name__, names, given)
        fields = {field.name: field for field in dataclasses.fields(found)}
        on.insert(
            0,
            {
                name: chain.check_field(name, fields[name], hints[name], text)
                for name, text in texts.items()
            },
        )
    base = on[len(on) // 2] if on else {}
    on += [{**base, field.name: value} for field in others for value in candidates(field, hints)]
    made: list[Any] = []
    for values in on:
        with contextlib.suppress(GptreplError, ValueError):
            made.append(found(**values))
    return [sampler for sampler in made if chain.is_on(sampler)]


def candidates(field: dataclasses.Field[Any], hints: dict[str, Any]) -> list[Any]:
    """Return values that a field can take, other than its default."""
    hint, knob = hints[field.name], knob_of(field)
    kinds = get_args(hint) if is_union(hint) else (hint,)
    offered: list[Any] = []
    for kind in kinds:
        if kind in (int, float):
            offered += [kind(number) for number in numbers(knob)]
        elif kind is bool:
            offered += [True, False]
        elif kind is str:
            offered += TEXTS
        else:
            offered += get_args(kind) if get_origin(kind) else []
    known: list[Any] = []
    for value in offered:
        with contextlib.suppress(GptreplError):
            known.append(convert(value, hint, field.name, knob))
    return [value for value in dict.fromkeys(known) if value != field.default]


def numbers(knob: Knob) -> list[float]:
    """Return numbers to try: the ends of the range and what lies between."""
    ends = [end for end in (knob.ge, knob.le) if end is not None]
    return [*ends, *NUMBERS]


# --- odd distributions --------------------------------------------------------------------------


def distributions() -> Iterator[tuple[str, Tensor, list[int]]]:
    """Yield the name, the logits and the ids so far of what a sampler has to cope with."""
    import torch

    generator = torch.Generator().manual_seed(11)
    plain = torch.randn(SIZE, generator=generator) * 3
    ids = torch.randint(1, SIZE, (40,), generator=generator).tolist()
    gone = plain.clone()
    gone[torch.randperm(SIZE, generator=generator)[3:]] = -float("inf")
    alone = torch.full((SIZE,), -float("inf"))
    alone[7] = -2.0
    yield "usual logits", plain, ids
    yield "usual logits after one token", plain, [3]
    yield "all equal logits", torch.zeros(SIZE), ids
    yield "tied logits", plain.round(), ids
    yield "very flat logits", plain * 1e-6, ids
    yield "very steep logits", plain * 1e4, ids
    yield "logits of which 3 are left", gone, ids
    yield "logits of which 1 is left", alone, ids
    yield "two tokens", plain[:2].clone(), [1, 0, 1]
    yield "a single token", plain[:1].clone(), [0]


# --- trials -------------------------------------------------------------------------------------


def begun(sampler: Any, size: int, length: int) -> Any:
    """Return what one sample is called through."""
    import torch

    if hasattr(sampler, "bind"):
        sampler = sampler.bind(Letters(size), length)
    start = getattr(sampler, "begin", None)
    return start(torch.Generator().manual_seed(7)) if start else sampler


def is_bound(sampler: Any, size: int) -> bool:
    """Return whether its texts mean something to a vocabulary of some size."""
    try:
        begun(sampler, size, 1)
    except GptreplError:
        return False
    except Exception:  # what it is, a trial will say
        return True
    return True


def walk(sampler: Any, logits: Tensor, ids: Sequence[int]) -> Iterator[Tensor]:
    """Yield what a sampler makes of some steps, the likeliest token drawn at each."""
    row = list(ids)
    call = begun(sampler, len(logits), len(row))
    for _ in range(STEPS):
        given = list(row)
        left = call(logits, given)
        if given != row:
            raise EditedError
        yield left
        row.append(int(left.argmax()))


def trial(sampler: Any, name: str, logits: Tensor, ids: list[int]) -> dict[str, str]:
    """Return the fault of each requirement that is not met on one distribution."""
    if not is_bound(sampler, len(logits)):
        return {}
    where = f"with {chain.written(sampler)} on {name}"
    before = logits.clone()
    noise = states()
    try:
        steps = list(walk(sampler, logits, ids))
        again, other = walk(sampler, logits, ids), walk(sampler, logits, ids)
        pairs = [(next(again), next(other)) for _ in steps]
    except EditedError:
        return {EDITED: f"it edits the ids {where}"}
    except (Exception, SystemExit) as error:
        return {"it runs": f"{reason(error)} {where}"}
    faults: dict[str, str] = {}
    for left, (one, two) in zip(steps, pairs, strict=True):
        faults |= judge(left, before, where)
        if not (same(left, one) and same(left, two)):
            faults["same in, same out"] = f"it differs from run to run {where}"
    if not same(before, logits):
        faults[EDITED] = f"it edits the logits {where}"
    if states() != noise:
        fault = f"torch's, random's or numpy's own generator moved {where}"
        faults["no generator but its own is used"] = fault
    return faults


def judge(left: Any, before: Tensor, where: str) -> dict[str, str]:
    """Return what is wrong with one result."""
    import torch

    from ..generate import described

    due = (before.shape, before.dtype)
    if not isinstance(left, torch.Tensor) or (left.shape, left.dtype) != due:
        return {"shape and dtype are kept": f"it returns {described(left)} {where}"}
    if not bool(left.max() > -float("inf")) or bool(left.max() == float("inf")):
        return {"a token is always left, and no nan": f"the largest is {float(left.max())} {where}"}
    if bool((left[before == -float("inf")] > -float("inf")).any()):
        return {"removed tokens stay removed": f"one comes back {where}"}
    return {}


def off(found: Any) -> str:
    """Return how the sampler changes logits while it is off, or an empty text."""
    sampler = found()
    for name, logits, ids in distributions():
        try:
            lefts = [sampler(logits, ids), *walk(sampler, logits, ids)]
        except (Exception, SystemExit) as error:
            return f"{reason(error)} on {name}"
        if not all(same(left, logits) for left in lefts):
            return f"it changes {name}"
    return ""


def together(tried: Sequence[Any]) -> str:
    """Return how rows given at once differ from each of them alone, or an empty text."""
    import torch

    rows = [logits for _, logits, _ in distributions() if len(logits) == SIZE]
    for sampler in tried:
        if chain.is_greedy(sampler):
            continue
        where = f"with {chain.written(sampler)}"
        try:
            lefts = sampler(torch.stack(rows), ())
        except (Exception, SystemExit) as error:
            return f"{reason(error)} {where}"
        for left, logits in zip(lefts, rows, strict=True):
            if not same(left, sampler(logits, ())):
                return f"a row is another {where}"
    return ""


def same(one: Any, other: Tensor) -> bool:
    """Return whether two tensors are equal bit for bit."""
    import torch

    if not isinstance(one, torch.Tensor) or (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


def states() -> tuple[Any, ...]:
    """Return the state of each generator that belongs to everyone."""
    import torch

    numpy = sys.modules.get("numpy")
    drawn = numpy.random.get_state()[1].tolist() if numpy is not None else None
    return torch.get_rng_state().tolist(), random.getstate(), drawn
