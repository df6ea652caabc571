"""Tokenizers: their ids, their bytes, and one line for whatever cannot be read or written."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import tiktoken.registry

from gptrepl.api import GptreplError
from gptrepl_plugins.tokenizers import CharTokenizer, TiktokenTokenizer


def refusal(build: Any, *arguments: Any) -> str:
    with pytest.raises(GptreplError) as caught:
        build(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- characters ---------------------------------------------------------------------------------


@pytest.fixture
def shakespeare(golden: Path) -> CharTokenizer:
    return CharTokenizer(str(golden / "nanogpt_char/data/shakespeare_char/meta.pkl"))


def test_characters_there_and_back(shakespeare: CharTokenizer) -> None:
    text = "ROMEO:\nWhat, ho!"
    ids = shakespeare.encode(text)
    assert ids[:7] == [30, 27, 25, 17, 27, 10, 0]
    assert b"".join(map(shakespeare.token_bytes, ids)).decode() == text
    assert shakespeare.vocab_size == 65
    assert shakespeare.encode("") == []


def test_a_folder_that_holds_the_alphabet_will_do(golden: Path) -> None:
    assert CharTokenizer(str(golden / "nanogpt_char/data/shakespeare_char")).vocab_size == 65


def test_characters_outside_the_alphabet_are_named_with_their_places(
    shakespeare: CharTokenizer,
) -> None:
    assert refusal(shakespeare.encode, "hällo ä") == (
        "the text has a character outside the alphabet of 65: 'ä' at position 2, 7"
    )
    assert refusal(shakespeare.encode, "1\t1") == (
        "the text has 2 characters outside the alphabet of 65:"
        " '1' at position 1, 3; '\\t' at position 2"
    )
    many = refusal(shakespeare.encode, "0123456789" * 9)
    assert many.endswith("; 4 more")
    assert "'0' at position 1, 11, 21, 31, 41, ...;" in many
    assert "outside" in refusal(shakespeare.encode, "<|endoftext|>")


def test_the_alphabet_has_to_be_given() -> None:
    assert "char:PATH" in refusal(CharTokenizer, "")
    assert refusal(CharTokenizer, "nowhere/meta.pkl").startswith("nowhere/meta.pkl cannot be read")


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


BROKEN: dict[str, tuple[Any, str]] = {
    "code": ({"itos": Hostile(), "stoi": {}}, "mkdir, which is not run"),
    "any class": (OrderedDict(itos={0: "a"}), "collections.OrderedDict, which is not run"),
    "a list": ([1, 2], "lists no characters"),
    "other keys": ({"vocab": {}}, "lists no characters"),
    "no characters": ({"itos": {}, "stoi": {}}, "lists no characters"),
    "ids with gaps": ({"itos": {0: "a", 2: "b"}, "stoi": {}}, "for each id from 0 on"),
    "ids for characters": ({"itos": {0: 1}, "stoi": {}}, "for each id from 0 on"),
    "other ids": ({"itos": {0: "a"}, "stoi": {"a": 7}}, "that 'itos' does not list"),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_alphabet_is_refused(
    content: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("meta.pkl").write_bytes(pickle.dumps(content))
    message = refusal(CharTokenizer, "meta.pkl")
    assert message.startswith("meta.pkl ")
    assert said in message
    assert not Path("ran").exists()


@pytest.mark.parametrize("data", [b"", b"hello", b"\x80\x05K", b"version https://git-lfs\n"])
def test_what_is_no_pickle_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "meta.pkl"
    path.write_bytes(data)
    assert "is not a meta.pkl" in refusal(CharTokenizer, str(path))


def test_an_alphabet_may_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "meta.pkl"
    path.write_bytes(pickle.dumps({"itos": ["a", "é"]}))
    tokenizer = CharTokenizer(str(path))
    assert tokenizer.encode("éa") == [1, 0]
    assert tokenizer.token_bytes(1) == "é".encode()


# --- GPT-2 --------------------------------------------------------------------------------------


def test_gpt2_text_there_and_back() -> None:
    gpt2 = TiktokenTokenizer()
    assert gpt2.encode("Hello world") == [15496, 995]
    assert gpt2.encode("🙂") == [8582, 25081]
    assert gpt2.encode("a<|endoftext|>") == [64, 50256]
    assert gpt2.token_bytes(8582) + gpt2.token_bytes(25081) == "🙂".encode()
    assert gpt2.token_bytes(50256) == b"<|endoftext|>"
    assert gpt2.vocab_size == 50257


def test_a_text_that_gpt2_cannot_split_is_refused_in_one_line() -> None:
    text = " " * 1_000_000 + "x"
    assert "cannot be split into words" in refusal(TiktokenTokenizer().encode, text)


def test_gpt2_takes_no_path() -> None:
    assert "takes no path" in refusal(TiktokenTokenizer, "x.bpe")


def test_offline_says_which_file_is_missing_and_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "gpt2", None)
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "gpt2")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing answers there
    monkeypatch.setenv("NO_PROXY", "")
    vocabulary, ranks = (
        "6d1cbeee0f20b3d9449abfede4726ed8212e3aee",
        "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6",
    )
    message = refusal(TiktokenTokenizer)
    assert f"/vocab.bpe as {vocabulary} and " in message
    assert f"/encoder.json as {ranks}" in message
    assert str(tmp_path) in message
    (tmp_path / vocabulary).write_bytes(
        (Path(__file__).parents[1] / "golden/tiktoken_cache" / vocabulary).read_bytes()
    )
    assert "vocab.bpe" not in refusal(TiktokenTokenizer)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "")
    assert "set TIKTOKEN_CACHE_DIR" in refusal(TiktokenTokenizer)
