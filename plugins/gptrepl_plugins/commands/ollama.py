"""The PARAMETER lines of an Ollama Modelfile.

Its engines keep the top k, divide by the temperature, then keep top p and min p.
"""

from __future__ import annotations

import re
from typing import Any

from gptrepl_plugins.commands.translation import (
    Translation,
    number,
    penalties,
    quoted,
    steered,
    whole,
)

DEFAULTS = {
    "temperature": "0.8",
    "top_k": "40",
    "top_p": "0.9",
    "min_p": "0",
    "repeat_last_n": "64",
    "repeat_penalty": "1.1",
    "presence_penalty": "0",
    "frequency_penalty": "0",
    "mirostat": "0",
    "mirostat_tau": "5",
    "mirostat_eta": "0.1",
}
OTHERS = ("seed", "num_predict", "stop")
ORDER = ("top_k", "temperature", "top_p", "min_p")
SHOWN = ("temperature", "top_k", "top_p", "repeat_penalty")
BLOCK = re.compile(r'"""(.*?)"""', re.DOTALL)
LINE = re.compile(r"(?im)(?:^|(?<=\s))PARAMETER\s+(\S+)\s+(.*?)(?=\s+PARAMETER\s|$)")
INSTRUCTION = re.compile(
    r"(?im)^\s*(FROM|TEMPLATE|SYSTEM|ADAPTER|LICENSE|MESSAGE|RENDERER|PARSER)\b"
)


def read(text: str) -> Translation:
    """Return what the parameters in *text* mean; those that are not given have their defaults."""
    found = Translation("Ollama", order=ORDER)
    text = BLOCK.sub('""', re.sub(r"(?m)^\s*#.*$", "", text))
    given: dict[str, list[str]] = {}
    for match in LINE.finditer(text):
        given.setdefault(match[1].lower(), []).append(quoted(match[2].strip()))
    values = {**DEFAULTS, **{name: words[-1] for name, words in given.items()}}
    value = {name: number(name, values[name]) for name in DEFAULTS}
    if whole("mirostat", values["mirostat"]):
        found.order = ()
        found.changes = steered(
            whole("mirostat", values["mirostat"]),
            value["mirostat_tau"],
            value["mirostat_eta"],
            value["temperature"],
        )
        found.notes.append("with mirostat Ollama uses no other sampler but the temperature")
    else:
        found.changes = chain(value, values)
        absent = [f"{name} {DEFAULTS[name]}" for name in SHOWN if name not in given]
        if absent:
            found.notes.append(f"what is not given has Ollama's default: {', '.join(absent)}")
    found.changes |= length(given, found)
    found.unmapped += [
        f"PARAMETER {name} {' '.join(words)}"
        for name, words in given.items()
        if name not in DEFAULTS and name not in OTHERS
    ]
    found.unmapped += dict.fromkeys(word.upper() for word in INSTRUCTION.findall(text))
    return found


def chain(value: dict[str, float], values: dict[str, str]) -> dict[str, Any]:
    """Return the samplers as the parameters set them."""
    last = whole("repeat_last_n", values["repeat_last_n"])
    return {
        **penalties(
            value["repeat_penalty"], value["presence_penalty"], value["frequency_penalty"], last
        ),
        "top_k": max(0, whole("top_k", values["top_k"])),
        "temperature": max(0.0, value["temperature"]),
        "top_p": min(1.0, max(0.0, value["top_p"])),
        "min_p": min(1.0, max(0.0, value["min_p"])),
    }


def length(given: dict[str, list[str]], found: Translation) -> dict[str, Any]:
    """Return the settings of where a text begins and ends."""
    changes: dict[str, Any] = {}
    if "seed" in given:
        changes["seed"] = whole("seed", given["seed"][-1])
    if "stop" in given:
        changes["stop"] = [text.replace("\\n", "\n") for text in given["stop"]]
    if "num_predict" in given:
        limit = whole("num_predict", given["num_predict"][-1])
        if limit >= 0:
            changes["max_new_tokens"] = limit
        else:
            found.unmapped.append(f"PARAMETER num_predict {limit}, a text without a limit")
    return changes
