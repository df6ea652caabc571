"""The tokenizer of nanochat: its ids, its conversations, and what a pickle is refused for."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken

from gptrepl.api import GptreplError
from gptrepl.conformance import check
from gptrepl_plugins.rustbpe import NanochatTokenizer

PATTERN = r"'(?i:[sdmt]|ll)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}|\s*[\r\n]|\s+(?!\S)|\s+|[^\s]"
MERGES = [b"he", b"ll", b"hell", b" w", b"or", b"\n\n"]
SIGNS = ["bos", "user_start", "user_end", "assistant_start", "assistant_end"]
SIGNS += ["python_start", "python_end", "output_start", "output_end"]
RANKS = {bytes([n]): n for n in range(256)} | {pair: 256 + n for n, pair in enumerate(MERGES)}
SPECIAL = {f"<|{name}|>": len(RANKS) + n for n, name in enumerate(SIGNS)}
BOS, USER_START, USER_END, ASSISTANT_START, ASSISTANT_END = list(SPECIAL.values())[:5]
SIZE = len(RANKS) + len(SPECIAL)


def encoding(**changes: Any) -> tiktoken.Encoding:
    """An encoding as nanochat makes it of what it has learnt."""
    parts = {"pat_str": PATTERN, "mergeable_ranks": RANKS, "special_tokens": SPECIAL}
    return tiktoken.Encoding("rustbpe", **(parts | changes))


def write(folder: Path, stored: Any) -> Path:
    """Write a tokenizer.pkl as nanochat does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.pkl").write_bytes(pickle.dumps(stored))
    return folder / "tokenizer.pkl"


@pytest.fixture
def tokenizer(tmp_path: Path) -> NanochatTokenizer:
    return NanochatTokenizer(str(write(tmp_path, encoding())))


def test_ids_are_those_of_the_encoding(tokenizer: NanochatTokenizer, tmp_path: Path) -> None:
    text = "hello world\n\nZürich 1234 \U0001f600  "
    ids = tokenizer.encode(text)
    assert ids == encoding().encode_ordinary(text)
    assert ids[:2] == [RANKS[b"hell"], ord("o")]
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text
    assert (tokenizer.vocab_size, tokenizer.encode("")) == (SIZE, [])
    assert NanochatTokenizer(str(tmp_path)).encode(text) == ids  # the folder does as well


def test_signs_are_known_and_stand_where_they_must(tokenizer: NanochatTokenizer) -> None:
    assert tokenizer.special == set(SPECIAL.values())
    assert tokenizer.start == (BOS,)
    assert tokenizer.end == {ASSISTANT_END, BOS}
    assert tokenizer.encode("a<|user_end|>b") == [ord("a"), USER_END, ord("b")]
    assert tokenizer.token_bytes(ASSISTANT_END) == b"<|assistant_end|>"


def test_it_is_a_tokenizer(tmp_path: Path) -> None:
    results = check("tokenizers", NanochatTokenizer, str(write(tmp_path, encoding())))
    assert [result for result in results if result.state != "ok"] == []


def test_a_text_that_no_pattern_splits_is_refused_in_one_line(
    tokenizer: NanochatTokenizer,
) -> None:
    with pytest.raises(GptreplError, match="cannot be split into words") as caught:
        tokenizer.encode(" " * 1_000_000 + "x")
    assert "\n" not in str(caught.value)


# --- conversations ------------------------------------------------------------------------------


def said(*contents: str, system: str = "") -> list[dict[str, str]]:
    roles = ["user", "assistant"] * len(contents)
    turns = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]
    return [{"role": "system", "content": system}, *turns] if system else turns


def rendered(tokenizer: NanochatTokenizer, messages: list[dict[str, str]]) -> list[int]:
    assert tokenizer.render is not None
    return tokenizer.encode(tokenizer.render(messages))


def test_a_conversation_has_the_ids_that_nanochat_trains_on(tokenizer: NanochatTokenizer) -> None:
    """Each content is encoded by itself, and the signs stand around it."""
    plain = encoding().encode_ordinary
    contents = ["hello world", " hell\n\n", "1234 \n", "or", "he "]
    expected = [BOS]
    for number, content in enumerate(contents):
        signs = (ASSISTANT_START, ASSISTANT_END) if number % 2 else (USER_START, USER_END)
        expected += [signs[0], *plain(content), signs[1]]
    assert rendered(tokenizer, said(*contents)) == [*expected, ASSISTANT_START]
    whole = len(plain(contents[-1])) + 2
    assert rendered(tokenizer, said(*contents[:-1])) == expected[:-whole]


def test_what_the_system_says_stands_in_the_first_turn(tokenizer: NanochatTokenizer) -> None:
    ids = rendered(tokenizer, said("hello", system="world"))
    inside = encoding().encode_ordinary("world\n\nhello")
    assert ids == [BOS, USER_START, *inside, USER_END, ASSISTANT_START]


def test_an_answer_that_was_empty_is_an_empty_turn(tokenizer: NanochatTokenizer) -> None:
    with_it = rendered(tokenizer, said("he", "", "or"))
    assert rendered(tokenizer, [*said("he"), *said("or")]) == with_it
    assert with_it[4:6] == [ASSISTANT_START, ASSISTANT_END]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (said("a", "b")[1:], "alternates, and turn 1 is the assistant's"),
        ([*said("a", "b"), *said("a", "b")[1:]], "alternates, and turn 3 is the assistant's"),
        (said(system="a"), "into the user's first turn"),
        ([*said(system="a"), *said("b", "c")[1:]], "into the user's first turn"),
        ([*said("a", "b"), *said(system="c")], "alternates, and turn 3 is the system's"),
    ],
)
def test_other_conversations_are_refused(
    tokenizer: NanochatTokenizer, messages: list[dict[str, str]], reason: str
) -> None:
    with pytest.raises(GptreplError, match=reason):
        rendered(tokenizer, messages)


def test_without_the_signs_there_is_no_conversation(tmp_path: Path) -> None:
    path = write(tmp_path, encoding(special_tokens={"<|bos|>": len(RANKS)}))
    tokenizer = NanochatTokenizer(str(path))
    assert tokenizer.render is None
    assert tokenizer.end == {len(RANKS)}


# --- files that are refused ---------------------------------------------------------------------


class Evil:
    """Runs a command where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def stored(state: Any) -> bytes:
    """The pickle of an Encoding that has *state*, as Python writes one."""
    head = pickle.PROTO + b"\x03" + pickle.GLOBAL + b"tiktoken.core\nEncoding\n"
    body = pickle.dumps(state, 3)[2:-1]
    return head + pickle.EMPTY_TUPLE + pickle.NEWOBJ + body + pickle.BUILD + pickle.STOP


def state(**changes: Any) -> dict[str, Any]:
    parts = {"name": "a", "pat_str": PATTERN, "mergeable_ranks": RANKS, "special_tokens": SPECIAL}
    return parts | changes


def without(table: dict[Any, int], key: Any) -> dict[Any, int]:
    return {name: number for name, number in table.items() if name != key}


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "code": (lambda: pickle.dumps(Evil()), r"is refused: it asks for \w+\.system, which is not"),
    "code inside": (lambda: stored(state(name=Evil())), r"asks for \w+\.system, which is not run"),
    "another class": (lambda: pickle.dumps(Path("a")), "is refused: it asks for pathlib"),
    "no pickle": (lambda: b"hello", "cannot be unpickled"),
    "half a pickle": (lambda: pickle.dumps(encoding())[:900], "cannot be unpickled"),
    "nothing": (lambda: b"", "cannot be unpickled"),
    "a dictionary": (lambda: pickle.dumps(state()), "no encoding of tiktoken"),
    "a name": (lambda: stored("gpt2"), "tiktoken's own encoding 'gpt2' and holds no tables"),
    "a part too many": (lambda: stored(state(more=1)), "no encoding of tiktoken"),
    "a class alone": (
        lambda: b"\x80\x04" + b"ctiktoken.core\nEncoding\n" + b"}b.",
        "cannot be unpickled",
    ),
    "an argument": (
        lambda: b"\x80\x04" + b"ctiktoken.core\nEncoding\n" + b"K\x01\x85R.",
        "cannot be unpickled",
    ),
    "no pattern": (lambda: stored(state(pat_str=b"a")), "its pattern is no text"),
    "a wrong pattern": (lambda: stored(state(pat_str="(")), "its pattern does not compile"),
    "no tokens": (lambda: stored(state(mergeable_ranks={})), "lists no tokens"),
    "a list": (lambda: stored(state(special_tokens=["<|bos|>"])), "lists no signs"),
    "texts for bytes": (
        lambda: stored(state(mergeable_ranks={"a": 0})),
        "tokens are not bytes with an id each",
    ),
    "a truth": (
        lambda: stored(state(mergeable_ranks=RANKS | {b"\x01": True})),
        "tokens are not bytes with an id each",
    ),
    "an id twice": (
        lambda: stored(state(special_tokens=SPECIAL | {"<|bos|>": 5})),
        "a token for each id from 0 on",
    ),
    "an id far off": (
        lambda: stored(state(special_tokens=SPECIAL | {"<|bos|>": 10**12})),
        "a token for each id from 0 on",
    ),
    "a byte that is missing": (
        lambda: stored(state(mergeable_ranks=without(RANKS, b"A") | {b"zz": RANKS[b"A"]})),
        "lacks tokens for some of the 256 bytes",
    ),
    "no beginning": (
        lambda: stored(state(special_tokens={"<|end|>": len(RANKS)})),
        r"has no <\|bos\|>",
    ),
}


@pytest.mark.parametrize(("data", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_these_are_refused_in_one_line_and_not_run(
    data: Callable[[], bytes], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokenizer.pkl").write_bytes(data())
    with pytest.raises(GptreplError, match=said) as caught:
        NanochatTokenizer("tokenizer.pkl")
    assert str(caught.value).startswith("tokenizer.pkl is ")
    assert "\n" not in str(caught.value)
    assert not Path("ran").exists()


def test_the_state_that_is_refused_is_accepted_when_it_is_right(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.pkl").write_bytes(stored(state()))
    assert NanochatTokenizer(str(tmp_path)).vocab_size == SIZE


def test_a_path_is_needed_and_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(GptreplError, match=r"give them as nanochat:PATH/tokenizer\.pkl"):
        NanochatTokenizer("")
    with pytest.raises(GptreplError, match=r"tokenizer\.pkl cannot be read: No such file"):
        NanochatTokenizer(str(tmp_path))


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.pkl").open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(GptreplError, match="it is larger than 100 MB"):
        NanochatTokenizer(str(tmp_path))
