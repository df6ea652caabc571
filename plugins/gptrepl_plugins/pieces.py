"""What the entries of Hugging Face's vocabularies stand for in bytes.

Byte-level vocabularies write each byte as a letter; those made with sentencepiece write a space
as one sign and a byte that is no character of theirs as `<0xE2>`. Others join words by rules
that look at their neighbours, and are refused: their text could not stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import GptreplError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Spelling = Callable[[str], bytes]
"""From an entry of a vocabulary to its bytes."""

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_FITTING = {"Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"}
"""The steps of decoding that sentencepiece vocabularies have."""


def read(path: Path) -> Tokenizer:
    """Return the tables at *path*, a folder or a tokenizer.json; raise GptreplError for others."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.exists() or not path.is_dir():
            return Tokenizer.from_file(str(file))
        file = path / "vocab.json"
        found = Tokenizer(models.BPE.from_file(str(file), str(path / "merges.txt")))
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.decoder = decoders.ByteLevel()
        if found.token_to_id("<|endoftext|>") is not None:
            found.add_special_tokens(["<|endoftext|>"])
    except Exception as error:  # the library raises nothing narrower
        raise GptreplError(f"{file} is no tokenizer: {' '.join(str(error).split())}") from error
    return found


def spelling(tables: Tokenizer, where: str) -> Spelling:
    """Return what the entries of these tables stand for; *where* names them in errors."""
    steps = list(_steps(_parsed(tables.decoder)))
    kinds = {step["type"] for step in steps}
    if kinds == {"ByteLevel"}:
        return _byte_level
    if not kinds or not kinds <= _FITTING or not kinds & {"Replace", "Metaspace"}:
        named = " and ".join(sorted(kinds - _FITTING)) or "no rule at all"
        raise GptreplError(
            f"{where} is decoded by {named}: only byte-level and sentencepiece vocabularies are"
            " read here"
        )
    changes = dict(_changes(steps, where))
    has_bytes = "ByteFallback" in kinds

    def spell(entry: str) -> bytes:
        byte = _BYTE.fullmatch(entry) if has_bytes else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in changes.items():
            entry = entry.replace(old, new)
        return entry.encode()

    return spell


def opening(tables: Tokenizer) -> tuple[int, ...]:
    """Return the ids that these tables put before a text, such as `<s>`."""
    encoded = tables.encode("a")
    signs = list(zip(encoded.ids, encoded.special_tokens_mask, strict=True))
    length = next((place for place, (_, special) in enumerate(signs) if not special), 0)
    return tuple(encoded.ids[:length])


def _parsed(decoder: Any) -> dict[str, Any]:
    if decoder is None:
        return {"type": "Sequence", "decoders": []}
    parsed: dict[str, Any] = json.loads(decoder.__getstate__())
    return parsed


def _steps(decoder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a decoder, those of a sequence one by one."""
    if decoder["type"] != "Sequence":
        yield decoder
        return
    for step in decoder["decoders"]:
        yield from _steps(step)


def _changes(steps: list[Mapping[str, Any]], where: str) -> Iterator[tuple[str, str]]:
    """Yield what each step replaces in an entry, and by what."""
    for step in steps:
        if step["type"] == "Metaspace":
            yield step["replacement"], " "
        elif step["type"] == "Replace":
            pattern = step["pattern"].get("String")
            if pattern is None:
                raise GptreplError(f"{where} is decoded by an expression, which is not read here")
            yield pattern, step["content"]


def _letters() -> dict[str, int]:
    """Return the byte for each letter that byte-level tables write it with.

    Printable Latin-1 stands for itself; the other bytes, in order, for the letters from 256 on.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTES = _letters()


def _byte_level(entry: str) -> bytes:
    """Return the bytes that the letters of an entry stand for; any other text is itself."""
    try:
        return bytes(_BYTES[letter] for letter in entry)
    except KeyError:
        return entry.encode()
