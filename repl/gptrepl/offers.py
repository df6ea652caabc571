"""What Tab offers where the type of an argument does not say it, each with a line of help.

Nothing here imports torch or asks the network.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from . import chain, devices, plugins, profiles
from .api import GptreplError
from .loading import known_sources
from .settings import FIELDS, known_names

MEGABYTE = 1e6
DEVICES = {
    "auto": "the best there is",
    "cpu": "the processor",
    "cuda": "the first NVIDIA GPU",
    "mps": "the GPU of a Mac",
}


def sources() -> dict[str, str]:
    """Return what can be loaded: names, checkpoints in folders here, and the Hub's cache."""
    found = dict.fromkeys(known_sources(), "by name")
    return {**checkpoints(), **cached(), **found}


def checkpoints() -> dict[str, str]:
    """Return the folders here that hold a checkpoint, with its size."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for path in sorted(Path().glob("*/ckpt.pt")):
            size = path.stat().st_size / MEGABYTE
            found[f"{path.parent}/"] = f"a checkpoint of {size:.0f} MB"
    return found


def cached() -> dict[str, str]:
    """Return the models that were downloaded from the Hub."""
    return dict.fromkeys(sorted(repositories(hub_cache())), "in the cache of the Hub")


def hub_cache() -> Path:
    """Return the folder in which huggingface_hub keeps what it downloads."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def repositories(folder: Path) -> Iterator[str]:
    """Yield the names of the models in a cache of the Hub."""
    with contextlib.suppress(OSError):
        for path in folder.glob("models--*/snapshots"):
            yield path.parent.name.removeprefix("models--").replace("--", "/")


def profile_names() -> dict[str, str]:
    """Return the profiles with their descriptions, or what is wrong with them."""
    found: dict[str, str] = {}
    for name in profiles.found():
        try:
            found[name] = profiles.read(name).description
        except GptreplError as error:
            found[name] = str(error)
    return found


def setting_names() -> dict[str, str]:
    """Return the settings and samplers with what they do."""
    return {
        name: FIELDS[name].help if name in FIELDS else sampler_help(name) for name in known_names()
    }


def sampler_names() -> dict[str, str]:
    """Return the samplers with what they do."""
    return {name: sampler_help(name) for name in plugins.installed("samplers")}


def sampler_help(name: str) -> str:
    """Return the first line of a sampler's help, or why it does not load."""
    try:
        return chain.help_of(name).partition("\n")[0]
    except GptreplError as error:
        return str(error)


def device_names() -> dict[str, str]:
    """Return the devices; only those of this machine once torch is there to tell."""
    if "torch" not in sys.modules:
        return DEVICES
    try:
        here = ["auto", *devices.present()]
    except Exception:  # torch is being imported at this moment
        return DEVICES
    return {name: DEVICES.get(name.partition(":")[0], "") for name in here}


def tokenizer_names() -> dict[str, str]:
    """Return the tokenizers by name."""
    return {"auto": "the model's own", **dict.fromkeys(plugins.installed("tokenizers"), "")}


SETTINGS: dict[str, Callable[[], dict[str, str]]] = {
    "device": device_names,
    "model": sources,
    "tokenizer": tokenizer_names,
}
"""What is offered for settings whose annotation does not say it."""
