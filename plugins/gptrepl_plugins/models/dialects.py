"""What each kind of server understands of our samplers, and under which names.

Whatever is off is sent as the value that does nothing: a server has defaults of its own, some
take those of the model's files, and neither is what the user set. The names are those that
vLLM, llama.cpp, transformers and OpenAI document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gptrepl.api import Sampler


@dataclass(frozen=True)
class Knob:
    """One field of one sampler: the key a server has for it, and the value that does nothing."""

    sampler: str
    field: str
    key: str
    off: float


_COMMON = (
    Knob("temperature", "temperature", "temperature", 1.0),
    Knob("top_p", "top_p", "top_p", 1.0),
)
_OCCURRENCE = (
    Knob("presence_penalty", "penalty", "presence_penalty", 0.0),
    Knob("frequency_penalty", "penalty", "frequency_penalty", 0.0),
)
_TOP_K = Knob("top_k", "top_k", "top_k", 0)
_MIN_P = Knob("min_p", "min_p", "min_p", 0.0)

DIALECTS: dict[str, tuple[Knob, ...]] = {
    "openai": (*_COMMON, *_OCCURRENCE),
    "vllm": (
        *_COMMON,
        *_OCCURRENCE,
        Knob("top_k", "top_k", "top_k", -1),
        _MIN_P,
        Knob("repetition_penalty", "penalty", "repetition_penalty", 1.0),
    ),
    "llama.cpp": (
        *_COMMON,
        *_OCCURRENCE,
        _TOP_K,
        _MIN_P,
        Knob("repetition_penalty", "penalty", "repeat_penalty", 1.0),
        Knob("typical", "typical_p", "typical_p", 1.0),
        Knob("top_n_sigma", "top_n_sigma", "top_n_sigma", -1.0),
        Knob("xtc", "probability", "xtc_probability", 0.0),
        Knob("xtc", "threshold", "xtc_threshold", 0.1),
    ),
    "transformers": (
        *_COMMON,
        _TOP_K,
        _MIN_P,
        Knob("typical", "typical_p", "typical_p", 1.0),
        Knob("epsilon", "epsilon", "epsilon_cutoff", 0.0),
        Knob("eta", "eta", "eta_cutoff", 0.0),
        Knob("repetition_penalty", "penalty", "repetition_penalty", 1.0),
        Knob("no_repeat_ngram", "no_repeat_ngram", "no_repeat_ngram_size", 0),
    ),
}
"""The knobs of each kind of server; `openai` is any other."""

GOES_ON = {"vllm": {"ignore_eos": True}, "llama.cpp": {"ignore_eos": True}}
"""What asks a server to go on where its model ends a text; the others always stop."""

CONTINUES = {"vllm": {"continue_final_message": True, "add_generation_prompt": False}}
"""What asks a server to go on with the last message, an assistant's; the others begin a new one."""


def body(kind: str, samplers: Mapping[str, Sampler], *, stop_at_end: bool) -> dict[str, Any]:
    """Return the part of a request that says how to sample."""
    given: dict[str, Any] = {}
    for knob in DIALECTS[kind]:
        sampler = samplers.get(knob.sampler)
        given[knob.key] = knob.off if sampler is None else getattr(sampler, knob.field)
    if kind == "llama.cpp":
        given["repeat_last_n"] = -1  # all of the text, as our windows are by default
    if kind == "transformers":
        return _generation_config(given)
    return given if stop_at_end else given | GOES_ON.get(kind, {})


def _generation_config(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as `transformers serve` takes them: it is greedy unless it is told."""
    if given["temperature"] == 0:
        kept = ("repetition_penalty", "no_repeat_ngram_size")
        how: dict[str, Any] = {"do_sample": False} | {name: given[name] for name in kept}
        return {"generation_config": json.dumps(how)}
    return {"generation_config": json.dumps({"do_sample": True} | given)}


def idle(kind: str, samplers: Mapping[str, Sampler], *, stop_at_end: bool) -> dict[str, str]:
    """Return why each sampler that a server cannot honour has no effect, by name."""
    known: dict[str, set[str]] = {}
    for knob in DIALECTS[kind]:
        known.setdefault(knob.sampler, set()).add(knob.field)
    reasons: dict[str, str] = {}
    for name, sampler in samplers.items():
        if name not in known:
            reasons[name] = f"a server of the kind {kind} has no such sampler"
            continue
        lost = [
            field.name
            for field in fields(sampler)  # type: ignore[arg-type]
            if field.name not in known[name] and getattr(sampler, field.name) != field.default
        ]
        if lost:
            reasons[name] = f"a server of the kind {kind} takes no {' and no '.join(lost)} for it"
    if not stop_at_end and kind not in GOES_ON:
        reasons["stop_at_end"] = "this server always stops where its model ends a text"
    return reasons
