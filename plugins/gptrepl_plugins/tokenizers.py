"""Text to ids and ids to bytes: the alphabet of a character model, and the BPE of GPT-2.

A tokenizer is made from the path the user gave after its name, or an empty string. Nothing
that is read here can run code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gptrepl.api import GptreplError
from gptrepl_plugins import pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SHOWN = 5  # of many characters, the first ones are named
_TABLES = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"


class CharTokenizer:
    """One id for each character of an alphabet, as nanoGPT's meta.pkl lists it."""

    def __init__(self, path: str):
        """Read the alphabet from a meta.pkl, or from the folder that holds one."""
        if not path:
            raise GptreplError("char needs the alphabet: give it as char:PATH/meta.pkl")
        self._file = Path(path).expanduser()
        if self._file.is_dir():
            self._file /= "meta.pkl"
        self._characters, self._ids = _alphabet(self._file)

    @property
    def vocab_size(self) -> int:
        """The number of characters."""
        return len(self._characters)

    def encode(self, text: str) -> list[int]:
        """Return the id of each character; raise GptreplError if one has none."""
        try:
            return [self._ids[character] for character in text]
        except KeyError:
            raise GptreplError(self._unknown(text)) from None

    def token_bytes(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a character."""
        return self._characters[token].encode("utf-8", "surrogatepass")

    def _unknown(self, text: str) -> str:
        """Return the refusal of a text: its characters outside the alphabet, and where."""
        places: dict[str, list[int]] = {}
        for place, character in enumerate(text, 1):
            if character not in self._ids:
                places.setdefault(character, []).append(place)
        named = "; ".join(
            f"{character!r} at position {_some([str(place) for place in at])}"
            for character, at in list(places.items())[:_SHOWN]
        )
        more = f"; {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        subject = "a character" if len(places) == 1 else f"{len(places)} characters"
        alphabet = len(self._ids)
        return f"the text has {subject} outside the alphabet of {alphabet}: {named}{more}"


class TiktokenTokenizer:
    """The byte-pair encoding of GPT-2, 50,257 ids; `<|endoftext|>` is one of them, 50256."""

    end = 50256
    """The id of `<|endoftext|>`."""

    def __init__(self, path: str = ""):
        """Read the tables from tiktoken's cache, or download them; *path* is not used."""
        if path:
            raise GptreplError(f"the gpt2 tokenizer takes no path, and '{path}' was given")
        import tiktoken

        try:
            self._encoding = tiktoken.get_encoding("gpt2")
        except (OSError, ValueError) as error:  # no network, or an answer that is not the table
            raise GptreplError(_missing_tables()) from error

    @property
    def vocab_size(self) -> int:
        """50257."""
        return self._encoding.n_vocab

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*; raise GptreplError where its pattern gives up.

        It does so on a million spaces in a row.
        """
        try:
            return self._encoding.encode(text, allowed_special={"<|endoftext|>"})
        except ValueError as error:
            raise GptreplError(f"the text cannot be split into words: {error}") from error

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id, possibly a part of a character."""
        return self._encoding.decode_single_token_bytes(token)


class HuggingFaceTokenizer:
    """A vocabulary as Hugging Face stores it: tokenizer.json, or vocab.json and merges.txt."""

    FILES = ("tokenizer.json", "vocab.json")
    """A folder with one of these has a tokenizer of its own."""

    def __init__(self, path: str):
        """Read the tables from a folder, or from a tokenizer.json."""
        if not path:
            raise GptreplError("huggingface needs its tables: give them as huggingface:FOLDER")
        place = Path(path).expanduser()
        self._take(pieces.read(place), str(place))

    @classmethod
    def of(cls, tables: Tokenizer, where: str, limit: int | None = None) -> Self:
        """Return the tokenizer of tables that are read already; *where* names them in errors.

        Ids from *limit* on are not drawn, though a text may be written with them.
        """
        made = cls.__new__(cls)
        made._take(tables, where)
        made._size = min(made._size, limit or made._size)
        return made

    def _take(self, tables: Tokenizer, where: str) -> None:
        self._tokenizer = tables
        self._spell = pieces.spelling(tables, where)
        added = tables.get_added_tokens_decoder()
        self._added = {token: entry.content for token, entry in added.items()}
        self._size = max(tables.get_vocab(with_added_tokens=True).values()) + 1
        self.special = frozenset(token for token, entry in added.items() if entry.special)
        """The ids that speak of a text and are no part of it, such as `</s>`."""
        self.start = pieces.opening(tables)
        """The ids that stand before every text, such as `<s>`."""
        self.end: int | frozenset[int] | None = tables.token_to_id("<|endoftext|>")
        """The ids that end a text, if there are any."""
        self.render: Callable[[Sequence[Mapping[str, str]]], str] | None = None
        """Writes a conversation as the model's own template has it, if there is one."""

    @property
    def vocab_size(self) -> int:
        """The highest id and one."""
        return self._size

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*; its special tokens are recognised, none are added."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id, possibly a part of a character; none for an unused id."""
        if token in self._added:
            return self._added[token].encode()
        return self._spell(self._tokenizer.id_to_token(token) or "")


def _some(names: list[str]) -> str:
    """Return the first of many names in a row."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


# --- meta.pkl -----------------------------------------------------------------------------------


class _Unpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries; it constructs no class and calls nothing."""

    def find_class(self, module: str, name: str) -> Any:
        raise GptreplError(f"it asks for {module}.{name}, which is not run")


def _alphabet(file: Path) -> tuple[list[str], dict[str, int]]:
    """Return the characters by id and the ids by character."""
    try:
        with file.open("rb") as stream:
            meta = _Unpickler(stream).load()
    except OSError as error:
        raise GptreplError(f"{file} cannot be read: {error.strerror}") from error
    except GptreplError as error:
        raise GptreplError(f"{file} is refused: {error}") from None
    except Exception as error:  # a broken pickle fails in as many ways as there are opcodes
        raise GptreplError(f"{file} is not a meta.pkl: it cannot be unpickled") from error
    itos, stoi = (meta.get("itos"), meta.get("stoi")) if isinstance(meta, dict) else (None, None)
    if isinstance(itos, list | tuple):
        itos = dict(enumerate(itos))
    if not isinstance(itos, dict) or not itos:
        raise GptreplError(f"{file} lists no characters: a meta.pkl has 'itos' and 'stoi'")
    if stoi is None:
        stoi = {character: token for token, character in itos.items()}
    fits = isinstance(stoi, dict) and set(itos) == set(range(len(itos)))
    if not fits or not all(isinstance(character, str) for character in itos.values()):
        raise GptreplError(f"{file} does not list a character for each id from 0 on")
    if not all(isinstance(token, int) and token in itos for token in stoi.values()):
        raise GptreplError(f"{file} gives ids in 'stoi' that 'itos' does not list")
    return [itos[token] for token in range(len(itos))], stoi


# --- the files of tiktoken ----------------------------------------------------------------------


def _missing_tables() -> str:
    """Return one line that says which of the two files are missing, and where to put them."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    place = Path(folder) if folder else Path(tempfile.gettempdir()) / "data-gym-cache"
    names = {
        url: hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
        for url in (_TABLES + "vocab.bpe", _TABLES + "encoder.json")
    }
    absent = {url: name for url, name in names.items() if not (place / name).exists()}
    missing = " and ".join(f"{url} as {name}" for url, name in (absent or names).items())
    way = f"put it in {place}" if folder else "put it in a folder and set TIKTOKEN_CACHE_DIR to it"
    return (
        f"the GPT-2 tokenizer is not on this machine and cannot be fetched: save {missing}, {way}"
    )
