"""The flags of llama.cpp: `--temp 0.8 --top-k 40 --min-p 0.05`.

Its chain filters at temperature 1 and divides by the temperature last. With mirostat nothing
else is left of it but the logit bias and the temperature.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from gptrepl.api import GptreplError
from gptrepl_plugins.commands.translation import (
    Translation,
    biases,
    number,
    penalties,
    steered,
    whole,
    window,
)

DEFAULTS = {
    "temp": "0.8",
    "top-k": "40",
    "top-p": "0.95",
    "min-p": "0.05",
    "typical": "1",
    "top-nsigma": "-1",
    "xtc-probability": "0",
    "xtc-threshold": "0.1",
    "repeat-last-n": "64",
    "repeat-penalty": "1",
    "presence-penalty": "0",
    "frequency-penalty": "0",
    "dry-multiplier": "0",
    "dry-base": "1.75",
    "dry-allowed-length": "2",
    "dry-penalty-last-n": "64",
    "adaptive-target": "-1",
    "adaptive-decay": "0.9",
    "dynatemp-range": "0",
    "dynatemp-exp": "1",
    "mirostat": "0",
    "mirostat-lr": "0.1",
    "mirostat-ent": "5",
}
"""The values of common/common.h, by flag; those it is silent about shape the distribution too."""
OTHERS = {
    "typical-p": "typical",
    "temperature": "temp",
    "top-n-sigma": "top-nsigma",
    "s": "seed",
    "n": "predict",
    "n-predict": "predict",
    "r": "reverse-prompt",
    "l": "logit-bias",
    "sampler-seq": "sampling-seq",
}
"""More spellings of flags."""
LISTS = ("logit-bias", "reverse-prompt", "dry-sequence-breaker")
"""The flags that may be repeated."""
TAKEN = {*DEFAULTS, *LISTS, "seed", "predict", "samplers", "sampling-seq"}
CHAIN = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
"""Its samplers in the order they run."""
LETTERS = dict(zip("edskypmxtia", [*CHAIN.split(";"), "infill", "adaptive_p"], strict=True))
NAMES = {
    "penalties": ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    "dry": ("dry",),
    "topnsigma": ("top_n_sigma",),
    "topk": ("top_k",),
    "typp": ("typical",),
    "typicalp": ("typical",),
    "typical": ("typical",),
    "topp": ("top_p",),
    "minp": ("min_p",),
    "xtc": ("xtc",),
    "temperature": ("temperature", "dynamic_temperature"),
    "temp": ("temperature", "dynamic_temperature"),
    "adaptivep": ("adaptive_p",),
}
"""Our samplers for each of its own, as it spells them without `-` and `_`."""
SHOWN = ("temp", "top-k", "top-p", "min-p")
BREAKERS = '\\n:"*'


def read(text: str) -> Translation:
    """Return what the flags in *text* mean; those that are not given have their defaults."""
    found = Translation("llama.cpp")
    given, found.unmapped = flags(text)
    values = {**DEFAULTS, **{name: words[-1] for name, words in given.items()}}
    amounts = dict(bias(word) for word in given.get("logit-bias", []))
    order, unknown = samplers(values)
    found.unmapped += unknown
    version = whole("--mirostat", values["mirostat"])
    if version:
        tau, eta = (number(f"--{name}", values[name]) for name in ("mirostat-ent", "mirostat-lr"))
        temperature = number("--temp", values["temp"])
        found.changes = steered(version, tau, eta, temperature)
        found.notes.append("with mirostat llama.cpp uses no other sampler but the temperature")
    else:
        known = chain(values, given.get("dry-sequence-breaker", []), found)
        found.changes = {name: known[name] for name in order if name in known}
        found.order = tuple(name for name in order if name not in ("xtc", "adaptive_p"))
        absent = [f"--{name} {DEFAULTS[name]}" for name in SHOWN if name not in given]
        if absent:
            found.notes.append(f"what is not given has llama.cpp's default: {' '.join(absent)}")
        late(found)
    if amounts:
        found.changes["logit_bias"] = biases(amounts)
    found.changes |= length(given, found)
    return found


def flags(text: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of the flags that are known, by flag, and the other words."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise GptreplError(f"the flags cannot be read: {str(error).lower()}") from None
    given: dict[str, list[str]] = {}
    others: list[str] = []
    while words:
        word = words.pop(0)
        flag, sign, value = word.partition("=")
        name = flag.lstrip("-").replace("_", "-")
        name = OTHERS.get(name, name)
        if not word.startswith("-") or name not in TAKEN:
            if words and word.startswith("-") and not words[0].startswith("-"):
                word += f" {words.pop(0)}"
            others.append(word)
            continue
        if not sign and not words:
            raise GptreplError(f"{word} needs a value")
        given.setdefault(name, []).append(value if sign else words.pop(0))
    return given, others


def samplers(values: dict[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """Return our names of the samplers it runs, in its order, and those of its own we lack."""
    listed = values.get("samplers", CHAIN).split(";")
    if "sampling-seq" in values:
        listed = [LETTERS.get(letter, letter) for letter in values["sampling-seq"]]
    order: dict[str, None] = {}
    unknown: list[str] = []
    for name in filter(None, map(str.strip, listed)):
        ours = NAMES.get(name.lower().replace("-", "").replace("_", ""), ())
        order |= dict.fromkeys(ours)
        unknown += [] if ours else [f"the sampler {name}"]
    return tuple(order), unknown


def chain(values: dict[str, str], breakers: list[str], found: Translation) -> dict[str, Any]:
    """Return every sampler as the flags set it."""
    value = {name: number(f"--{name}", values[name]) for name in DEFAULTS}
    last, dry_last, top_k, allowed = (
        whole(f"--{name}", values[name])
        for name in ("repeat-last-n", "dry-penalty-last-n", "top-k", "dry-allowed-length")
    )
    temperature = max(0.0, value["temp"])
    known: dict[str, Any] = penalties(
        value["repeat-penalty"], value["presence-penalty"], value["frequency-penalty"], last
    )
    known["dry"] = {
        "multiplier": value["dry-multiplier"],
        "base": value["dry-base"],
        "allowed_length": allowed,
        "breakers": single(breakers, found),
        "window": window(dry_last),
    }
    known["top_n_sigma"] = max(0.0, value["top-nsigma"])
    known["top_k"] = max(0, top_k)
    known["typical"] = min(1.0, value["typical"])
    known["top_p"] = min(1.0, value["top-p"])
    known["min_p"] = min(1.0, max(0.0, value["min-p"]))
    known["xtc"] = {"probability": value["xtc-probability"], "threshold": value["xtc-threshold"]}
    known["temperature"] = temperature
    if value["dynatemp-range"] > 0:
        known["temperature"] = "off"
        known["dynamic_temperature"] = {
            "range": value["dynatemp-range"],
            "exponent": value["dynatemp-exp"],
            "temperature": temperature,
        }
    if value["adaptive-target"] >= 0:
        target, decay = value["adaptive-target"], value["adaptive-decay"]
        known["adaptive_p"] = {"target": target, "decay": decay}
    return known


def single(breakers: list[str], found: Translation) -> str:
    """Return the characters that break a repetition of DRY, as our setting has them."""
    if not breakers:
        return BREAKERS
    texts = [text.replace("\\n", "\n").replace("\\t", "\t") for text in breakers if text != "none"]
    found.unmapped += [
        f"--dry-sequence-breaker {text!r}, which is longer than a character"
        for text in texts
        if len(text) > 1
    ]
    escapes = {"\n": "\\n", "\t": "\\t", " ": "\\s", "\\": "\\\\"}
    return "".join(escapes.get(text, text) for text in texts if len(text) == 1)


def bias(word: str) -> tuple[int, float]:
    """Return the id and the amount of a bias such as 15043+1, 15043-inf."""
    match = re.fullmatch(r"(\d+)([+-].+)", word)
    if match is None:
        raise GptreplError(
            f"--logit-bias must be an id and an amount such as 15043-1, not {word!r}"
        )
    return int(match[1]), number("--logit-bias", match[2])


def length(given: dict[str, list[str]], found: Translation) -> dict[str, Any]:
    """Return the settings of where a text begins and ends."""
    changes: dict[str, Any] = {}
    if "seed" in given:
        changes["seed"] = whole("--seed", given["seed"][-1])
    if "reverse-prompt" in given:
        changes["stop"] = [text.replace("\\n", "\n") for text in given["reverse-prompt"]]
    if "predict" in given:
        limit = whole("--predict", given["predict"][-1])
        if limit >= 0:
            changes["max_new_tokens"] = limit
        else:
            found.unmapped.append(f"--predict {limit}, a text without a limit")
    return changes


def late(found: Translation) -> None:
    """Say where the order of the two tools cannot be the same."""
    probability = found.changes.get("xtc", {}).get("probability", 0)
    is_scaled = found.changes.get("temperature", "off") not in ("off", 1.0)
    if probability > 0 and (is_scaled or "dynamic_temperature" in found.changes):
        found.unmapped.append(
            "xtc before the temperature: here it is the last, which differs unless --temp is 1"
        )
