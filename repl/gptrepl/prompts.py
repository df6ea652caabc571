"""Prompts that are read from files, exactly as sample.py reads them."""

from __future__ import annotations

from pathlib import Path

from .api import GptreplError
from .settings import Settings


def start_of(settings: Settings) -> str:
    """Return the text to start from; `FILE:prompt.txt` is the text of that file."""
    is_file = settings.start.startswith("FILE:")
    return read_prompt(settings.start.removeprefix("FILE:")) if is_file else settings.start


def read_prompt(path: str) -> str:
    """Return the text of a file exactly as sample.py reads it: UTF-8, any newline is a newline."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GptreplError(
            f"{path} is not UTF-8 text: byte {error.start} is no character"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: no name can hold a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise GptreplError(f"cannot read {path!r}: {reason}") from None
