"""Reads a PyTorch file without running anything in it, or says in one line what it is instead.

`torch.load` is only ever called with `weights_only=True`. Metadata of a few harmless types
becomes a `Record`, which holds what was stored and can do nothing; any other type is refused.
"""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from gptrepl.api import LoadError

_HARMLESS = re.compile(
    r"numpy\.[\w.]+"
    r"|pathlib\.(_local\.)?\w*Path"
    r"|argparse\.Namespace|types\.SimpleNamespace"
    r"|datetime\.\w+"
    r"|[\w.]+\.\w*(Config|Configuration|Args|Arguments|HParams|Params|Settings|Options)"
)
_WANTED = re.compile(r"GLOBAL ([\w.]+\w)")
_TYPES = 50  # more kinds of metadata than this in one file is not metadata


class Record:
    """An object of a class that is not loaded: what was stored in it, and nothing else."""

    args: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *args: Any):
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state

    @property
    def fields(self) -> dict[str, Any]:
        """The attributes of a configuration object; empty if it is none."""
        state = self.state[-1] if isinstance(self.state, tuple) else self.state
        return dict(state) if isinstance(state, dict) else {}


def read(path: Path) -> Any:
    """Return what a `.pt` file holds, its tensors mapped from the file where that is possible.

    Raise LoadError naming the file and what is wrong with it.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(512)
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from error
    other = recognise(head)
    if other:
        raise LoadError(f"{path} is {other}")
    zipped = head.startswith(b"PK")
    if zipped and not zipfile.is_zipfile(path):
        raise LoadError(f"{path} is truncated: copy it again")
    return _load(path, mmap=zipped)


def recognise(head: bytes) -> str:
    """Return what a file beginning with *head* is, if it is no PyTorch file."""
    start = head.lstrip().lower()
    if not head:
        return "empty: copy it again"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the checkpoint: run git lfs pull"
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a saved web page, not a checkpoint: download the file itself"
    if head.startswith(b"GGUF"):
        return "a GGUF file, llama.cpp's format: give the PyTorch checkpoint it was made of"
    if head[:4] in _LLM_C:
        return "an llm.c file: give the PyTorch checkpoint it was made of"
    if head[8:9] == b"{":
        return "a safetensors file: give the folder that holds it and its config.json"
    if not head.startswith((b"PK", b"\x80")):
        return "not a PyTorch checkpoint"
    return ""


_LLM_C = {struct.pack("<i", 20240326), struct.pack("<i", 20240520)}


def _load(path: Path, mmap: bool) -> Any:
    """Load, adding a stand-in for each harmless type that is asked for."""
    stand_ins: dict[str, Any] = {}
    for _ in range(_TYPES):
        safe: list[Any] = [(value, name) for name, value in stand_ins.items()]
        try:
            with torch.serialization.safe_globals(safe):
                return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        except UnpicklingError as error:
            wanted = _WANTED.search(str(error))
            if wanted is None or wanted[1] in stand_ins:
                raise LoadError(f"{path} cannot be read safely: {_reason(error)}") from error
            stand_ins[wanted[1]] = _stand_in(path, wanted[1])
        except MemoryError as error:
            raise LoadError(f"{path} does not fit into memory") from error
        except Exception as error:  # a damaged file fails in as many ways as it has bytes
            raise LoadError(f"{path} is damaged or no checkpoint: {_reason(error)}") from error
    raise LoadError(f"{path} is refused: it holds objects of more than {_TYPES} types")


def _stand_in(path: Path, name: str) -> Any:
    if not _HARMLESS.fullmatch(name):
        raise LoadError(f"{path} is refused: it holds an object of type {name}, which is not run")
    return _scalar if name.endswith("multiarray.scalar") else Record


def _scalar(kind: Record, data: Any = b"") -> Any:
    """Return a NumPy scalar as a Python number; what is no number stays a Record."""
    name = str(kind.args[0]) if kind.args else ""
    order = ">" if isinstance(kind.state, tuple) and ">" in kind.state else "<"
    if name not in _FORMATS or not isinstance(data, bytes):
        return Record(kind, data)
    return struct.unpack(order + _FORMATS[name], data)[0]


_FORMATS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "f2": "e", "f4": "f", "f8": "d"}
_FORMATS |= {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}


def _reason(error: Exception) -> str:
    """Return the sentence of an error that says most, on one line and without colours."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    found = re.search(r"WeightsUnpickler error: *([^\n]+)", text)
    first = found[1] if found else text.split("\n", 1)[0]
    return first.strip()[:120] or type(error).__name__
