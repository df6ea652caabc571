"""GGUF files, the format of llama.cpp: found, and weighed before transformers reads them.

transformers turns their weights into the dtype the model is loaded in, so that a small file may
become a large model; how large is said, and refused if this machine cannot hold it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gptrepl.api import LoadError, LoadOptions

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def only(folder: Path) -> Path | None:
    """Return the GGUF file of a folder that holds exactly one and no other model."""
    if (folder / "config.json").exists() or (folder / "ckpt.pt").exists():
        return None
    found = sorted(folder.glob("*.gguf"))
    return found[0] if len(found) == 1 else None


def weigh(path: Path, options: LoadOptions) -> None:
    """Say how much memory a file will take; raise LoadError if it cannot be read or is too large.

    The number is that of the weights alone.
    """
    if find_spec("gguf") is None:
        raise LoadError(f"{path} is a GGUF file: pip install 'gptrepl[gguf]' to read it")
    from gguf import GGUFReader

    try:
        with path.open("rb") as stream:
            head = stream.read(4)
        if head != b"GGUF":
            raise LoadError(f"{path} is not a GGUF file, or it is damaged: copy it again")
        tensors = GGUFReader(path).tensors
    except LoadError:
        raise
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # a damaged file fails in as many ways as it has bytes
        raise LoadError(f"{path} is damaged or truncated: copy it again") from error
    needed = sum(int(tensor.n_elements) for tensor in tensors) * _BYTES[options.dtype]
    held = memory()
    size = f"{needed / 1e9:.2f} GB of memory as {options.dtype}"
    if options.device == "cpu" and held is not None and needed > held:
        smaller = "" if _BYTES[options.dtype] == 2 else ", or try :dtype bfloat16"
        raise LoadError(
            f"{path} needs {size} and this machine has {held / 1e9:.2f} GB: take a smaller"
            f" model{smaller}"
        )
    options.note(f"{path} takes {size}; its file is {path.stat().st_size / 1e9:.2f} GB")


@contextlib.contextmanager
def reporting(path: Path, options: LoadOptions) -> Iterator[None]:
    """Have transformers report how far it is with a file, instead of drawing a bar of its own."""
    from transformers import modeling_gguf_pytorch_utils

    reader: Any = modeling_gguf_pytorch_utils
    drawn = getattr(reader, "tqdm", None)

    def steps(tensors: Iterable[Any], **_: Any) -> Iterator[Any]:
        listed = list(tensors)
        for number, tensor in enumerate(listed):
            options.progress(f"reading {path}", number, len(listed))
            yield tensor

    reader.tqdm = steps
    try:
        yield
    finally:
        reader.tqdm = drawn


def memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
