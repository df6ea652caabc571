"""GPT-2 folders and names, held to transformers and to real files that it wrote."""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gptrepl.api import GptreplError, LoadError, LoadOptions
from gptrepl_plugins.models import gpt2, hub, nanogpt
from gptrepl_plugins.models.gpt import GPT
from gptrepl_plugins.tokenizers import CharTokenizer, HuggingFaceTokenizer, TiktokenTokenizer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SMALL = {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 16, "vocab_size": 50257}
ROW = [[15496, 995, 11, 314, 716]]


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Any]]:
    """Write a random GPT-2 as transformers does; return its folder and the model itself."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    def made(shard: str = "50GB", **changes: Any) -> tuple[Path, Any]:
        torch.manual_seed(6)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL | changes)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.1)
        folder = tmp_path_factory.mktemp("made")
        model.save_pretrained(folder, max_shard_size=shard)
        return folder, model

    return made


@pytest.fixture
def folder(write: Callable[..., tuple[Path, Any]], tmp_path: Path) -> Path:
    """A small model whose files a test may change."""
    return Path(shutil.copytree(write()[0], tmp_path / "model"))


def load(source: str | Path, **options: Any) -> GPT:
    model, _ = gpt2.load(str(source), LoadOptions(**options))
    assert isinstance(model, GPT)
    return model


def refusal(source: str | Path, **options: Any) -> str:
    with pytest.raises(LoadError) as caught:
        gpt2.load(str(source), LoadOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def agree(model: GPT, reference: Any, ids: list[int] = ROW[0]) -> None:
    """Compare the logits after each prefix within 1e-4."""
    with torch.no_grad():
        expected = reference(torch.tensor([ids])).logits[0]
    got = model.logits([ids[: length + 1] for length in range(len(ids))])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-4)


# --- against transformers -----------------------------------------------------------------------


def greedy(model: GPT, ids: list[int], count: int) -> list[int]:
    ids = list(ids)
    for _ in range(count):
        ids.append(int(model.logits([ids]).argmax()))
    return ids


def greedy_reference(reference: Any, ids: list[int], count: int, block: int) -> list[int]:
    ids = list(ids)
    with torch.no_grad():
        for _ in range(count):
            ids.append(int(reference(torch.tensor([ids[-block:]])).logits[0, -1].argmax()))
    return ids


def test_the_recorded_folder_gives_what_transformers_gives(golden: Path) -> None:
    import transformers

    model = load(
        golden / "gpt2_char_hf",
        tokenizer=CharTokenizer(str(golden / "nanogpt_char/data/shakespeare_char")),
    )
    reference = transformers.GPT2LMHeadModel.from_pretrained(golden / "gpt2_char_hf").eval()
    agree(model, reference, list(range(40)))
    assert greedy(model, [30, 27], 200) == greedy_reference(reference, [30, 27], 200, 64)


VARIANTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "untied": {"tie_word_embeddings": False},
    "exact gelu": {"activation_function": "gelu"},
    "relu": {"activation_function": "relu"},
    "another inner width": {"n_inner": 48},
    "unscaled attention": {"scale_attn_weights": False},
    "attention scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
    "another epsilon": {"layer_norm_epsilon": 0.01},
    "resized vocabulary": {"vocab_size": 50304},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_random_models_give_what_transformers_gives(
    changes: dict[str, Any], write: Callable[..., tuple[Path, Any]]
) -> None:
    folder, reference = write(**changes)
    model = load(folder)
    agree(model, reference)
    assert greedy(model, ROW[0], 200) == greedy_reference(reference, ROW[0], 200, 16)


def test_models_without_biases(write: Callable[..., tuple[Path, Any]], folder: Path) -> None:
    _, reference = write()
    path = folder / "model.safetensors"
    tensors = load_file(path)
    with torch.no_grad():
        for name, bias in reference.named_parameters():
            if name.endswith(("c_attn.bias", "c_fc.bias")):
                bias.zero_()
    kept = {k: v for k, v in tensors.items() if not k.endswith(("c_attn.bias", "c_fc.bias"))}
    save_file(kept, path)
    agree(load(folder), reference)
    with torch.no_grad():
        for name, bias in reference.named_parameters():
            if name.endswith("bias"):
                bias.zero_()
    save_file({k: v for k, v in tensors.items() if not k.endswith("bias")}, path)
    model = load(folder)
    assert not model.config.bias
    agree(model, reference)


# --- layouts ------------------------------------------------------------------------------------


def test_shards_load_and_a_missing_one_is_named(write: Callable[..., tuple[Path, Any]]) -> None:
    folder, reference = write(shard="100KB")
    assert (folder / "model.safetensors.index.json").exists()
    agree(load(folder), reference)
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.unlink()
    assert f"lacks {shard.name}" in refusal(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "index.json cannot be read" in refusal(folder)


@pytest.mark.parametrize("shards", [1, 2])
def test_old_bin_files_load(
    shards: int, write: Callable[..., tuple[Path, Any]], folder: Path
) -> None:
    _, reference = write()
    (folder / "model.safetensors").unlink()
    state = {name.removeprefix("transformer."): w for name, w in reference.state_dict().items()}
    for layer in range(2):  # as files of that time have them
        state[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
        state[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    if shards == 1:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        names = list(state)
        parts = {"part-1.bin": names[::2], "part-2.bin": names[1::2]}
        for file, held in parts.items():
            torch.save({name: state[name] for name in held}, folder / file)
        weight_map = {name: file for file, held in parts.items() for name in held}
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    agree(load(folder), reference)


def test_wrong_folders_are_refused_in_one_line(folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "damaged or truncated" in refusal(folder)
    weights.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in refusal(folder)
    weights.write_bytes(b"")
    assert "is empty" in refusal(folder)
    weights.unlink()
    assert "has no weights in model.safetensors or pytorch_model.bin" in refusal(folder)
    (folder / "tf_model.h5").touch()
    assert "only tf_model.h5" in refusal(folder)
    torch.save([1], folder / "pytorch_model.bin")
    assert "holds a list" in refusal(folder)
    tensors = {"wte.weight": torch.zeros(3, 4)}
    save_file(tensors, weights)
    assert "no tensor transformer.wpe.weight" in refusal(folder)


def test_wrong_configurations_are_refused_in_one_line(folder: Path) -> None:
    path = folder / "config.json"
    read = json.loads(path.read_text())

    def configured(**changes: Any) -> str:
        path.write_text(json.dumps(read | changes))
        return refusal(folder)

    assert "model of type llama" in configured(model_type="llama")
    assert "cross-attention" in configured(add_cross_attention=True)
    assert "no activation named 'mish'" in configured(activation_function="mish")
    assert "n_head" in configured(n_head=5)
    assert "configuration says (20, 32)" in configured(n_positions=20)
    assert "lacks the tensor transformer.h.2" in configured(n_layer=3)
    assert "lacks the tensor lm_head.weight" in configured(tie_word_embeddings=False)
    path.write_text("{")
    assert "cannot be read" in refusal(folder)


# --- tokenizers ---------------------------------------------------------------------------------

TEXT = "Hello world, it's 🙂 naïve\n\n  <|endoftext|>x"


def test_gpt2_sized_folders_without_tables_take_gpt2s(folder: Path) -> None:
    assert isinstance(gpt2.load(str(folder), LoadOptions())[1], TiktokenTokenizer)


def tables(folder: Path, cache: Path) -> None:
    """Put GPT-2's tables into a folder, in both forms that Hugging Face has for them."""
    shutil.copy(cache / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6", folder / "vocab.json")
    shutil.copy(cache / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee", folder / "merges.txt")
    HuggingFaceTokenizer(str(folder))._tokenizer.save(str(folder / "tokenizer.json"))


def test_own_tables_are_used_and_their_bytes_are_exact(folder: Path, golden: Path) -> None:
    tables(folder, golden / "tiktoken_cache")
    (folder / "tokenizer.json").unlink()
    own, expected = HuggingFaceTokenizer(str(folder)), TiktokenTokenizer()
    assert own.encode(TEXT) == expected.encode(TEXT)
    assert own.vocab_size == expected.vocab_size
    assert own.end == expected.end
    for token in range(own.vocab_size):
        assert own.token_bytes(token) == expected.token_bytes(token)
    _, tokenizer = gpt2.load(str(folder), LoadOptions())
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    own._tokenizer.add_tokens(["<new>"])
    own._tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").unlink()
    notes: list[str] = []
    _, tokenizer = gpt2.load(str(folder), LoadOptions(note=notes.append))
    assert tokenizer.encode("a<new>") == [64, 50257]
    assert tokenizer.token_bytes(50257) == b"<new>"
    assert notes == [f"{folder} has a tokenizer of 50258 ids, its model 50257"]
    again = HuggingFaceTokenizer(str(folder / "tokenizer.json"))
    assert again.encode(TEXT) == expected.encode(TEXT)


def test_tables_that_are_not_bytes_are_refused(folder: Path) -> None:
    from tokenizers import Tokenizer, models

    with pytest.raises(GptreplError, match="huggingface:FOLDER"):
        HuggingFaceTokenizer("")
    path = folder / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(GptreplError, match=r"tokenizer\.json is no tokenizer"):
        gpt2.load(str(folder), LoadOptions())
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(path))
    with pytest.raises(GptreplError, match="only byte-level"):
        gpt2.load(str(folder), LoadOptions())


def test_a_vocabulary_of_another_size_needs_tables(golden: Path) -> None:
    assert "vocabulary of 65 and no alphabet" in refusal(golden / "gpt2_char_hf")


# --- names --------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, which does not answer."""
    from huggingface_hub import constants

    place = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.chdir(tmp_path)
    return place


def test_offline_is_one_line_and_quick(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    start = time.monotonic()
    message = refusal("gpt2")
    assert time.monotonic() - start < 5
    assert message.startswith(
        "gpt2 is not on this machine and http://127.0.0.1:9 cannot be reached"
    )
    assert "config.json, tokenizer.json and model.safetensors into a folder" in message
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE forbids the download" in refusal("gpt2-xl")
    assert capfd.readouterr() == ("", "")


def test_unknown_names_are_refused_at_once(cache: Path) -> None:
    assert refusal("gpt2-lrage") == (
        "no published GPT-2 is named 'gpt2-lrage' (did you mean gpt2-large?)"
    )
    assert "there are gpt2, gpt2-medium" in refusal("gpt2zzzzzzzzzzzzz")


@pytest.mark.parametrize("repository", ["gpt2", "openai-community--gpt2"])
def test_what_is_in_the_cache_needs_no_network(
    repository: str, cache: Path, write: Callable[..., tuple[Path, Any]]
) -> None:
    made, reference = write()
    place = cache / f"models--{repository}"
    shutil.copytree(made, place / "snapshots" / ("a" * 40))
    (place / "refs").mkdir()
    (place / "refs/main").write_text("a" * 40)
    agree(load("gpt2"), reference)
    exact = GPT.from_pretrained("gpt2", {"dropout": 0.1})
    assert (exact.config.activation, exact.config.dropout) == ("gelu", 0.1)
    with pytest.raises(GptreplError, match="only dropout can be overridden, not n_layer"):
        GPT.from_pretrained("gpt2", {"n_layer": 1})


@pytest.fixture
def server(write: Callable[..., tuple[Path, Any]], golden: Path, tmp_path: Path) -> Iterator[str]:
    """A hub on this machine that has one model."""
    made = Path(shutil.copytree(write()[0], tmp_path / "published"))
    tables(made, golden / "tiktoken_cache")

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            path = made / self.path.rpartition("/")[2]
            if "gpt2-medium" in self.path or not path.exists():
                self.send_response(401 if "gpt2-medium" in self.path else 404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("X-Repo-Commit", "b" * 40)
            self.send_header("ETag", f'"{path.name}"')
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(path.read_bytes())

        do_GET = do_HEAD

        def log_message(self, *_: Any) -> None:
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def test_a_name_is_downloaded_once_with_its_progress(
    server: str,
    cache: Path,
    write: Callable[..., tuple[Path, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace("http://127.0.0.1:9", server)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    steps: list[tuple[str, int, int | None]] = []
    model = load("gpt2", progress=lambda *step: steps.append(step))
    agree(model, write()[1])
    size = (write()[0] / "model.safetensors").stat().st_size
    assert ("downloading model.safetensors of gpt2", size, size) in steps
    assert capfd.readouterr() == ("", "")
    downloaded = len(steps)
    agree(load("gpt2", progress=lambda *step: steps.append(step)), write()[1])
    assert not any("downloading" in step[0] for step in steps[downloaded:])
    assert "gpt2-medium cannot be downloaded: the hub answers 401" in refusal("gpt2-medium")


def test_a_folder_that_shadows_a_name_is_said(cache: Path, folder: Path) -> None:
    notes: list[str] = []
    Path("gpt2").mkdir()
    refusal("gpt2", note=notes.append)
    assert notes == ["the folder gpt2 has no config.json: loading the published gpt2"]
    Path("gpt2").rmdir()
    shutil.copytree(folder, "gpt2")
    notes.clear()
    load("gpt2", note=notes.append)
    assert notes == ["loading the folder gpt2, not the published model of that name"]


def test_who_accepts_what(cache: Path, folder: Path) -> None:
    for source in (*hub.PUBLISHED, "gpt2-huge", str(folder), f"{folder}/"):
        assert gpt2.accepts(source)
        assert not nanogpt.accepts(source)
    Path("gpt2").mkdir()
    assert gpt2.accepts("gpt2")
    assert not nanogpt.accepts("gpt2")
    Path("gpt2/ckpt.pt").touch()
    assert not gpt2.accepts("gpt2")
    assert nanogpt.accepts("gpt2")
    for source in ("", "shakespeare", "out", "./gpt2x", "x" * 5000):
        assert not gpt2.accepts(source)


def test_neither_torch_nor_transformers_comes_in_before_its_time(folder: Path) -> None:
    program = (
        "import sys; from gptrepl_plugins.models import gpt2; "
        f"assert gpt2.accepts({str(folder)!r}) and list(gpt2.sources()); "
        "assert 'torch' not in sys.modules; "
        f"from gptrepl.api import LoadOptions; gpt2.load({str(folder)!r}, LoadOptions()); "
        "sys.exit('transformers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
