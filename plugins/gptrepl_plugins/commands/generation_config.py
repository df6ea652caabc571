"""The generation_config.json of transformers.

Its processors run in our default order. Unless `do_sample` is true it decodes greedily, whatever
else the file says; a top_k that is not there is 50.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gptrepl.api import GptreplError
from gptrepl_plugins.commands.translation import Translation, biases

WARPERS = {
    "temperature": ("temperature", 1.0),
    "top_h": ("top_h", None),
    "top_k": ("top_k", 50),
    "top_p": ("top_p", 1.0),
    "min_p": ("min_p", None),
    "typical_p": ("typical", 1.0),
    "epsilon_cutoff": ("epsilon", 0.0),
    "eta_cutoff": ("eta", 0.0),
}
"""Our samplers for the ones that only sampling uses, and what null means there."""
ALWAYS = {
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "max_new_tokens": "max_new_tokens",
    "num_return_sequences": "num_samples",
    "stop_strings": "stop",
}
"""Our settings for what is used in any case."""
SILENT = {
    "bos_token_id",
    "pad_token_id",
    "transformers_version",
    "use_cache",
    "renormalize_logits",
    "remove_invalid_values",
    "cache_implementation",
    "return_dict_in_generate",
    "eos_token_id",
}
"""Keys that make no difference to what is drawn, and the one that `ends` reads."""
END_OF_GPT2 = (50256, [50256])
"""What our min_new_tokens holds back unless it is told otherwise."""
PLAIN = {"num_beams": 1, "length_penalty": 1.0, "encoder_repetition_penalty": 1.0}
"""Values of others that mean nothing special."""


def read(path: Path) -> Translation:
    """Return what the file says; raise GptreplError if it cannot be read."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GptreplError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise GptreplError(f"{path} is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise GptreplError(f"{path} holds no settings: a generation_config.json is an object")
    return translate(config)


def translate(config: dict[str, Any]) -> Translation:
    """Return what a configuration means."""
    found = Translation("transformers")
    given = {name: value for name, value in config.items() if value is not None}
    warp(given, found)
    for name, ours in ALWAYS.items():
        if name in given:
            found.changes[ours] = given[name]
    penalty = found.changes.get("repetition_penalty")
    if penalty is not None:
        found.changes["repetition_penalty"] = {"penalty": penalty, "window": "all"}
    amounts = fixed(given, found)
    if amounts:
        found.changes["logit_bias"] = biases(amounts)
    if given.get("min_new_tokens") and given.get("eos_token_id") in END_OF_GPT2:
        found.changes["min_new_tokens"] = given.pop("min_new_tokens")
    if "eos_token_id" in given:
        found.changes["stop_at_end"] = True
        found.notes.append("a text ends at the tokenizer's own end, whatever eos_token_id says")
    known = {*WARPERS, *ALWAYS, *SILENT, "do_sample", *BANS, "sequence_bias"}
    found.unmapped += [
        f"{name} {json.dumps(value)}"
        for name, value in given.items()
        if name not in known and not name.startswith(("_", "output_")) and differs(name, value)
    ]
    return found


def warp(given: dict[str, Any], found: Translation) -> None:
    """Add the samplers that transformers uses when it samples, or greed when it does not."""
    if given.get("do_sample") is not True:
        found.changes["temperature"] = 0
        idle = [f"{name} {given[name]}" for name in WARPERS if name in given]
        also = f", so {', '.join(idle)} have no effect" if idle else ""
        found.notes.append(f"do_sample is not true: transformers decodes greedily{also}")
        return
    for name, (ours, default) in WARPERS.items():
        value = given.get(name, default)
        if value is not None:
            found.changes[ours] = value
    if "top_k" not in given:
        found.notes.append("top_k is not given: transformers takes 50")


BANS = ("suppress_tokens", "bad_words_ids")


def fixed(given: dict[str, Any], found: Translation) -> dict[int, float]:
    """Return the amounts that are added to single tokens; say which sequences are left out."""
    amounts: dict[int, float] = {}
    biased = given.get("sequence_bias", [])
    pairs = biased.items() if isinstance(biased, dict) else biased
    for tokens, amount in pairs:
        put(amounts, tokens, float(amount), "sequence_bias", found)
    for token in given.get("suppress_tokens", []):
        put(amounts, token, -float("inf"), "suppress_tokens", found)
    for tokens in given.get("bad_words_ids", []):
        put(amounts, tokens, -float("inf"), "bad_words_ids", found)
    return amounts


def put(
    amounts: dict[int, float], tokens: Any, amount: float, name: str, found: Translation
) -> None:
    """Add an amount for one token; a sequence of several has no place here."""
    single = tokens if isinstance(tokens, int) else tokens[0] if len(tokens) == 1 else None
    if isinstance(single, int):
        amounts[single] = amounts.get(single, 0.0) + amount
    else:
        found.unmapped.append(f"{name} of {tokens}, which is not one token")


def differs(name: str, value: Any) -> bool:
    """Return whether a value asks for something that we lack."""
    return bool(value) and value != PLAIN.get(name)
