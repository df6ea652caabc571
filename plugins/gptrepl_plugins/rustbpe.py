"""The tokenizer of nanochat, tokenizer.pkl: a pickled encoding of tiktoken, read as plain data.

Nothing in the pickle runs: the one class that it may name is replaced by a stand-in that keeps
what was stored, and tiktoken makes an encoding of that only after every part was looked at.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gptrepl.api import GptreplError

if TYPE_CHECKING:
    from tiktoken import Encoding

FILE = "tokenizer.pkl"
BOS = "<|bos|>"
USER = ("<|user_start|>", "<|user_end|>")
ASSISTANT = ("<|assistant_start|>", "<|assistant_end|>")
_LARGEST = 100_000_000  # bytes; a vocabulary of 65,536 takes about one million
_PARTS = {"name", "pat_str", "mergeable_ranks", "special_tokens"}


class NanochatTokenizer:
    """The byte-pair encoding that nanochat trained, with the signs of its conversations."""

    def __init__(self, path: str):
        """Read a tokenizer.pkl, or the one in a folder."""
        if not path:
            raise GptreplError(f"nanochat needs its tables: give them as nanochat:PATH/{FILE}")
        place = Path(path).expanduser()
        self._encoding, signs = _read(place / FILE if place.is_dir() else place)
        self.special = frozenset(signs.values())
        """The ids that speak of a text and are no part of it, such as `<|bos|>`."""
        self.start = (signs[BOS],)
        """The id that stands before every text."""
        self.end = frozenset(signs[sign] for sign in (ASSISTANT[1], BOS) if sign in signs)
        """The ids that end a turn, or a text: another one begins."""
        self.render = _conversation if signs.keys() >= {*USER, *ASSISTANT} else None
        """Writes a conversation as nanochat has it, if the vocabulary has the signs for one."""

    @property
    def vocab_size(self) -> int:
        """The number of ids, signs included."""
        return self._encoding.n_vocab

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*; the signs in it are recognised, none are added.

        Raise GptreplError where the pattern gives up, as on a million spaces.
        """
        try:
            return self._encoding.encode(text, allowed_special="all")
        except ValueError as error:
            raise GptreplError(f"the text cannot be split into words: {error}") from error

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id, possibly a part of a character; a sign is its name."""
        return self._encoding.decode_single_token_bytes(token)


def _conversation(messages: Sequence[Mapping[str, str]]) -> str:
    """Return a conversation up to where the assistant's next turn begins.

    What the system says stands before the user's first turn, above an empty line: nanochat has
    no sign for it. The turns alternate, and the user has the first one; where a turn of the
    user's follows another, the answer between them was empty.
    """
    turns = [(message["role"], message["content"]) for message in messages]
    if turns and turns[0][0] == "system":
        if len(turns) < 2 or turns[1][0] != "user":
            raise GptreplError("nanochat writes what the system says into the user's first turn")
        turns[:2] = [("user", f"{turns[0][1]}\n\n{turns[1][1]}")]
    text, due = BOS, "user"
    for number, (role, content) in enumerate(turns, 1):
        if role == "user" and due == "assistant":
            text += "".join(ASSISTANT)
        elif role != due:
            raise GptreplError(
                f"a conversation of nanochat alternates, and turn {number} is the {role}'s"
            )
        opening, closing = USER if role == "user" else ASSISTANT
        text += opening + content + closing
        due = "assistant" if role == "user" else "user"
    return text if turns and due == "user" else text + ASSISTANT[0]


# --- the pickle ---------------------------------------------------------------------------------


class _Stored:
    """What a pickle stored in an encoding, and nothing else."""

    parts: Any = None

    def __setstate__(self, state: Any) -> None:
        self.parts = state


class _Unpickler(pickle.Unpickler):
    """Reads plain data and the one class that nanochat stores; it calls nothing of either."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != ("tiktoken.core", "Encoding"):
            raise GptreplError(f"it asks for {module}.{name}, which is not run")
        return _Stored


def _read(file: Path) -> tuple[Encoding, dict[str, int]]:
    """Return the encoding in a file, and its signs with their ids."""
    import tiktoken

    parts = _parts(file)
    pattern, ranks, signs = parts["pat_str"], parts["mergeable_ranks"], parts["special_tokens"]
    _check(file, pattern, ranks, signs)
    try:
        made = tiktoken.Encoding(
            "nanochat", pat_str=pattern, mergeable_ranks=ranks, special_tokens=signs
        )
    except ValueError as error:
        _refuse(file, f"its pattern does not compile: {' '.join(str(error).split())[:120]}")
    return made, signs


def _parts(file: Path) -> dict[str, Any]:
    """Return the parts of the encoding that a file holds, as they are stored."""
    try:
        with file.open("rb") as stream:
            if file.stat().st_size > _LARGEST:
                _refuse(file, f"it is larger than {_LARGEST / 1e6:.0f} MB")
            stored = _Unpickler(stream).load()
    except OSError as error:
        raise GptreplError(f"{file} cannot be read: {error.strerror}") from error
    except GptreplError as error:
        if str(error).startswith(str(file)):
            raise
        raise GptreplError(f"{file} is refused: {error}") from None
    except Exception as error:  # a broken pickle fails in as many ways as there are opcodes
        raise GptreplError(f"{file} is no tokenizer of nanochat: it cannot be unpickled") from error
    parts = stored.parts if isinstance(stored, _Stored) else None
    if isinstance(parts, str):
        _refuse(file, f"it stands for tiktoken's own encoding {parts!r} and holds no tables")
    if not isinstance(parts, dict) or set(parts) != _PARTS:
        _refuse(file, f"it is no encoding of tiktoken, which has {', '.join(sorted(_PARTS))}")
    return parts


def _check(file: Path, pattern: Any, ranks: Any, signs: Any) -> None:
    """Refuse tables of other types, and such as would make tiktoken fail on some text."""
    if not isinstance(pattern, str) or not pattern:
        _refuse(file, "its pattern is no text")
    for what, table, kind in (("tokens", ranks, bytes), ("signs", signs, str)):
        if type(table) is not dict or not table:
            _refuse(file, f"it lists no {what}")
        if not all(type(key) is kind and key and type(id) is int for key, id in table.items()):
            _refuse(file, f"its {what} are not {kind.__name__} with an id each")
    if sorted([*ranks.values(), *signs.values()]) != list(range(len(ranks) + len(signs))):
        _refuse(file, "it does not list a token for each id from 0 on")
    if not all(bytes([byte]) in ranks for byte in range(256)):
        _refuse(file, "it lacks tokens for some of the 256 bytes")
    if BOS not in signs:
        _refuse(file, f"it has no {BOS}, with which every text of nanochat begins")


def _refuse(file: Path, why: str) -> NoReturn:
    raise GptreplError(f"{file} is no tokenizer of nanochat: {why}")
