"""Checkpoints of nanochat: the logits of transformers' network, the ids, and the refusals."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import torch
import transformers
from torch import Tensor

import gptrepl
from gptrepl.api import LoadError, LoadOptions, SampleEnded
from gptrepl.commands import evaluate
from gptrepl.conformance import check
from gptrepl.loading import find_loader
from gptrepl.session import Session
from gptrepl.settings import Settings
from gptrepl_plugins.models import nanochat, nanogpt
from gptrepl_plugins.models.causal import CausalModel
from gptrepl_plugins.rustbpe import NanochatTokenizer

SIGNS = ["bos", "user_start", "user_end", "assistant_start", "assistant_end"]
SIGNS += ["python_start", "python_end", "output_start", "output_end"]
BYTES = {bytes([byte]): byte for byte in range(256)}
SPECIAL = {f"<|{name}|>": 256 + number for number, name in enumerate(SIGNS)}
BOS, USER_START, USER_END, ASSISTANT_START, ASSISTANT_END = list(SPECIAL.values())[:5]
SHAPE = {
    "sequence_len": 96,
    "vocab_size": 265,
    "n_layer": 3,
    "n_head": 4,
    "n_kv_head": 2,
    "n_embd": 32,
}
META = {"step": 200, "val_bpb": 0.8123, "model_config": SHAPE, "user_config": {"run": "dummy"}}
ROW = [BOS, 72, 101, 108, 108, 111]


def tensors() -> dict[str, Tensor]:
    """Random weights under nanochat's names; the embedding is bfloat16, as it stores it."""
    torch.manual_seed(3)
    width, size, shared = 32, 265, 16
    inner = 4 * width
    shapes = {"transformer.wte.weight": (size, width), "lm_head.weight": (size, width)}
    for layer in range(3):
        block = f"transformer.h.{layer}."
        shapes[f"{block}attn.c_q.weight"] = (width, width)
        shapes[f"{block}attn.c_k.weight"] = (shared, width)
        shapes[f"{block}attn.c_v.weight"] = (shared, width)
        shapes[f"{block}attn.c_proj.weight"] = (width, width)
        shapes[f"{block}mlp.c_fc.weight"] = (inner, width)
        shapes[f"{block}mlp.c_proj.weight"] = (width, inner)
    made = {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}
    made["transformer.wte.weight"] = made["transformer.wte.weight"].bfloat16()
    return made


def write(folder: Path, step: int = 200, weights: Any = None, meta: Any = META) -> Path:
    """Write a checkpoint as nanochat's checkpoint manager does."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(tensors() if weights is None else weights, folder / f"model_{step:06d}.pt")
    (folder / f"meta_{step:06d}.json").write_text(json.dumps(meta))
    return folder


def write_tokenizer(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = tiktoken.Encoding(
        "rustbpe", pat_str=r"\p{L}+|\s+|.", mergeable_ranks=BYTES, special_tokens=SPECIAL
    )
    (folder / "tokenizer.pkl").write_bytes(pickle.dumps(made))
    return folder / "tokenizer.pkl"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders of a training run, in the working folder: a tokenizer and one checkpoint."""
    monkeypatch.chdir(tmp_path)
    write_tokenizer(Path("base/tokenizer"))
    write(Path("base/chatsft_checkpoints/d3"))
    return Path("base")


SOURCE = "base/chatsft_checkpoints/d3"


def load(source: str | Path = SOURCE, **options: Any) -> CausalModel:
    model, _ = nanochat.load(str(source), LoadOptions(**options))
    assert isinstance(model, CausalModel)
    return model


def refusal(source: str | Path = SOURCE) -> str:
    assert nanochat.accepts(str(source))
    with pytest.raises(LoadError) as caught:
        nanochat.load(str(source), LoadOptions())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def reference() -> Any:
    """transformers' network of this shape, with the same tensors put in by hand."""
    config: Any = transformers.NanoChatConfig
    made: Any = transformers.NanoChatForCausalLM(
        config(
            vocab_size=265,
            hidden_size=32,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=96,
            rms_norm_eps=torch.finfo(torch.float32).eps,
            pad_token_id=None,
        )
    )
    given = {name: weight.float() for name, weight in tensors().items()}
    made.model.embed_tokens.weight.data = given["transformer.wte.weight"]
    made.lm_head.weight.data = given["lm_head.weight"]
    for number, layer in enumerate(made.model.layers):
        block = f"transformer.h.{number}."
        attention, mlp = layer.self_attn, layer.mlp
        attention.q_proj.weight.data = given[f"{block}attn.c_q.weight"]
        attention.k_proj.weight.data = given[f"{block}attn.c_k.weight"]
        attention.v_proj.weight.data = given[f"{block}attn.c_v.weight"]
        attention.o_proj.weight.data = given[f"{block}attn.c_proj.weight"]
        mlp.fc1.weight.data = given[f"{block}mlp.c_fc.weight"]
        mlp.fc2.weight.data = given[f"{block}mlp.c_proj.weight"]
    return made.eval()


def plain(network: Any, rows: list[list[int]]) -> Tensor:
    with torch.no_grad():
        each = [network(torch.tensor([row]), use_cache=False).logits[0, -1] for row in rows]
    return torch.stack(each)


def greedy(
    logits: Callable[[list[list[int]]], Tensor], count: int, row: Sequence[int] = ROW
) -> list[int]:
    ids = list(row)
    for _ in range(count):
        ids.append(int(logits([ids]).argmax()))
    return ids


# --- the network --------------------------------------------------------------------------------


def test_logits_are_those_of_transformers(base: Path) -> None:
    model = load()
    rows = [ROW, ROW[:2], [BOS], list(range(60))]
    expected = plain(reference(), rows)
    torch.testing.assert_close(model.logits(rows), expected, rtol=0, atol=1e-5)
    assert expected.std() > 1  # the weights tell rows apart, and the cap is felt
    assert expected.abs().max() < 15


def test_sixty_greedy_tokens_are_the_same(base: Path) -> None:
    network = reference()
    found = greedy(load().logits, 60)
    assert found == greedy(lambda rows: plain(network, rows), 60)
    assert len(set(found)) > 10


def test_it_is_the_published_network(base: Path) -> None:
    """One layer by hand, from the formulas alone: nothing of transformers takes part."""
    weights = {name: weight for name, weight in tensors().items() if ".h." not in name}
    weights |= {name: weight for name, weight in tensors().items() if ".h.0." in name}
    write(Path("one"), weights=weights, meta=META | {"model_config": SHAPE | {"n_layer": 1}})
    shutil.copy("base/tokenizer/tokenizer.pkl", "one")
    given = {name.split(".h.0.")[-1]: weight.float() for name, weight in weights.items()}

    def norm(x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 2.0**-23).sqrt()

    def turned(x: Tensor) -> Tensor:
        """Rotate (length, heads, 8) by the place, a pair being half a head apart."""
        angle = torch.arange(len(x))[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        first, second = x[..., :4], x[..., 4:]
        return torch.cat((first * cos + second * sin, second * cos - first * sin), -1)

    x = norm(given["transformer.wte.weight"][ROW])
    y = norm(x)
    q = norm(turned((y @ given["attn.c_q.weight"].T).view(-1, 4, 8)))
    k = norm(turned((y @ given["attn.c_k.weight"].T).view(-1, 2, 8))).repeat_interleave(2, 1)
    v = (y @ given["attn.c_v.weight"].T).view(-1, 2, 8).repeat_interleave(2, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / 8**0.5
    hidden = torch.ones(len(ROW), len(ROW)).triu(1).bool()
    seen = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    x = x + torch.einsum("hqk,khd->qhd", seen, v).flatten(1) @ given["attn.c_proj.weight"].T
    inner = (norm(x) @ given["mlp.c_fc.weight"].T).relu().square()
    x = x + inner @ given["mlp.c_proj.weight"].T
    expected = 15 * torch.tanh(norm(x)[-1] @ given["lm_head.weight"].T / 15)

    torch.testing.assert_close(load("one").logits([ROW])[0], expected, rtol=0, atol=1e-5)


def test_the_cache_shows_only_as_speed(base: Path) -> None:
    model, network = load(), reference()
    text = [BOS, *range(40, 100)]
    for row in (text, text[:30], [*text[:20], 1, 2, 3], [*text, 7]):
        found = model.logits([row])
        torch.testing.assert_close(found, plain(network, [row]), rtol=0, atol=1e-5)


def test_rows_are_what_each_is_alone(base: Path) -> None:
    rows = [ROW, ROW[:3], [*ROW, 9, 8], ROW]
    together = load().logits(rows)
    for row, found in zip(rows, together, strict=True):
        torch.testing.assert_close(found, load().logits([row])[0], rtol=0, atol=1e-5)


def test_it_is_what_a_loader_has_to_be(base: Path) -> None:
    results = check("models", nanochat, SOURCE)
    assert [result for result in results if result.state != "ok"] == []
    assert "rows longer" in str(results)


def test_what_is_told_of_it(base: Path) -> None:
    model = load()
    assert (model.block_size, model.vocab_size) == (96, 265)
    assert model.about == "step 200, 0.8123 bits a byte"
    write(base / "rl", meta={"model_config": SHAPE, "val_loss": float("nan")}, step=30)
    write_tokenizer(base / "rl")
    assert load(base / "rl").about == "step 30"
    write(base / "rl", meta=META | {"val_loss": 1.5, "val_bpb": None}, step=40)
    assert load(base / "rl").about == "step 200, validation loss 1.5000"


def test_weights_are_held_as_the_options_say(base: Path) -> None:
    kinds = [
        {weight.dtype for weight in load(**options).network.parameters()}
        for options in ({}, {"dtype": "bfloat16"}, {"quantize": "bf16"})
    ]
    assert kinds == [{torch.float32}, {torch.bfloat16}, {torch.bfloat16}]
    assert load(quantize="bf16").quantize == "bf16"
    plain_one = load(quantize="int8", device_map="auto", activation="gelu")
    assert (plain_one.quantize, plain_one.device_map) == ("off", "off")
    half = load(dtype="bfloat16").logits([ROW])
    torch.testing.assert_close(half, plain(reference(), [ROW]), rtol=0, atol=0.4)


def test_a_compiled_model_was_saved_as_well(base: Path) -> None:
    expected = load().logits([ROW])
    write(base / "c", weights={f"_orig_mod.{name}": w for name, w in tensors().items()})
    write_tokenizer(base / "c")
    assert torch.equal(load(base / "c").logits([ROW]), expected)


def test_the_file_may_be_overwritten_while_the_model_is_used(base: Path) -> None:
    model = load()
    expected = load().logits([ROW])
    path = Path(SOURCE, "model_000200.pt")
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    assert torch.equal(model.logits([ROW]), expected)


# --- which files --------------------------------------------------------------------------------


def test_the_last_whole_checkpoint_is_taken(base: Path) -> None:
    notes: list[str] = []
    write(Path(SOURCE), step=90)
    Path(SOURCE, "model_000300.pt").write_bytes(b"PK half of it")
    load(note=notes.append)
    assert notes == [
        "model_000300.pt is passed over: it has no meta_000300.json yet",
        f"model_000200.pt is the last of 2 checkpoints in {SOURCE}",
    ]
    assert list(nanochat.files(SOURCE)) == [Path(SOURCE, "model_000200.pt")]


def test_one_file_may_be_named(base: Path) -> None:
    write(Path(SOURCE), step=90, meta=META | {"step": 90})
    source = f"{SOURCE}/model_000090.pt"
    notes: list[str] = []
    assert load(source, note=notes.append).about == "step 90, 0.8123 bits a byte"
    assert notes == []
    assert list(nanochat.files(source)) == [Path(source)]


@pytest.mark.parametrize("folder", ["base", "base/chatsft_checkpoints"])
def test_of_a_training_run_one_checkpoint_has_to_be_given(base: Path, folder: str) -> None:
    with pytest.raises(LoadError) as caught:
        nanogpt.load(folder, LoadOptions())
    assert str(caught.value) == (
        f"{folder} has no ckpt.pt; give the folder of a checkpoint in it, such as {SOURCE}"
    )


def test_other_names_are_refused(base: Path) -> None:
    Path("other.pt").touch()
    for source, said in (("other.pt", "has not the name"), ("no.pt", "there is no file")):
        with pytest.raises(LoadError, match=said):
            nanochat.load(source, LoadOptions())


def test_no_other_loader_takes_it_and_it_takes_nothing_else(base: Path) -> None:
    for source in (SOURCE, f"{SOURCE}/model_000200.pt"):
        assert find_loader(source, [])[0] == "nanochat"
        assert not nanogpt.accepts(source)
    for source in ("", "base", "no/such", f"{SOURCE}/meta_000200.json", "shakespeare", "gpt2"):
        assert not nanochat.accepts(source)
    Path(SOURCE, "ckpt.pt").touch()
    assert not nanochat.accepts(SOURCE)
    assert nanogpt.accepts(SOURCE)


@pytest.mark.parametrize(
    "place", ["d3", "d3/tokenizer", "../tokenizer", "../chatsft_checkpoints/tokenizer"]
)
def test_the_tokenizer_is_found_near_the_checkpoint(base: Path, place: str) -> None:
    found = Path("base/tokenizer/tokenizer.pkl").rename("kept.pkl")
    folder = Path("base/chatsft_checkpoints", place)
    folder.mkdir(parents=True, exist_ok=True)
    found.rename(folder / "tokenizer.pkl")
    for source in (SOURCE, f"{SOURCE}/model_000200.pt"):
        _, tokenizer = nanochat.load(source, LoadOptions())
        assert isinstance(tokenizer, NanochatTokenizer)
        assert tokenizer.vocab_size == 265


def test_without_a_tokenizer_it_says_where_it_looked(base: Path) -> None:
    kept = Path("base/tokenizer/tokenizer.pkl").rename("kept.pkl")
    said = refusal()
    here = base.absolute()
    for place in (
        here / "chatsft_checkpoints/d3/tokenizer.pkl",
        here / "chatsft_checkpoints/d3/tokenizer/tokenizer.pkl",
        here / "chatsft_checkpoints/tokenizer/tokenizer.pkl",
        here / "tokenizer/tokenizer.pkl",
    ):
        assert str(place) in said
    assert "name it by :tokenizer nanochat:PATH/tokenizer.pkl" in said
    chosen = NanochatTokenizer(str(kept))
    assert nanochat.load(SOURCE, LoadOptions(tokenizer=chosen))[1] is chosen


# --- a conversation -----------------------------------------------------------------------------


def test_a_chat_in_the_shell_has_the_ids_of_nanochat(base: Path) -> None:
    settings = Settings().but("command line", model=SOURCE, mode="chat", temperature=0)
    session = Session(settings.but("command line", system="Be brief.", max_new_tokens=5))
    list(evaluate(session, "hi"))
    opening = [BOS, USER_START, *b"Be brief.\n\nhi", USER_END, ASSISTANT_START]
    (sample,) = session.samples
    assert sample.ids == opening
    assert sample.tokens == greedy(load().logits, 5, opening)[-5:]

    reply = NanochatTokenizer("base/tokenizer").encode(sample.text.removeprefix(sample.prompt))
    list(evaluate(session, "so"))
    turn = [ASSISTANT_END, USER_START, *b"so", USER_END, ASSISTANT_START]
    assert session.samples[-1].ids == [*opening, *reply, *turn]


def test_a_sign_ends_the_turn_and_is_no_part_of_it(base: Path) -> None:
    """The head is made so that the end of a turn is most likely after anything."""
    weights = tensors()
    weights["lm_head.weight"] = torch.zeros(265, 32)
    weights["transformer.wte.weight"] = torch.ones(265, 32, dtype=torch.bfloat16)
    for name in weights:
        if name.endswith("c_proj.weight"):
            weights[name] = torch.zeros_like(weights[name])
    weights["lm_head.weight"][ASSISTANT_END] = 1
    write(Path(SOURCE), weights=weights)
    settings = Settings().but("command line", model=SOURCE, mode="chat", temperature=0)
    session = Session(settings.but("command line", max_new_tokens=5))
    events = list(evaluate(session, "hi"))
    (ended,) = [event for event in events if isinstance(event, SampleEnded)]
    assert ended.tokens <= 1
    assert session.samples[-1].text.endswith("<|assistant_start|>")
    list(evaluate(session, "so"))
    before = [BOS, USER_START, *b"hi", USER_END, ASSISTANT_START, ASSISTANT_END]
    row = [*before, USER_START, *b"so", USER_END, ASSISTANT_START]
    assert session.samples[-1].ids[: len(row)] == row


# --- what is refused ----------------------------------------------------------------------------


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def test_a_tokenizer_that_would_run_code_is_refused_and_not_run(base: Path) -> None:
    Path("base/tokenizer/tokenizer.pkl").write_bytes(pickle.dumps(Evil()))
    assert "system, which is not run" in refusal()
    assert not Path("ran").exists()


def test_a_tokenizer_of_another_size_is_refused(base: Path) -> None:
    made = tiktoken.Encoding(
        "rustbpe", pat_str=".", mergeable_ranks=BYTES, special_tokens={"<|bos|>": 256}
    )
    Path("base/tokenizer/tokenizer.pkl").write_bytes(pickle.dumps(made))
    said = refusal()
    assert "has 257 ids and the model in base/chatsft_checkpoints/d3/model_000200.pt 265" in said


def changed(**changes: Any) -> dict[str, Any]:
    """A meta whose model_config is changed; None takes a setting away."""
    config = SHAPE | changes
    return META | {"model_config": {key: v for key, v in config.items() if v is not None}}


METAS: dict[str, tuple[Any, str]] = {
    "no configuration": ({"step": 1}, "has no 'model_config'"),
    "a list": ([1], "has no 'model_config'"),
    "a setting that is missing": (changed(n_head=None), "does not say n_head"),
    "a text": (changed(n_embd="32"), "says n_embd '32', and a whole number above 0 is due"),
    "a truth": (changed(n_kv_head=True), "says n_kv_head True"),
    "nothing": (changed(sequence_len=0), "says sequence_len 0"),
    "heads that do not fit": (changed(n_head=5), "n_embd 32, n_head 5 and n_kv_head 2"),
    "an odd head": (changed(n_head=32, n_kv_head=32), "which do not divide each other"),
    "many layers": (changed(n_layer=10**9), "tensors of 3 layers, and its meta says n_layer 1000"),
    "another width": (
        changed(n_embd=64),
        r"wte\.weight in base.* is \(265, 32\), and its configuration says \(265, 64\)",
    ),
    "another vocabulary": (changed(vocab_size=260), "has 265 ids and the model in .* 260"),
}


@pytest.mark.parametrize(("meta", "said"), METAS.values(), ids=METAS.keys())
def test_a_meta_that_does_not_fit_is_refused(base: Path, meta: Any, said: str) -> None:
    write(Path(SOURCE), meta=meta)
    message = refusal()
    assert re.search(said, message), message


def test_a_damaged_meta_is_refused(base: Path) -> None:
    path = Path(SOURCE, "meta_000200.json")
    for text in ("", '{"model_config": {', "[" * 100_000):
        path.write_text(text)
        assert refusal() == f"{path} is damaged: it is no JSON"
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal() == f"{path} is damaged: it is no JSON"


def test_a_meta_that_is_missing_is_named(base: Path) -> None:
    Path(SOURCE, "meta_000200.json").rename(Path(SOURCE, "meta_000100.json"))
    assert refusal() == (
        f"{SOURCE} has no meta_000200.json, which tells the shape of model_000200.pt"
    )
    Path(SOURCE, "meta_000100.json").unlink()
    assert not nanochat.accepts(SOURCE)
    for source, said in (
        (SOURCE, "has no ckpt.pt; give the file itself"),
        (f"{SOURCE}/model_000200.pt", "a checkpoint of nanochat, which is read with its meta"),
    ):
        assert nanogpt.accepts(source)
        with pytest.raises(LoadError, match=said):
            nanogpt.load(source, LoadOptions())


def test_tensors_that_are_missing_or_of_another_shape_are_named(base: Path) -> None:
    name = "transformer.h.1.mlp.c_fc.weight"
    weights = tensors()
    del weights[name]
    write(Path(SOURCE), weights=weights)
    assert refusal() == f"{SOURCE}/model_000200.pt lacks the tensor {name}"
    write(Path(SOURCE), weights=weights | {name: torch.zeros(4, 4)})
    assert f"{name} in {SOURCE}/model_000200.pt is (4, 4)" in refusal()
    write(Path(SOURCE), weights=weights | {name: 1})
    assert "which is not a tensor" in refusal()
    write(Path(SOURCE), weights=[1])
    assert "holds a list, not the tensors of nanochat" in refusal()


def test_a_truncated_file_is_named(base: Path) -> None:
    path = Path(SOURCE, "model_000200.pt")
    path.write_bytes(path.read_bytes()[:5000])
    assert refusal() == f"{path} is truncated: copy it again"


def test_weights_that_would_run_code_are_refused_and_not_run(base: Path) -> None:
    write(Path(SOURCE), weights={"lm_head.weight": Evil()})
    assert "is not run" in refusal() or "cannot be read safely" in refusal()
    assert not Path("ran").exists()


def test_a_later_network_is_refused_by_what_it_has_besides(base: Path) -> None:
    later = {
        "resid_lambdas": torch.ones(3),
        "x0_lambdas": torch.zeros(3),
        "value_embeds.0.weight": torch.zeros(265, 16),
        "value_embeds.2.weight": torch.zeros(265, 16),
        "transformer.h.0.attn.ve_gate.weight": torch.zeros(2, 32),
        "transformer.h.2.attn.ve_gate.weight": torch.zeros(2, 32),
    }
    write(Path(SOURCE), weights=tensors() | later, meta=changed(window_pattern="SSSL"))
    shutil.rmtree("base/tokenizer")  # the network is refused first
    assert refusal() == (
        f"{SOURCE}/model_000200.pt is of a later nanochat, which has window_pattern,"
        " resid_lambdas, x0_lambdas, value_embeds, attn.ve_gate: only the network of the first one"
        " is read here"
    )
    write(Path(SOURCE), weights=tensors() | {"smear_gate.weight": torch.zeros(1)})
    assert "which has smear_gate: only" in refusal()
    write(Path(SOURCE), meta=changed(window_pattern="L"))
    assert "which has window_pattern: only" in refusal()


def test_what_it_does_not_know_is_said(base: Path) -> None:
    loaded = gptrepl.load(SOURCE, device_map="auto", activation="gelu", quantize="bf16").loaded
    assert loaded is not None
    assert [note for note in loaded.notes if "no effect" in note] == [
        "activation gelu has no effect on the models of nanochat",
        "device_map auto has no effect on the models of nanochat",
    ]
