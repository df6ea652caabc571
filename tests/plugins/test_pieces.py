"""Vocabularies of Hugging Face: the bytes of the ids, joined, are what the library decodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from gptrepl.api import GptreplError
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

CORPUS = [
    "Hello, world! The quick brown fox jumps over the lazy dog; naïve café.",
    "日本語のテキスト 東京 大阪",
    "🙂🙃 👩‍👩‍👧 e\u0301 i\u0308  two  spaces\n\tand a tab",
] * 8
SIGNS = ["<s>", "</s>", "<|im_end|>"]

pieces = st.sampled_from(
    [*"ab é日本🙂👩‍👧\u0301\u0308\u200d\n\t  ", "Hello", " the", "naïve", *SIGNS[1:]]
)
texts = st.lists(pieces | st.characters(codec="utf-8"), max_size=12).map("".join)


def byte_level() -> Tokenizer:
    """A vocabulary as GPT-2, GPT-NeoX, Qwen2 and Llama 3 have it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=SIGNS, show_progress=False
    )
    made.train_from_iterator(CORPUS, trainer)
    return made


def gemma() -> Tokenizer:
    """A vocabulary as Gemma has it: spaces are replaced, nothing is put before the first word."""
    made = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", *SIGNS, *bytes_], show_progress=False
    )
    made.train_from_iterator(CORPUS, trainer)
    plain = json.loads(made.to_str())  # the bytes are entries like others, and no special tokens
    plain["added_tokens"] = [e for e in plain["added_tokens"] if not e["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(plain))


def sentencepiece(kind: str) -> Callable[[Path], Tokenizer]:
    """A vocabulary that sentencepiece trained, read by transformers as Llama's or Mistral's."""

    def made(folder: Path) -> Tokenizer:
        import sentencepiece as library
        from transformers import AutoTokenizer

        library.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_prefix=str(folder / "tokenizer"),
            vocab_size=380,
            model_type=kind,
            byte_fallback=True,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            minloglevel=2,
            pad_id=-1,
        )
        settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        read = AutoTokenizer.from_pretrained(folder)
        read.add_special_tokens({"additional_special_tokens": SIGNS[2:]})
        tables = read.backend_tokenizer
        assert isinstance(tables, Tokenizer)
        return tables

    return made


KINDS: dict[str, Callable[[Path], Tokenizer]] = {
    "byte-level": lambda _: byte_level(),
    "gemma": lambda _: gemma(),
    "sentencepiece bpe": sentencepiece("bpe"),
    "sentencepiece unigram": sentencepiece("unigram"),
}


@pytest.fixture(scope="module", params=KINDS)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return KINDS[request.param](tmp_path_factory.mktemp("tables"))


def joined(tokenizer: HuggingFaceTokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(map(tokenizer.token_bytes, ids))


def decoded(tables: Tokenizer, ids: list[int]) -> str:
    """What the library makes of *ids* behind a sign, so that no space before a text is lost."""
    sign = tables.token_to_id("<s>")
    whole: str = tables.decode([sign, *ids], skip_special_tokens=False)
    return whole.removeprefix("<s>")


def test_texts_over_emoji_cjk_and_combining_marks(tables: Tokenizer) -> None:
    tokenizer = HuggingFaceTokenizer.of(tables, "here")

    @settings(max_examples=120, deadline=None)
    @given(texts)
    def agrees(text: str) -> None:
        ids = tokenizer.encode(text)
        assert joined(tokenizer, ids).decode() == decoded(tables, ids)
        assert joined(tokenizer, ids).decode().removeprefix(" ") == text.removeprefix(" ")

    agrees()


def test_any_ids_whose_bytes_are_a_text(tables: Tokenizer) -> None:
    tokenizer = HuggingFaceTokenizer.of(tables, "here")

    @settings(max_examples=120, deadline=None)
    @given(st.lists(st.integers(3, tokenizer.vocab_size - 1), max_size=8))
    def agrees(ids: list[int]) -> None:
        try:
            text = joined(tokenizer, ids).decode()
        except UnicodeDecodeError:
            return
        assert text == decoded(tables, ids)

    agrees()


def test_every_byte_can_be_said(tables: Tokenizer) -> None:
    tokenizer = HuggingFaceTokenizer.of(tables, "here")
    said = {tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)}
    assert {bytes([byte]) for byte in range(0x80, 0x100)} <= said


def test_special_tokens_are_told_apart_and_stand_for_their_names(tables: Tokenizer) -> None:
    tokenizer = HuggingFaceTokenizer.of(tables, "here")
    (token,) = tokenizer.encode("<|im_end|>")
    assert token in tokenizer.special
    assert tokenizer.token_bytes(token) == b"<|im_end|>"
    assert not set(tokenizer.encode("Hello")) & tokenizer.special


def test_what_stands_before_every_text_is_known(tmp_path: Path) -> None:
    tables = byte_level()
    assert HuggingFaceTokenizer.of(tables, "here").start == ()
    end = [("</s>", 1)]
    tables.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=end)
    assert HuggingFaceTokenizer.of(tables, "here").start == ()
    signs = [("<s>", 0), ("</s>", 1)]
    tables.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=signs)
    tokenizer = HuggingFaceTokenizer.of(tables, "here")
    assert tokenizer.start == (0,)
    assert tokenizer.encode("Hello") == byte_level().encode("Hello").ids
    tables.save(str(tmp_path / "tokenizer.json"))
    assert HuggingFaceTokenizer(str(tmp_path)).start == (0,)


def test_ids_that_the_model_lacks_are_not_drawn() -> None:
    tables = byte_level()
    tokenizer = HuggingFaceTokenizer.of(tables, "here", limit=300)
    assert tokenizer.vocab_size == 300
    assert HuggingFaceTokenizer.of(tables, "here", limit=9000).vocab_size == 375


OTHERS: dict[str, tuple[Any, str]] = {
    "none": (None, "no rule at all"),
    "word pieces": (decoders.WordPiece(), "WordPiece"),
    "ends of words": (decoders.BPEDecoder("</w>"), "BPEDecoder"),
    "bytes alone": (decoders.ByteFallback(), "no rule at all"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_decode_entry_by_entry_is_refused(name: str) -> None:
    tables = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    decoder, named = OTHERS[name]
    if decoder is not None:
        tables.decoder = decoder
    with pytest.raises(GptreplError, match=rf"x\.json is decoded by {named}: only byte-level"):
        HuggingFaceTokenizer.of(tables, "x.json")


def test_a_rule_that_is_an_expression_is_refused() -> None:
    from tokenizers import Regex

    tables = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tables.decoder = decoders.Replace(Regex("_+"), " ")
    with pytest.raises(GptreplError, match="decoded by an expression"):
        HuggingFaceTokenizer.of(tables, "x.json")
