"""What is required of a tokenizer, tried on texts that it can write itself."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..api import GptreplError, Tokenizer
from ..contract import no_tokenizer
from ..plugins import reason
from .result import Result, documented, required

PIECES = 60
STRANGE = ("", " ", "héllo €", "🙂", "a\nb\r\n\tc", "\x00\x1b[31m", "日本語", "x" * 500)


def results(made: Any, path: str) -> list[Result]:
    """Return what came of each requirement of a tokenizer, made for *path*."""
    undocumented = required("it is documented", documented(made))
    try:
        tokenizer = made(path)
    except GptreplError as error:
        return [
            undocumented,
            Result("it can be made", "not tried", f"{error}; give PATH by --with"),
        ]
    lacks = no_tokenizer(tokenizer)
    if lacks:
        return [undocumented, required("it can be made", lacks)]
    return [undocumented, required("it can be made", ""), *judged(tokenizer)]


def judged(tokenizer: Tokenizer) -> list[Result]:
    """Return what came of the requirements of a tokenizer that was made."""
    size = tokenizer.vocab_size
    whole = "" if isinstance(size, int) and size > 0 else f"vocab_size is {size!r}"
    if whole:
        return [required("it has a size", whole)]
    began = time.perf_counter()
    text = own_text(tokenizer)
    ids = tokenizer.encode(text)
    seconds = time.perf_counter() - began
    joined = b"".join(tokenizer.token_bytes(token) for token in ids).decode("utf-8", "replace")
    astray = "" if joined == text else f"{text[:20]!r} comes back as {joined[:20]!r}"
    twice = "" if list(tokenizer.encode(text)) == list(ids) else f"{text[:20]!r} differs"
    return [
        required("it has a size", "", f"{size:,} ids"),
        required("each id has its bytes", bytes_of_all(tokenizer)),
        required("ids are whole numbers within its size", within(ids, size)),
        required("a text comes back from its ids", astray, f"{len(text)} characters"),
        required("same in, same out", twice),
        required("what it cannot write is refused in one line", refusals(tokenizer)),
        required("the end of a text is one of its ids", end(tokenizer)),
        Result("it is quick", "ok" if seconds < 1 else "slow", f"{seconds * 1e3:.1f} ms"),
    ]


def own_text(tokenizer: Tokenizer) -> str:
    """Return a text of characters that the tokenizer has ids for."""
    step = max(1, tokenizer.vocab_size // PIECES)
    pieces = [tokenizer.token_bytes(token) for token in range(0, tokenizer.vocab_size, step)]
    text = ""
    for piece in pieces:
        try:
            sign = piece.decode("utf-8")
            tokenizer.encode(sign)
        except (GptreplError, UnicodeDecodeError):
            continue
        text += sign
    return text


def bytes_of_all(tokenizer: Tokenizer) -> str:
    """Return which id has no bytes, or an empty text."""
    for token in range(tokenizer.vocab_size):
        try:
            piece = tokenizer.token_bytes(token)
        except Exception as error:
            return f"token_bytes({token}) raises {reason(error)}"
        if not isinstance(piece, bytes):
            return f"token_bytes({token}) is {type(piece).__name__}"
    return ""


def within(ids: Any, size: int) -> str:
    """Return what is wrong with the ids of a text, or an empty text."""
    if not isinstance(ids, list) or not all(type(token) is int for token in ids):
        return f"encode gives {type(ids).__name__}, not a list of whole numbers"
    outside = [token for token in ids if not 0 <= token < size]
    return f"encode gives {outside[0]}, which is none of 0 to {size - 1}" if outside else ""


def refusals(tokenizer: Tokenizer) -> str:
    """Return how a text that cannot be written is refused wrongly, or an empty text."""
    for text in STRANGE:
        try:
            fault = within(tokenizer.encode(text), tokenizer.vocab_size)
        except GptreplError as error:
            fault = (
                f"the refusal has {len(str(error).splitlines())} lines"
                if "\n" in str(error)
                else ""
            )
        except Exception as error:
            fault = f"it raises {reason(error)}"
        if fault:
            return f"{fault} for {text[:20]!r}"
    return ""


def end(tokenizer: Tokenizer) -> str:
    """Return what is wrong with the ids that end a text, or an empty text."""
    known = getattr(tokenizer, "end", None)
    ends = known if isinstance(known, Iterable) else () if known is None else (known,)
    return within([*ends], tokenizer.vocab_size)
