"""Every kind of checkpoint seen in the wild loads the same model, or is refused in one line."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gptrepl
from gptrepl.api import GptreplError, LoadError, LoadOptions
from gptrepl_plugins.models import nanogpt
from gptrepl_plugins.models.gpt import GPT, GPTConfig
from gptrepl_plugins.tokenizers import CharTokenizer, TiktokenTokenizer

ROW = [1, 2, 3, 4, 5]
ALPHABET = "\n abcdefghi"
ARGS = {"block_size": 8, "vocab_size": 11, "n_layer": 2, "n_head": 2, "n_embd": 8}
Checkpoint = dict[str, Any]


def made(bias: bool = True, tied: bool = True, **changes: Any) -> tuple[Checkpoint, torch.Tensor]:
    """A checkpoint as train.py saves it, and the logits its model gives."""
    torch.manual_seed(2)
    args = ARGS | changes
    model = GPT(GPTConfig(**args, bias=bias, tied=tied)).eval()
    for name, weight in model.named_parameters():
        if name.endswith(("bias", "ln_1.weight")):
            torch.nn.init.normal_(weight)
    arguments = {**args, "bias": bias, "dropout": 0.1}
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(9)}}},
        "model_args": arguments,
        "iter_num": 7,
        "best_val_loss": torch.tensor(1.5),
        "config": {"dataset": "tiny", "device": "cuda:1", "bias": bias},
    }
    return checkpoint, model.logits([ROW])


def alphabet(path: Path, characters: str = ALPHABET) -> Path:
    meta = {
        "vocab_size": len(characters),
        "itos": dict(enumerate(characters)),
        "stoi": {character: token for token, character in enumerate(characters)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(meta))
    return path


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `out/` in a project with its data, which is also the working folder."""
    alphabet(tmp_path / "data/tiny/meta.pkl")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return Path("out")


def logits(source: str | Path, **options: Any) -> torch.Tensor:
    return nanogpt.load(str(source), LoadOptions(**options))[0].logits([ROW])


def refusal(source: str | Path, kind: type[GptreplError] = GptreplError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        nanogpt.load(str(source), LoadOptions(**options))
    message = str(caught.value)
    assert "\n" not in message
    assert "\x1b" not in message
    return message


# --- the variant table --------------------------------------------------------------------------


@dataclasses.dataclass
class Settings:
    """Stands for a configuration class that exists in no module here."""

    lr: float = 0.1
    nested: tuple[int, ...] = (1, 2)


Settings.__module__ = "train_gpt2"


def prefixed(prefix: str) -> Callable[[Checkpoint], None]:
    def change(checkpoint: Checkpoint) -> None:
        checkpoint["model"] = {prefix + key: value for key, value in checkpoint["model"].items()}

    return change


def without(*keys: str) -> Callable[[Checkpoint], None]:
    def change(checkpoint: Checkpoint) -> None:
        for key in keys:
            part, _, inner = key.partition(".")
            del (checkpoint[part] if inner else checkpoint)[inner or part]

    return change


def with_masks(checkpoint: Checkpoint) -> None:
    for layer in range(2):
        checkpoint["model"][f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 8, 8).tril()
        checkpoint["model"][f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)


def with_metadata(value: Callable[[], Any]) -> Callable[[Checkpoint], None]:
    def change(checkpoint: Checkpoint) -> None:
        checkpoint["extra"] = value()
        checkpoint["config"]["extra"] = value()

    return change


def with_numpy_arguments(checkpoint: Checkpoint) -> None:
    arguments = checkpoint["model_args"]
    arguments["vocab_size"] = np.int64(11)
    arguments["n_head"] = np.int32(2)
    arguments["dropout"] = np.float32(0.1)
    arguments["bias"] = np.bool_(True)
    checkpoint["best_val_loss"] = np.float64(1.25)


LOADS: dict[str, Callable[[Checkpoint], Any]] = {
    "plain": lambda checkpoint: None,
    "compiled": prefixed("_orig_mod."),
    "distributed": prefixed("module."),
    "distributed, then compiled": prefixed("_orig_mod.module."),
    "compiled, then distributed": prefixed("module._orig_mod."),
    "no bias in model_args": without("model_args.bias"),
    "no vocab_size": without("model_args.vocab_size"),
    "vocab_size None": lambda checkpoint: checkpoint["model_args"].update(vocab_size=None),
    "only n_head": without(*(f"model_args.{key}" for key in ARGS if key != "n_head")),
    "no head stored": without("model.lm_head.weight"),
    "mask buffers": with_masks,
    "no optimizer": without("optimizer"),
    "a NumPy scalar": with_metadata(lambda: np.float64(1.5)),
    "a NumPy array": with_metadata(lambda: np.arange(3)),
    "NumPy model_args": with_numpy_arguments,
    "a path": with_metadata(lambda: Path("out")),
    "a namespace": with_metadata(lambda: argparse.Namespace(lr=0.1, out=Path("x"))),
    "a dataclass": with_metadata(Settings),
    "a namespace as config": lambda checkpoint: checkpoint.update(
        config=argparse.Namespace(**checkpoint["config"])
    ),
    "a namespace as model_args": lambda checkpoint: checkpoint.update(
        model_args=argparse.Namespace(**checkpoint["model_args"])
    ),
}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module `train_gpt2` for the pickler, gone again before the file is read."""
    fake = type(sys)("train_gpt2")
    fake.Settings = Settings  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "train_gpt2", fake)
    return


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("change", LOADS.values(), ids=LOADS.keys())
@pytest.mark.parametrize("zipped", [True, False], ids=["", "old format"])
def test_these_load(
    change: Callable[[Checkpoint], Any],
    zipped: bool,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint, expected = made()
    change(checkpoint)
    torch.save(checkpoint, out / "ckpt.pt", _use_new_zipfile_serialization=zipped)
    monkeypatch.delitem(sys.modules, "train_gpt2")
    model, tokenizer = nanogpt.load("out", LoadOptions())
    torch.testing.assert_close(model.logits([ROW]), expected)
    assert isinstance(tokenizer, CharTokenizer)
    assert model.vocab_size == tokenizer.vocab_size == 11
    assert model.block_size == 8


def test_a_model_without_biases_loads(out: Path) -> None:
    checkpoint, expected = made(bias=False)
    torch.save(checkpoint, out / "ckpt.pt")
    torch.testing.assert_close(logits("out"), expected)
    del checkpoint["model_args"]["bias"]
    torch.save(checkpoint, out / "ckpt.pt")
    torch.testing.assert_close(logits("out"), expected)


def test_an_untied_head_stays_untied(out: Path) -> None:
    checkpoint, expected = made(tied=False)
    torch.save(checkpoint, out / "ckpt.pt")
    torch.testing.assert_close(logits("out"), expected)


def test_a_tied_head_is_one_tensor(out: Path) -> None:
    checkpoint, _ = made()
    checkpoint["model"]["lm_head.weight"] = checkpoint["model"]["lm_head.weight"].clone()
    torch.save(checkpoint, out / "ckpt.pt")
    model, _ = nanogpt.load("out", LoadOptions())
    assert isinstance(model, GPT)
    assert model.lm_head.weight is model.transformer.wte.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_sampled_in_float32(out: Path, dtype: torch.dtype) -> None:
    checkpoint, expected = made()
    checkpoint["model"] = {key: value.to(dtype) for key, value in checkpoint["model"].items()}
    torch.save(checkpoint, out / "ckpt.pt")
    torch.testing.assert_close(logits("out"), expected, rtol=0.05, atol=0.05)
    model, _ = nanogpt.load("out", LoadOptions(dtype="bfloat16"))
    assert isinstance(model, GPT)
    assert model.lm_head.weight.dtype == torch.bfloat16


class _GPTConfig:
    def __init__(self) -> None:
        self.__dict__.update(ARGS)


def test_build_nanogpt_loads_with_its_activation(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, _ = made(vocab_size=50304)
    _GPTConfig.__module__, _GPTConfig.__qualname__, _GPTConfig.__name__ = (
        "train_gpt2",
        "GPTConfig",
        "GPTConfig",
    )
    fake = type(sys)("train_gpt2")
    fake.GPTConfig = _GPTConfig  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "train_gpt2", fake)
    config = _GPTConfig()
    config.__dict__["vocab_size"] = 50304
    torch.save(
        {"model": checkpoint["model"], "config": config, "step": 1, "val_loss": 2.0},
        out / "model_19072.pt",
    )
    monkeypatch.delitem(sys.modules, "train_gpt2")
    notes: list[str] = []
    model, tokenizer = nanogpt.load("out/model_19072.pt", LoadOptions(note=notes.append))
    assert isinstance(model, GPT)
    assert model.config.activation == "gelu_new"
    assert isinstance(tokenizer, TiktokenTokenizer)
    assert "build-nanogpt" in notes[0]
    assert "give the file itself, such as out/model_19072.pt" in refusal("out")


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("ran",)


REFUSED: dict[str, tuple[Callable[[Checkpoint], Any], str]] = {
    "code": (with_metadata(Hostile), "posix.mkdir|nt.mkdir"),
    "an unknown type": (with_metadata(lambda: slice(1)), "type slice"),
    "another architecture": (
        lambda checkpoint: checkpoint["model_args"].update(rope=True),
        "'rope' among its model_args",
    ),
    "no n_head": (without("model_args.n_head"), "n_head"),
    "n_head that does not divide": (
        lambda checkpoint: checkpoint["model_args"].update(n_head=3),
        "n_embd 8 cannot be divided among n_head 3",
    ),
    "n_head that is no number": (
        lambda checkpoint: checkpoint["model_args"].update(n_head="two"),
        "n_head is 'two'",
    ),
    "no model_args": (without("model_args"), "no 'model_args'"),
    "no model": (without("model"), "no 'model'"),
    "a missing tensor": (
        without("model.transformer.h.1.mlp.c_fc.weight"),
        r"lacks the tensor transformer\.h\.1\.mlp\.c_fc\.weight$",
    ),
    "no embedding": (without("model.transformer.wte.weight"), "no tensor transformer.wte.weight"),
    "missing biases": (
        lambda checkpoint: checkpoint.update(
            model={k: v for k, v in checkpoint["model"].items() if not k.endswith("bias")}
        ),
        r"lacks the tensor transformer\.h\.0\.ln_1\.bias and 12 more",
    ),
    "a wrong shape": (
        lambda checkpoint: checkpoint["model"].update(
            {"transformer.h.0.attn.c_proj.weight": torch.zeros(8, 4)}
        ),
        r"c_proj\.weight in out/ckpt\.pt is \(8, 4\), and its configuration says \(8, 8\)",
    ),
    "another block_size": (
        lambda checkpoint: checkpoint["model_args"].update(block_size=16),
        r"wpe\.weight in out/ckpt\.pt is \(8, 8\), and its configuration says \(16, 8\)",
    ),
    "a tensor too many": (
        lambda checkpoint: checkpoint["model"].update({"transformer.h.0.gate": torch.zeros(1)}),
        r"has the tensor transformer\.h\.0\.gate",
    ),
    "no tensor": (
        lambda checkpoint: checkpoint["model"].update({"transformer.wte.weight": 1}),
        "'transformer.wte.weight' among its weights, which is not a tensor",
    ),
    "nanochat": (
        lambda checkpoint: checkpoint["model"].update(
            {"transformer.h.0.attn.c_q.weight": torch.zeros(1)}
        ),
        "a network of nanochat in another form than nanochat's own",
    ),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_these_are_refused_in_one_line(
    change: Callable[[Checkpoint], Any], said: str, out: Path
) -> None:
    checkpoint, _ = made()
    change(checkpoint)
    torch.save(checkpoint, out / "ckpt.pt")
    message = refusal("out", kind=LoadError)
    assert message.startswith("out/ckpt.pt") or " in out/ckpt.pt is " in message
    assert not Path("ran").exists()
    assert re.search(said, message), message


def test_a_state_dict_alone_is_refused(out: Path) -> None:
    torch.save(made()[0]["model"], out / "ckpt.pt")
    assert "weights alone" in refusal("out")
    torch.save([1, 2], out / "ckpt.pt")
    assert "holds a list" in refusal("out")


# --- wrong files --------------------------------------------------------------------------------

FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "web page": (b"\n<!DOCTYPE html><html><head>", "web page"),
    "GGUF": (b"GGUF\x03\0\0\0", "GGUF"),
    "llm.c": ((20240326).to_bytes(4, "little") + b"\0" * 100, r"llm\.c"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0{}", "safetensors"),
    "text": (b"hello there", "not a PyTorch checkpoint"),
    "half a pickle": (b"\x80\x02}q\0(X", "damaged or no checkpoint|cannot be read safely"),
    "zip of something else": (b"PK\x05\x06" + b"\0" * 18, "damaged or no checkpoint"),
}


@pytest.mark.parametrize(("data", "said"), FILES.values(), ids=FILES.keys())
def test_wrong_files_are_named(data: bytes, said: str, out: Path) -> None:
    (out / "ckpt.pt").write_bytes(data)
    for source in ("out", "out/ckpt.pt"):
        message = refusal(source)
        assert message.startswith("out/ckpt.pt is ") or "cannot be read safely" in message
        assert re.search(said, message), message


def test_a_truncated_file_is_named(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    whole = (out / "ckpt.pt").read_bytes()
    for length in (len(whole) // 2, len(whole) - 10, 30):
        (out / "ckpt.pt").write_bytes(whole[:length])
        assert refusal("out") == "out/ckpt.pt is truncated: copy it again"


def test_folders_without_a_checkpoint_say_what_they_hold(out: Path) -> None:
    assert refusal("out") == "out has no ckpt.pt"
    (out / "model.safetensors").touch()
    assert "config.json" in refusal("out")
    (out / "model.safetensors").rename(out / "model.gguf")
    assert "GGUF" in refusal("out")
    (out / "model_000100.pt").touch()
    assert "give the file itself, such as out/model_000100.pt" in refusal("out")
    assert refusal("./nowhere") == "there is no file or folder './nowhere'"


# --- ways to write a source ---------------------------------------------------------------------


def test_a_file_a_folder_a_space_and_home(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, expected = made()
    folder = Path("my models/run 1")
    folder.mkdir(parents=True)
    torch.save(checkpoint, folder / "best one.pt")
    shutil.copy(folder / "best one.pt", folder / "ckpt.pt")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setenv("USERPROFILE", str(Path.cwd()))
    for source in (
        "my models/run 1",
        "my models/run 1/",
        "my models/run 1/best one.pt",
        "~/my models/run 1",
        folder.absolute(),
    ):
        assert nanogpt.accepts(str(source))
        torch.testing.assert_close(logits(source), expected)


def test_what_is_accepted(out: Path, golden: Path) -> None:
    assert nanogpt.accepts("shakespeare")
    assert nanogpt.accepts("out")
    assert nanogpt.accepts("./nowhere")
    assert nanogpt.accepts("nowhere.pt")
    for source in ("gpt2", "nowhere", "", "openai/gpt2", "x" * 5000, str(golden / "gpt2_char_hf")):
        assert not nanogpt.accepts(source)


def test_accepting_does_not_import_torch() -> None:
    program = (
        "import sys; from gptrepl_plugins.models import nanogpt; "
        "assert nanogpt.accepts('shakespeare') and list(nanogpt.sources()); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_bundled_model_loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    model, tokenizer = nanogpt.load("shakespeare", LoadOptions())
    assert (model.vocab_size, model.block_size, tokenizer.vocab_size) == (65, 256, 65)
    ids = tokenizer.encode("ROMEO:")
    assert tokenizer.token_bytes(int(model.logits([ids]).argmax())) == b"\n"


def test_a_folder_that_shadows_a_bundled_model_is_said(out: Path) -> None:
    checkpoint, expected = made()
    Path("shakespeare").mkdir()
    torch.save(checkpoint, "shakespeare/ckpt.pt")
    notes: list[str] = []
    torch.testing.assert_close(logits("shakespeare", note=notes.append), expected)
    assert notes == ["loading the folder shakespeare, not the bundled model of that name"]


# --- memory -------------------------------------------------------------------------------------


def test_the_file_may_be_overwritten_after_loading(out: Path) -> None:
    checkpoint, expected = made()
    torch.save(checkpoint, out / "ckpt.pt")
    model, _ = nanogpt.load("out", LoadOptions())
    size = (out / "ckpt.pt").stat().st_size
    with (out / "ckpt.pt").open("r+b") as stream:
        stream.write(b"\xff" * size)
    torch.testing.assert_close(model.logits([ROW]), expected)


def test_loading_uses_no_random_numbers_and_reports_its_progress(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    before = torch.get_rng_state()
    steps: list[tuple[str, int, int | None]] = []
    nanogpt.load("out", LoadOptions(progress=lambda *step: steps.append(step)))
    assert torch.equal(torch.get_rng_state(), before)
    assert steps[0][1] == 0
    assert steps[-1][1] == steps[-1][2]


# --- the vocabulary -----------------------------------------------------------------------------


def test_the_alphabet_is_found_from_another_working_folder(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _, tokenizer = nanogpt.load("../out", LoadOptions())
    assert tokenizer.encode("a\n") == [2, 0]


def test_an_alphabet_beside_the_checkpoint_comes_first(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    alphabet(out / "meta.pkl", "ZYXWVUTSRQP")
    _, tokenizer = nanogpt.load("out", LoadOptions())
    assert tokenizer.encode("ZY") == [0, 1]


def test_without_an_alphabet_it_is_refused_not_guessed(out: Path) -> None:
    checkpoint, expected = made()
    del checkpoint["config"]
    torch.save(checkpoint, out / "ckpt.pt")
    message = refusal("out")
    assert "vocabulary of 11" in message
    assert "out/meta.pkl" in message
    assert "char:PATH" in message
    chosen = CharTokenizer("data/tiny")
    torch.testing.assert_close(logits("out", tokenizer=chosen), expected)
    checkpoint["config"] = {"dataset": "gone"}
    torch.save(checkpoint, out / "ckpt.pt")
    assert "data/gone/meta.pkl" in refusal("out")


def test_an_alphabet_larger_than_the_model_is_refused(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    large = alphabet(out / "meta.pkl", ALPHABET + "xyz")
    assert "out/meta.pkl lists 14 characters" in refusal("out")
    assert "has 14 ids and the model 11" in refusal("out", tokenizer=CharTokenizer(str(large)))


def test_an_alphabet_smaller_than_the_model_is_said(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    alphabet(out / "meta.pkl", "abc")
    notes: list[str] = []
    _, tokenizer = nanogpt.load("out", LoadOptions(note=notes.append))
    assert tokenizer.vocab_size == 3
    assert notes == ["out/meta.pkl lists 3 characters of the model's 11 ids"]


@pytest.mark.parametrize("size", [50257, 50304])
def test_gpt2_sized_vocabularies_take_gpt2_text(out: Path, size: int) -> None:
    checkpoint, _ = made(vocab_size=size)
    notes: list[str] = []
    torch.save(checkpoint, out / "ckpt.pt")
    model, tokenizer = nanogpt.load("out", LoadOptions(note=notes.append))
    assert isinstance(tokenizer, TiktokenTokenizer)
    assert model.vocab_size == size
    assert "data/tiny/meta.pkl is not used" in notes[0]
    del checkpoint["config"]
    torch.save(checkpoint, out / "ckpt.pt")
    _, tokenizer = nanogpt.load("out", LoadOptions(note=pytest.fail))
    assert isinstance(tokenizer, TiktokenTokenizer)


def test_a_hostile_alphabet_is_refused(out: Path) -> None:
    torch.save(made()[0], out / "ckpt.pt")
    (out / "meta.pkl").write_bytes(pickle.dumps({"itos": Hostile()}))
    assert "mkdir" in refusal("out")
    assert not Path("ran").exists()


def test_what_the_engine_does_not_know_is_said(golden: Path) -> None:
    out = str(golden / "nanogpt_char/out")
    loaded = gptrepl.load(out, device_map="auto", activation="gelu_new").loaded
    assert loaded is not None
    assert [note for note in loaded.notes if "no effect" in note] == [
        "device_map auto has no effect on the models of nanogpt"
    ]
