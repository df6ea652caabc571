"""GGUF files: what transformers reads of them, and one line for what it cannot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers
from tokenizers import pre_tokenizers

from gptrepl.api import LoadError, LoadOptions
from gptrepl_plugins.models import gguf, huggingface
from gptrepl_plugins.models.causal import CausalModel
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

VOCABULARY, WIDTH, INNER, HEADS, LAYERS = 260, 32, 48, 4, 2
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}</s>{% endfor %}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random Llama as a converter of llama.cpp writes it."""
    from gguf import GGUFWriter

    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = GGUFWriter(str(path), "llama")
    writer.add_name("small")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*letters, "ab", "<s>", "</s>", "<|im_end|>"])
    writer.add_token_types([1] * 257 + [3] * 3)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(259)
    writer.add_chat_template(TEMPLATE)
    random = numpy.random.default_rng(1)
    for name, shape in shapes().items():
        values = random.normal(0, 0.15, shape)
        writer.add_tensor(name, (numpy.ones(shape) if len(shape) == 1 else values).astype("f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def shapes() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCABULARY, WIDTH)}
    found |= {"output_norm.weight": (WIDTH,), "output.weight": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found[f"blk.{layer}.{name}.weight"] = (WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            found[f"blk.{layer}.{name}.weight"] = (INNER, WIDTH)
        found[f"blk.{layer}.ffn_down.weight"] = (WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = (WIDTH,)
    return found


def refusal(source: Path, **options: Any) -> str:
    with pytest.raises(LoadError) as caught:
        huggingface.load(str(source), LoadOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_what_transformers_makes_of_it(
    written: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notes: list[str] = []
    steps: list[str] = []
    options = LoadOptions(note=notes.append, progress=lambda what, *_: steps.append(what))
    model, tokenizer = huggingface.load(str(written), options)
    assert capfd.readouterr() == ("", "")
    assert f"reading {written}" in steps
    size = sum(numpy.prod(shape) for shape in shapes().values()) * 4
    assert notes[0].startswith(f"{written} takes {size / 1e9:.2f} GB of memory as float32")
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        written.parent, gguf_file=written.name, dtype=torch.float32
    )
    capfd.readouterr()
    row = tokenizer.encode("Hello")
    assert row == [letter_id(letter) for letter in "Hello"]
    with torch.no_grad():
        expected = reference(torch.tensor([row])).logits[:, -1]
    torch.testing.assert_close(model.logits([row]), expected, rtol=0, atol=1e-5)
    assert (model.vocab_size, model.block_size) == (VOCABULARY, 64)
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.end == {258, 259}
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode("né🙂"))).decode() == "né🙂"


def letter_id(letter: str) -> int:
    return sorted(pre_tokenizers.ByteLevel.alphabet()).index(letter)


def test_a_folder_with_one_file_is_that_file(written: Path) -> None:
    assert huggingface.accepts(str(written.parent))
    model, _ = huggingface.load(str(written.parent), LoadOptions(dtype="bfloat16"))
    assert isinstance(model, CausalModel)
    assert {weight.dtype for weight in model.network.parameters()} == {torch.bfloat16}
    assert list(huggingface.files(str(written.parent))) == [written]


def test_what_does_not_fit_is_refused_before_it_is_read(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf, "memory", lambda: 1000)
    message = refusal(written)
    assert "GB of memory as float32 and this machine has 0.00 GB" in message
    assert message.endswith("take a smaller model, or try :dtype bfloat16")
    assert refusal(written, dtype="float16").endswith("take a smaller model")


def test_fewer_bits_than_it_has_are_refused(written: Path) -> None:
    assert refusal(written, quantize="int8").endswith("read into float32: set quantize off")


def test_the_memory_of_this_machine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (gguf.memory() or 0) > 1e8
    monkeypatch.delattr(os, "sysconf")
    assert gguf.memory() is None


def test_what_cannot_be_read_is_one_line(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(b"<html>")
    assert "not a GGUF file" in refusal(path)
    path.write_bytes(written.read_bytes()[:400])
    assert "damaged or truncated" in refusal(path)
    path.write_bytes(written.read_bytes().replace(b"llama", b"clamp"))
    assert f"{path} cannot be read: GGUF model with architecture clamp" in refusal(path)
    monkeypatch.setattr(gguf, "find_spec", lambda _: None)
    assert "pip install 'gptrepl[gguf]'" in refusal(written)
