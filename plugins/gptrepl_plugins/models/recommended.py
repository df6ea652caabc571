"""The sampling that a model's makers recommend: generation_config.json as settings.

They are offered, never applied in silence. Only a file that says whether to sample recommends
anything: most files hold the ids of special tokens and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_NAMES = {
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical",
    "epsilon_cutoff": "epsilon",
    "eta_cutoff": "eta",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "max_new_tokens": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
}
_DEFAULTS = {"temperature": 1.0, "top_k": 50}
"""What transformers takes where a file says to sample and not how."""


def read(folder: Path) -> dict[str, Any]:
    """Return the recommended settings by name; none where there is no file that has any."""
    try:
        given = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(given, dict) or not isinstance(given.get("do_sample"), bool):
        return {}
    found = {name: given[key] for key, name in _NAMES.items() if given.get(key) is not None}
    if given["do_sample"]:
        values = {name: given.get(name) for name in _DEFAULTS}
        found |= {n: _DEFAULTS[n] if value is None else value for n, value in values.items()}
    else:
        found |= {"temperature": 0, "top_k": 0}
    return found
