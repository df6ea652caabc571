"""What has no effect, and what the model cannot see: nothing is ignored in silence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import chain, plugins, stops, writing
from .chain import Chain
from .loading import Loaded
from .samples import Sample
from .settings import Settings
from .values import format_value

ASKED = ("command line", "typed")
"""The origins of what was asked for here and now."""


def remarks(loaded: Loaded, settings: Settings, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what is to be said before *samples* are drawn under *settings*."""
    yield from idle(settings.active, loaded.model.vocab_size, settings.origin)
    yield from waiting(settings.samplers)
    yield from stops.idle(settings.stop, settings.stop_at_end, loaded.tokenizer)
    yield from writing.remarks(loaded, settings, samples[0])
    yield from of_chat(settings, samples[0])
    yield from of_draft(loaded, settings, len(samples))
    yield from of_greedy(settings, samples)
    yield from of_sight(loaded, settings, samples)


def of_chat(settings: Settings, sample: Sample) -> Iterator[str]:
    """Yield what was asked of a chat, if *sample* is no turn of one."""
    for name, unset in (("system", ""), ("turns", "auto")):
        is_set = settings.origin(name) in ASKED and getattr(settings, name) != unset
        if is_set and sample.turn is None:
            yield f"{name} {settings.value(name)} has no effect: the text is no turn of a chat"


def of_draft(loaded: Loaded, settings: Settings, count: int) -> Iterator[str]:
    """Yield why nothing is drafted of so many samples, if that was asked for."""
    if settings.draft == "off":
        return
    from .drafting import hindrance

    reason = hindrance(loaded.model, settings.active, loaded.device, count)
    if reason:
        yield f"draft {settings.draft} has no effect: {reason}"


def of_greedy(settings: Settings, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what greedy decoding makes idle."""
    if not any(chain.is_greedy(sampler) for _, sampler in settings.active):
        return
    if settings.origin("seed") in ASKED:
        yield f"seed {settings.seed} has no effect: decoding is greedy"
    alike = [sample for sample in samples if sample.prompt == samples[0].prompt]
    if len(alike) > 1:
        yield f"decoding is greedy: the {len(alike)} samples are alike"


def of_sight(loaded: Loaded, settings: Settings, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what of the longest text the model will not see."""
    block_size = loaded.model.block_size
    if block_size is None:
        return
    longest = max(len(sample.ids) for sample in samples)
    if longest > block_size:
        yield f"the prompt has {longest} tokens, the model sees the last {block_size} of a text"
    elif longest + settings.max_new_tokens > block_size + 1:
        yield (
            f"the model sees the last {block_size} tokens of a text: "
            "the start of this one falls out of sight"
        )


def idle(active: Chain, vocab_size: int, origin: Callable[[str], str]) -> list[str]:
    """Return a line for each sampler that someone set and that has no effect as things are."""
    lines: list[str] = []
    greedy = [place for place, (_, sampler) in enumerate(active) if chain.is_greedy(sampler)]
    for place, (name, sampler) in enumerate(active):
        if origin(name) == "default" or place in greedy[:1]:
            continue
        with plugins.guarded("samplers", name):
            reason = getattr(sampler, "idle", lambda _vocab_size: "")(vocab_size)
        if greedy and (chain.stage(sampler) != "penalty" or place > greedy[0]):
            reason = "decoding is greedy"
        if reason:
            lines.append(f"{name} {chain.written(sampler)} has no effect: {reason}")
    return lines


def waiting(samplers: Mapping[str, Any]) -> list[str]:
    """Return a line for each sampler that is off though other fields of it were set."""
    lines: list[str] = []
    for name, sampler in samplers.items():
        switch, *others = dataclasses.fields(sampler)
        values = {field.name: getattr(sampler, field.name) for field in others}
        turned = [
            f"{field.name}={format_value(values[field.name])}"
            for field in others
            if values[field.name] != field.default
        ]
        if turned and not chain.is_on(sampler):
            off = f"{switch.name} is {format_value(switch.default)}"
            lines.append(f"{name} {' '.join(turned)} has no effect: {name} is off, {off}")
    return lines
