"""The published GPT-2 weights: found in the cache of huggingface_hub, or downloaded into it once.

What is in the cache is used as it is, without asking the network whether it has changed.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from gptrepl.api import LoadError, LoadOptions

PUBLISHED = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
"""The names under which OpenAI's weights are known."""

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_FILES = ("config.json", "tokenizer.json", "model.safetensors")
_PATIENCE = 10.0  # seconds for the first answer of the hub


def folder(name: str, options: LoadOptions) -> Path:
    """Return the folder that holds the files of a published model, downloaded if need be.

    Raise LoadError if there is no such model, or if it is not here and cannot be fetched.
    """
    if name not in PUBLISHED:
        near = difflib.get_close_matches(name, PUBLISHED, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PUBLISHED)}"
        raise LoadError(f"no published GPT-2 is named '{name}' ({hint})")
    return _cached(name) or _cached(f"openai-community/{name}") or _download(name, options)


def _cached(repository: str) -> Path | None:
    """Return the folder of a repository in the cache, if configuration and weights are there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, "config.json")
    if not isinstance(found, str):
        return None
    place = Path(found).parent
    return place if any((place / weights).exists() for weights in _WEIGHTS) else None


def _download(name: str, options: LoadOptions) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    place = Path()
    try:
        with _quiet():
            # One question first: without a network the download itself asks six times.
            url = huggingface_hub.hf_hub_url(name, _FILES[0])
            huggingface_hub.get_hf_file_metadata(url, timeout=_PATIENCE)
            for file in _FILES:
                path = huggingface_hub.hf_hub_download(
                    name, file, tqdm_class=_bar(f"downloading {file} of {name}", options.progress)
                )
                place = Path(path).parent
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "no status")
        raise LoadError(f"{name} cannot be downloaded: the hub answers {status}") from error
    except Exception as error:  # whatever a network can do; an interrupt is none of them
        raise LoadError(
            f"{name} is not on this machine and {_reason()}: put its {_FILES[0]},"
            f" {_FILES[1]} and {_FILES[2]} into a folder and load that"
        ) from error
    return place


def _reason() -> str:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids the download"
    return f"{constants.ENDPOINT} cannot be reached"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
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
