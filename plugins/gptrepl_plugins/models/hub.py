"""Files of the Hugging Face Hub: found in the cache of huggingface_hub, or downloaded once.

What is in the cache is used as it is, without asking the network whether it has changed.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from gptrepl.api import LoadError, LoadOptions

PUBLISHED = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
"""The names under which OpenAI's weights are known."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_FILES = ("config.json", "tokenizer.json", "model.safetensors")
_TABLES = (".json", ".model", ".txt", ".jinja")
"""How the small files end that configurations, tokenizers and templates are read from."""
_PATIENCE = 10.0  # seconds for the first answer of the hub


def folder(name: str, options: LoadOptions) -> Path:
    """Return the folder that holds the files of a published model, downloaded if need be.

    Raise LoadError if there is no such model, or if it is not here and cannot be fetched.
    """
    if name not in PUBLISHED:
        near = difflib.get_close_matches(name, PUBLISHED, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PUBLISHED)}"
        raise LoadError(f"no published GPT-2 is named '{name}' ({hint})")
    return cached(name) or cached(f"openai-community/{name}") or _download(name, options, _FILES)


def repository(name: str, options: LoadOptions) -> Path:
    """Return the folder that holds the model `ORGANISATION/NAME`, downloaded if need be.

    Raise LoadError if there is none, if its weights are not in safetensors, or if it is not here
    and cannot be fetched. Code is fetched only where it may run.
    """
    return cached(name) or _download(name, options, None)


def cached(name: str) -> Path | None:
    """Return the folder of a repository in the cache, if configuration and weights are there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    if not isinstance(found, str):
        return None
    place = Path(found).parent
    index = place / "model.safetensors.index.json"
    if index.exists():
        parts = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return place if all((place / part).exists() for part in parts) else None
    whole = any((place / file).exists() for file in _WEIGHTS) or any(place.glob("*.safetensors"))
    return place if whole else None


def _download(name: str, options: LoadOptions, files: Sequence[str] | None) -> Path:
    """Fetch *files* of a repository; None: those that a model is read from."""
    import huggingface_hub

    place = Path()
    with _asking(name), quiet():
        # One question first: without a network the download itself asks six times.
        if files is None:
            listed = huggingface_hub.HfApi().model_info(name, timeout=_PATIENCE).siblings or ()
            files = _wanted(name, [entry.rfilename for entry in listed], options)
        else:
            url = huggingface_hub.hf_hub_url(name, files[0])
            huggingface_hub.get_hf_file_metadata(url, timeout=_PATIENCE)
        for file in files:
            path = huggingface_hub.hf_hub_download(
                name, file, tqdm_class=_bar(f"downloading {file} of {name}", options.progress)
            )
            place = Path(path).parent
    return place


def _wanted(name: str, listed: Sequence[str], options: LoadOptions) -> list[str]:
    """Return the files of a repository that a model is read from, the small ones first."""
    own = [file for file in listed if "/" not in file]
    weights = [file for file in own if file.endswith(".safetensors")]
    weights = [file for file in weights if file.startswith("model")] or weights
    if not weights:
        ggufs = [file for file in listed if file.endswith(".gguf")]
        if ggufs:
            raise LoadError(f"{name} holds GGUF files: download {ggufs[0]} and load that")
        raise LoadError(f"{name} has no weights in safetensors, the only ones that are fetched")
    kinds = (*_TABLES, ".py") if options.trust_remote_code else _TABLES
    return [*(file for file in own if file.endswith(kinds)), *weights]


@contextlib.contextmanager
def _asking(name: str) -> Iterator[None]:
    """Turn whatever goes wrong with the hub into one line."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except LoadError:
        raise
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "no status")
        hint = " (no such model, or one that needs your HF_TOKEN)" if status in (401, 403) else ""
        raise LoadError(f"{name} cannot be downloaded: the hub answers {status}{hint}") from error
    except Exception as error:  # whatever a network can do; an interrupt is none of them
        raise LoadError(
            f"{name} is not on this machine and {_reason()}: put its {_FILES[0]},"
            f" {_FILES[1]} and {_FILES[2]} into a folder and load that"
        ) from error


def _reason() -> str:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids the download"
    return f"{constants.ENDPOINT} cannot be reached"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the hub's own remarks off the screen."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _bar(what: str, progress: Callable[[str, int, int | None], None]) -> Any:
    """Return what the hub takes for a class of progress bars; its bars draw nothing."""

    class Bar:
        def __init__(self, *_: Any, total: int | None = None, initial: int = 0, **__: Any):
            self.total, self.done = total, initial

        def update(self, size: float | None = 1) -> None:
            self.done += int(size or 0)
            progress(what, self.done, self.total)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None  # speeds and postfixes, which nobody sees

    return Bar
