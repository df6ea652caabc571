"""Causal models of transformers: the logits, the ids and the refusals, on folders it wrote."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from gptrepl.api import GptreplError, LoadError, LoadOptions
from gptrepl_plugins.models import gpt2, hub, huggingface, nanogpt, placement
from gptrepl_plugins.models.causal import CausalModel
from gptrepl_plugins.models.gpt import GPT
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

VOCABULARY = 259
CONTEXT = 160
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 256,
    "eos_token_id": 257,
}
SHARED_HEADS = {"num_key_value_heads": 2}
KINDS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**SHAPE, **SHARED_HEADS),
    "qwen2": lambda: transformers.Qwen2Config(**SHAPE, **SHARED_HEADS),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SHAPE),
    "mistral": lambda: transformers.MistralConfig(**SHAPE, **SHARED_HEADS, sliding_window=16),
}


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    yield
    transformers.utils.logging.set_verbosity_warning()
    transformers.utils.logging.enable_progress_bar()


def network(config: Any) -> Any:
    """A random network of a shape, with weights that tell its tokens apart."""
    torch.manual_seed(1)
    made = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15)
    made.generation_config.eos_token_id = None
    return made


def tables() -> Tokenizer:
    """A byte-level vocabulary without merges: 256 bytes and three signs."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>", "<|im_end|>"])
    return made


def save(made: Any, folder: Path) -> Path:
    """Write a network and its tokenizer as `save_pretrained` does."""
    made.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tables(), bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    return folder


Made = tuple[Path, Any]


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A folder of each kind, and the network that was written to it."""
    written = network(KINDS[request.param]())
    return save(written, tmp_path_factory.mktemp(request.param)), written


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(network(KINDS["llama"]()), tmp_path_factory.mktemp("llama"))


@pytest.fixture
def folder(llama: Path, tmp_path: Path) -> Path:
    """A folder whose files a test may change."""
    return Path(shutil.copytree(llama, tmp_path / "model"))


def load(source: str | Path, **options: Any) -> CausalModel:
    model, _ = huggingface.load(str(source), LoadOptions(**options))
    assert isinstance(model, CausalModel)
    return model


def refusal(source: str | Path, **options: Any) -> str:
    with pytest.raises(LoadError) as caught:
        huggingface.load(str(source), LoadOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def plain(reference: Any, rows: Sequence[Sequence[int]]) -> Tensor:
    """The logits after each row, row by row and without a cache."""
    with torch.no_grad():
        each = [reference(torch.tensor([row]), use_cache=False).logits[0, -1] for row in rows]
    return torch.stack(each)


def greedy(model: CausalModel, row: Sequence[int], count: int) -> list[int]:
    ids = list(row)
    for _ in range(count):
        ids.append(int(model.logits([ids]).argmax()))
    return ids


# --- against transformers -----------------------------------------------------------------------

ROW = [72, 101, 108, 108, 111, 44, 32]


def test_logits_are_those_of_transformers(made: Made) -> None:
    folder, reference = made
    model = load(folder)
    rows = [ROW[: length + 1] for length in range(len(ROW))]
    got = model.logits(rows)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, plain(reference, rows), rtol=0, atol=1e-5)
    assert (model.vocab_size, model.block_size) == (VOCABULARY, CONTEXT)


def test_greedy_ids_are_those_of_generate(made: Made) -> None:
    folder, reference = made
    ids = torch.tensor([ROW])
    expected = reference.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=100,
        do_sample=False,
        pad_token_id=258,
    )[0].tolist()
    assert greedy(load(folder), ROW, 100) == expected
    assert len(set(expected)) > 10


def test_cached_rows_are_single_rows_computed_afresh(made: Made) -> None:
    folder, reference = made
    model, chance = load(folder), random.Random(5)
    pool: list[list[int]] = [ROW]
    for _ in range(25):
        rows = []
        for _ in range(chance.choice([1, 1, 2, 3, 5])):
            base = chance.choice(pool)
            kept = base[: chance.randint(1, len(base))]
            new = [chance.randrange(VOCABULARY) for _ in range(chance.choice([0, 1, 1, 4, 30]))]
            rows.append([*kept, *new][:CONTEXT])
        pool = (pool + rows)[-6:]
        for _ in range(chance.choice([1, 3])):
            got = model.logits(rows)
            torch.testing.assert_close(got, plain(reference, rows), rtol=0, atol=2e-5)
            for row, logits in zip(rows, got, strict=True):
                row.append(int(logits.argmax()))
            rows = [row for row in rows if len(row) <= CONTEXT] or [ROW[:]]


def test_rows_together_say_what_they_say_alone(made: Made) -> None:
    folder, _ = made
    starts = [ROW, ROW[:3], [*ROW, 9, 8, 7], [200]]
    together = [list(row) for row in starts]
    model = load(folder)
    for _ in range(40):
        for row, logits in zip(together, model.logits(together), strict=True):
            row.append(int(logits.argmax()))
    assert together == [greedy(model, row, 40) for row in starts]


def test_past_the_context_the_last_ids_are_seen(made: Made) -> None:
    folder, reference = made
    row = [random.Random(2).randrange(VOCABULARY) for _ in range(CONTEXT + 20)]
    model = load(folder)
    for length in (CONTEXT - 1, CONTEXT, CONTEXT + 1, CONTEXT + 20):
        seen = row[:length][-CONTEXT:]
        got = model.logits([row[:length]])
        torch.testing.assert_close(got, plain(reference, [seen]), rtol=0, atol=2e-5)


def test_a_pass_that_is_interrupted_leaves_nothing_wrong(made: Made) -> None:
    folder, reference = made
    model = load(folder)
    model.logits([ROW, ROW[:4]])
    layers = [m for m in model.network.modules() if type(m).__name__.endswith(("Layer", "Block"))]

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    hook = layers[1].register_forward_pre_hook(stop)
    for rows in ([[*ROW, 3], [*ROW[:4], 5]], [ROW[:5]], [[*ROW, 9, 9]]):
        with pytest.raises(KeyboardInterrupt):
            model.logits(rows)
    hook.remove()
    for rows in ([[*ROW, 3], [*ROW[:4], 5]], [ROW[:5]], [[*ROW, 9, 9]]):
        got = model.logits(rows)
        torch.testing.assert_close(got, plain(reference, rows), rtol=0, atol=2e-5)


def test_the_cache_is_used(llama: Path) -> None:
    model = load(llama)
    seen: list[tuple[int, int]] = []
    embedding = model.network.get_input_embeddings()
    embedding.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    model.logits([ROW])
    model.logits([[*ROW, 1], [*ROW, 2], [*ROW, 3], [*ROW, 3]])
    model.logits([[*ROW, 2, 5], [*ROW, 3, 6]])
    model.logits([ROW[:4]])
    assert seen == [(1, 7), (3, 1), (2, 1), (1, 1)]


# --- other kinds of network ---------------------------------------------------------------------

STATES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}
OTHERS: dict[str, Callable[[], Any]] = {
    "positions from the mask": lambda: transformers.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4
    ),
    "a state instead of keys": lambda: transformers.MambaConfig(**STATES),
    "no cache that is known": lambda: transformers.RwkvConfig(**STATES),
    "states and keys": lambda: transformers.Lfm2Config(
        **SHAPE, **SHARED_HEADS, layer_types=["conv", "full_attention", "conv"]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_are_pure_too(name: str) -> None:
    reference = network(OTHERS[name]())
    model = CausalModel(reference)
    rows = [[*ROW], [*ROW[:3]], [*ROW, 9, 8, 7]]
    for _ in range(6):
        got = model.logits(rows)
        torch.testing.assert_close(got, plain(reference, rows), rtol=0, atol=5e-5)
        for row, logits in zip(rows, got, strict=True):
            row.append(int(logits.argmax()))
    row = ROW[:4]
    for _ in range(6):
        got = model.logits([row])
        torch.testing.assert_close(got, plain(reference, [row]), rtol=0, atol=5e-5)
        row = [*row, int(got.argmax())]


def test_positions_that_are_stretched_at_a_length_are_those_of_it() -> None:
    stretch = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "factor": 4.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0, 3.0, 4.0, 5.0],
        "original_max_position_embeddings": 12,
    }
    stretched = SHAPE | {"rope_parameters": stretch, "pad_token_id": 0}
    reference = network(transformers.Phi3Config(**stretched, original_max_position_embeddings=12))
    model = CausalModel(reference)
    rows = [[*ROW, 1, 2, 3], ROW[:3]]
    for _ in range(6):
        got = model.logits(rows)
        torch.testing.assert_close(got, plain(reference, rows), rtol=0, atol=2e-5)
        for row, logits in zip(rows, got, strict=True):
            row.append(int(logits.argmax()))
    assert len(rows[0]) > 12 > len(rows[1])


def test_positions_that_would_be_stretched_further_and_further_depend_on_the_row_alone() -> None:
    stretch = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    shape = SHAPE | {"rope_parameters": stretch, "max_position_embeddings": 16}
    model = CausalModel(network(transformers.LlamaConfig(**shape)))
    assert model.block_size == 16
    rows = [ROW, [*ROW] * 3, ROW[:3], [*ROW, *ROW], [*ROW] * 4]
    assert len(rows[-1]) > 16
    alone = [CausalModel(network(transformers.LlamaConfig(**shape))).logits([row]) for row in rows]
    for row, expected in zip(rows, alone, strict=True):
        torch.testing.assert_close(model.logits([row]), expected, rtol=0, atol=2e-5)


def test_ids_that_no_model_has_are_refused(llama: Path) -> None:
    model = load(llama)
    for rows, message in (
        ([[]], "a row holds no ids"),
        ([[1], [VOCABULARY]], f"id {VOCABULARY} is outside the model's vocabulary"),
        ([[-1]], "id -1 is outside"),
    ):
        with pytest.raises(GptreplError, match=message):
            model.logits(rows)


# --- what a folder brings -----------------------------------------------------------------------


def test_the_tokenizer_comes_along(llama: Path) -> None:
    _, tokenizer = huggingface.load(str(llama), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    ids = tokenizer.encode("né🙂</s>")
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == "né🙂</s>"
    assert tokenizer.end == {257}
    assert tokenizer.special == {256, 257, 258}


def test_the_ends_are_those_of_all_its_files(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [258, 3]}')
    _, tokenizer = huggingface.load(str(folder), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.end == {257, 258, 3}


def test_the_user_may_choose_the_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    assert "vocabulary of 259 and no alphabet" in refusal(folder)
    own = HuggingFaceTokenizer.of(tables(), "here")
    assert huggingface.load(str(folder), LoadOptions(tokenizer=own))[1] is own


def test_a_vocabulary_that_is_larger_than_the_model_is_cut(folder: Path) -> None:
    larger = tables()
    larger.add_tokens(["<pad>"])
    larger.save(str(folder / "tokenizer.json"))
    _, tokenizer = huggingface.load(str(folder), LoadOptions())
    assert tokenizer.vocab_size == VOCABULARY


def test_the_dtype_is_the_users(llama: Path) -> None:
    model = load(llama, dtype="bfloat16")
    assert {weight.dtype for weight in model.network.parameters()} == {torch.bfloat16}
    assert model.logits([ROW]).dtype == torch.float32


RECOMMENDED: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    ({"eos_token_id": 2, "temperature": 0.6}, {}),
    ({"do_sample": False}, {"temperature": 0}),
    ({"do_sample": True}, {"temperature": 1.0, "top_k": 50, "top_p": 1.0}),
    (
        {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 0, "eos_token_id": 257},
        {"temperature": 0.6, "top_k": 0, "top_p": 0.9, "stop_at_end": True},
    ),
]


@pytest.mark.parametrize(("given", "expected"), RECOMMENDED)
def test_what_its_makers_recommend_is_kept_and_not_applied(
    folder: Path, given: Any, expected: dict[str, Any]
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(given))
    found = load(folder).recommended
    assert {name: found[name] for name in expected} == expected
    assert bool(found) == bool(expected)


# --- a chat -------------------------------------------------------------------------------------

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TURNS = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "You?"},
]


def test_a_conversation_is_written_by_the_models_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    _, tokenizer = huggingface.load(str(folder), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.render is not None
    text = tokenizer.render(TURNS)
    assert (
        text
        == "<s>[user]Hi<|im_end|>\n[assistant]Hello<|im_end|>\n[user]You?<|im_end|>\n[assistant]"
    )
    own = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode(text) == own.apply_chat_template(
        TURNS, add_generation_prompt=True, return_dict=False
    )
    assert tokenizer.render(TURNS[:2]).endswith("Hello<|im_end|>\n")
    assert tokenizer.end == {257, 258}  # the end of a text, and that of a turn


def test_a_template_that_refuses_is_one_line(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    _, tokenizer = huggingface.load(str(folder), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.render is not None
    with pytest.raises(GptreplError, match="refuses this conversation: no system here"):
        tokenizer.render([{"role": "system", "content": "x"}])
    (folder / "chat_template.jinja").write_text("{{ raise_exception('never') }}")
    _, tokenizer = huggingface.load(str(folder), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.end == {257}


def test_a_folder_without_a_template_has_none(llama: Path) -> None:
    _, tokenizer = huggingface.load(str(llama), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    assert tokenizer.render is None


def test_sentencepiece_is_asked_for_where_it_is_needed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))  # transformers tries tiktoken last
    (folder / "tokenizer.model").write_bytes(b"no model")
    assert f"the tokenizer of {folder}" in refusal(folder)
    monkeypatch.setattr(huggingface, "find_spec", lambda _: None)
    assert "pip install 'gptrepl[sentencepiece]'" in refusal(folder)


# --- which sources are whose --------------------------------------------------------------------


def test_every_source_has_one_loader(folder: Path, tmp_path: Path, golden: Path) -> None:
    (tmp_path / "several").mkdir()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "several" / name).touch()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.gguf").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    loaders = {"gpt2": gpt2, "huggingface": huggingface, "nanogpt": nanogpt}
    for source, owner in {
        folder: "huggingface",
        "hf:org/name": "huggingface",
        "org/name": "huggingface",
        "org/name-1.5": "huggingface",
        tmp_path / "one": "huggingface",
        tmp_path / "one" / "a.gguf": "huggingface",
        "gone.gguf": "huggingface",
        tmp_path / "several": "nanogpt",
        tmp_path / "broken": "gpt2",
        golden / "gpt2_char_hf": "gpt2",
        "gpt2-xl": "gpt2",
        golden / "nanogpt_char/out": "nanogpt",
        "out/ckpt.pt": "nanogpt",
        "shakespeare": "nanogpt",
        "./gone": "nanogpt",
    }.items():
        assert [n for n, loader in loaders.items() if loader.accepts(str(source))] == [owner], (
            source
        )
    for source in ("", "http://127.0.0.1:8000/v1", "nothing", "a/b/c"):
        assert not any(loader.accepts(source) for loader in loaders.values()), source


def test_folders_of_gpt2s_shape_keep_the_engine(golden: Path, tmp_path: Path) -> None:
    from gptrepl_plugins.tokenizers import CharTokenizer

    alphabet = CharTokenizer(str(golden / "nanogpt_char/data/shakespeare_char"))
    source = str(golden / "gpt2_char_hf")
    model, _ = huggingface.load(source, LoadOptions(tokenizer=alphabet))
    assert isinstance(model, GPT)


# --- refusals -----------------------------------------------------------------------------------


def test_pickled_weights_are_never_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no weights in safetensors" in refusal(folder)
    torch.save({}, folder / "pytorch_model.bin")
    assert "pytorch_model.bin, a pickle, which can run code" in refusal(folder)


def test_code_of_a_folder_runs_only_where_it_is_allowed(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "strange",
        "auto_map": {
            "AutoConfig": "code.StrangeConfig",
            "AutoModelForCausalLM": "code.StrangeForCausalLM",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class StrangeConfig(LlamaConfig):\n    model_type = 'strange'\n"
        "class StrangeForCausalLM(LlamaForCausalLM):\n    config_class = StrangeConfig\n"
    )
    said = refusal(folder)
    assert "brings code of its own for models of type strange, which is not run" in said
    assert "--trust-remote-code" in said
    assert not (tmp_path / "ran").exists()
    notes: list[str] = []
    model = load(folder, trust_remote_code=True, note=notes.append)
    assert (tmp_path / "ran").exists()
    assert model.logits([ROW]).shape == (1, VOCABULARY)
    assert "brings code of its own, and it runs" in notes[0]


def test_code_beside_a_known_network_is_not_needed(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "code.Strange"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit")
    assert load(folder).vocab_size == VOCABULARY


DAMAGES: dict[str, tuple[str, bytes | None, str]] = {
    "a pointer": ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    "a web page": ("model.safetensors", b"<!doctype html>", "a saved web page"),
    "an empty file": ("model.safetensors", b"", "empty"),
    "a shape that is none": ("config.json", None, "cannot be read"),
    "broken tables": ("tokenizer.json", b"{", "the tokenizer of"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_files_are_named(folder: Path, name: str) -> None:
    file, content, message = DAMAGES[name]
    path = folder / file
    if content is None:
        content = path.read_bytes().replace(
            b'"num_attention_heads": 4', b'"num_attention_heads": 0'
        )
    path.write_bytes(content)
    assert message in refusal(folder)


def test_truncated_weights_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert f"{folder} cannot be read" in refusal(folder)


def test_missing_and_superfluous_tensors_are_said(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "model.extra": torch.zeros(2)}, path, {"format": "pt"})
    notes: list[str] = []
    load(folder, note=notes.append)
    assert notes == [f"{folder} has the tensor model.extra, which is not used"]
    del tensors["model.norm.weight"], tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, path, {"format": "pt"})
    assert "lacks the tensor model.layers.0.mlp.up_proj.weight and 1 more" in refusal(folder)


def test_a_missing_part_is_named(llama: Path, tmp_path: Path) -> None:
    reference = network(KINDS["llama"]())
    reference.save_pretrained(tmp_path, max_shard_size="30KB")
    parts = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(parts) > 1
    parts[1].unlink()
    assert f"lacks {parts[1].name}, one of the {len(parts)} parts" in refusal(tmp_path)


def test_what_continues_no_text_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"is_encoder_decoder": True}))
    assert "does not continue a text" in refusal(folder)
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "vit"}))
    assert "continues no text" in refusal(folder)
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard_of"}))
    assert "of type unheard_of, which this transformers has not" in refusal(folder)


def test_spreading_needs_accelerate(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(llama, device_map="auto").logits([ROW]).shape == (1, VOCABULARY)
    monkeypatch.setattr(placement, "find_spec", lambda _: None)
    assert "pip install 'gptrepl[accelerate]'" in refusal(llama, device_map="auto")


def test_fewer_bits_are_what_transformers_offers(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(llama, quantize="bf16")
    assert {weight.dtype for weight in model.network.parameters()} == {torch.bfloat16}
    assert model.quantize == "bf16"
    monkeypatch.setattr(placement, "find_spec", lambda _: None)
    for bits in ("int8", "int4"):
        assert "pip install 'gptrepl[bitsandbytes]'" in refusal(llama, quantize=bits)


@pytest.mark.slow  # bitsandbytes is 125 MB and no part of the development tools
@pytest.mark.parametrize(("bits", "dtype"), [("int8", torch.int8), ("int4", torch.uint8)])
def test_fewer_bits_are_held_and_still_a_model(
    tmp_path: Path, bits: str, dtype: torch.dtype
) -> None:
    pytest.importorskip("bitsandbytes")
    wide = {"hidden_size": 128, "intermediate_size": 128}  # 64 weights share a scale in int4
    folder = save(network(transformers.LlamaConfig(**SHAPE | wide)), tmp_path)
    model = load(folder, quantize=bits)
    assert dtype in {weight.dtype for weight in model.network.parameters()}
    assert model.quantize == bits
    got = model.logits([ROW])
    close = torch.nn.functional.cosine_similarity(got, load(folder).logits([ROW]))
    assert got.dtype == torch.float32
    assert float(close) > 0.7


# --- the hub ------------------------------------------------------------------------------------


def test_a_name_that_is_none_is_said() -> None:
    assert "'hf' is no name of the Hub" in refusal("hf:hf")
    assert "there is no file 'gone.gguf'" in refusal("gone.gguf")


def test_what_lies_in_the_cache_is_loaded(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    place = tmp_path / "models--org--name" / "snapshots" / "1"
    (tmp_path / "models--org--name" / "refs").mkdir(parents=True)
    (tmp_path / "models--org--name" / "refs" / "main").write_text("1")
    shutil.copytree(llama, place)
    assert load("hf:org/name").vocab_size == load("org/name").vocab_size == VOCABULARY
    assert list(huggingface.files("org/name")) == [place / "model.safetensors"]
    assert list(huggingface.files("org/other")) == []
    assert "HF_HUB_OFFLINE forbids the download" in refusal("org/other")
    (place / "model.safetensors").unlink()
    assert hub.cached("org/name") is None
