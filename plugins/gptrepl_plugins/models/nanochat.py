"""Loads checkpoints of nanochat: model_NNNNNN.pt, its meta_NNNNNN.json and a tokenizer.pkl.

The network is that of the first nanochat, which transformers has as well. Later ones have
tensors and settings besides; they are told by these, named, and not read. Nothing in a file runs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import GptreplError, LoadError, LoadOptions, Model, Tokenizer
from gptrepl_plugins.rustbpe import FILE, NanochatTokenizer

if TYPE_CHECKING:
    from torch import Tensor

_MODEL = re.compile(r"model_(\d+)\.pt")
_SHAPE = ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd")
_BLOCK = re.compile(r"transformer\.h\.(\d+)\.")
_RENAMED = {
    "attn.c_q": "self_attn.q_proj",
    "attn.c_k": "self_attn.k_proj",
    "attn.c_v": "self_attn.v_proj",
    "attn.c_proj": "self_attn.o_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
"""What each weight of a block is called here and in transformers."""
_SMALL = 200_000_000  # parameters up to which one thread may be the fastest
_SHOWN = 5  # of many names, the first ones are told


def sources() -> Iterable[str]:
    """Return no names: checkpoints are files."""
    return ()


def accepts(source: str) -> bool:
    """Return whether *source* is a folder with a model and a meta file, or such a model file."""
    if not source:
        return False
    path = Path(source).expanduser()
    try:
        if not path.is_dir():
            named = _MODEL.fullmatch(path.name) is not None
            return named and path.is_file() and _meta(path).is_file()
        other = any((path / name).exists() for name in ("ckpt.pt", "config.json"))
        return not other and bool(_models(path)) and any(path.glob("meta_*.json"))
    except OSError:
        return False


def load(source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
    """Load a checkpoint into transformers' network, with the tokenizer that lies near it."""
    path = _find(source, options)
    meta = _read(_meta(path))

    from gptrepl_plugins.models import threads, weights
    from gptrepl_plugins.models.causal import CausalModel
    from gptrepl_plugins.models.checkpoint import read

    content = read(path)
    if not isinstance(content, Mapping):
        raise LoadError(f"{path} holds a {type(content).__name__}, not the tensors of nanochat")
    tensors = weights.plain(content, str(path))
    shape = _shape(path, meta, tensors)
    tokenizer = options.tokenizer or _tokenizer(path, shape["vocab_size"])
    model = CausalModel(_network(shape, tensors, path, options), options.device)
    model.about = _training(path, meta)
    if options.quantize == "bf16":
        model.quantize = "bf16"
    if options.device == "cpu" and model.size < _SMALL:
        model.threads = threads.choose(model)
    return model, tokenizer


def files(source: str) -> Iterable[Path]:
    """Return the file that the weights are read from, for its hash."""
    return [_find(source, LoadOptions())]


# --- which files --------------------------------------------------------------------------------


def inside(folder: Path) -> Path | None:
    """Return the first folder with a checkpoint among those of a training run, if it is one."""
    found = [*folder.glob("*/model_*.pt"), *folder.glob("*_checkpoints/*/model_*.pt")]
    return next((path.parent for path in sorted(found) if accepts(str(path.parent))), None)


def _models(folder: Path) -> dict[int, Path]:
    """Return the model files of a folder by their steps, the last step last."""
    found = {path: _MODEL.fullmatch(path.name) for path in folder.iterdir()}
    return dict(sorted((int(name[1]), path) for path, name in found.items() if name))


def _meta(model: Path) -> Path:
    """Return the file beside a model file that tells its shape."""
    return model.with_name(re.sub(r"model_(\d+)\.pt$", r"meta_\1.json", model.name))


def _find(source: str, options: LoadOptions) -> Path:
    """Return the model file that *source* stands for: of a folder the last that has its meta."""
    path = Path(source).expanduser()
    if not path.is_dir():
        if not path.exists():
            raise LoadError(f"there is no file or folder '{source}'")
        if not _MODEL.fullmatch(path.name):
            raise LoadError(f"{path} has not the name of nanochat's files: model_NNNNNN.pt")
        return path
    models = _models(path)
    whole = {step: model for step, model in models.items() if _meta(model).is_file()}
    if not whole:
        first = next(iter(models.values()), path / "model_NNNNNN.pt")
        raise LoadError(f"{path} has no {_meta(first).name}, which tells the shape of {first.name}")
    last = whole[max(whole)]
    newest = models[max(models)]
    if newest != last:
        options.note(f"{newest.name} is passed over: it has no {_meta(newest).name} yet")
    if len(whole) > 1:
        options.note(f"{last.name} is the last of {len(whole)} checkpoints in {path}")
    return last


def _read(path: Path) -> dict[str, Any]:
    """Return what a meta file says."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} is damaged: it is no JSON") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("model_config"), dict):
        raise LoadError(f"{path} has no 'model_config', which tells the shape of the model")
    return meta


def _tokenizer(model: Path, size: int) -> Tokenizer:
    """Return the tokenizer of *size* ids near a model file: beside it, or in its base's folder."""
    folder = model.absolute().parent
    above = [folder, *folder.parents][:3]  # a base holds X_checkpoints, which hold the folders
    places = [folder / FILE, *(place / "tokenizer" / FILE for place in above)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise LoadError(
            f"{model} has no tokenizer: looked for {', '.join(map(str, places))}; put it there, or"
            f" name it by :tokenizer nanochat:PATH/{FILE}"
        )
    try:
        tokenizer = NanochatTokenizer(str(found))
    except GptreplError as error:
        raise LoadError(str(error)) from error
    if tokenizer.vocab_size != size:
        raise LoadError(
            f"{found} has {tokenizer.vocab_size} ids and the model in {model} {size}: name the"
            f" model's own by :tokenizer nanochat:PATH/{FILE}"
        )
    return tokenizer


# --- the network --------------------------------------------------------------------------------


def _shape(path: Path, meta: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the shape of a model; raise LoadError for another network than the first."""
    config: dict[str, Any] = meta["model_config"]
    kinds = dict.fromkeys(_BLOCK.sub("", name).removesuffix(".weight") for name in tensors)
    known = {*_RENAMED, "transformer.wte", "lm_head"}
    beyond = [name for name in config if name not in _SHAPE]
    beyond += dict.fromkeys(re.sub(r"\.\d+$", "", kind) for kind in kinds if kind not in known)
    if beyond:
        more = f" and {len(beyond) - _SHOWN} more" if len(beyond) > _SHOWN else ""
        raise LoadError(
            f"{path} is of a later nanochat, which has {', '.join(beyond[:_SHOWN])}{more}:"
            " only the network of the first one is read here"
        )
    for name in _SHAPE:
        value = config.get(name)
        if type(value) is not int or value < 1:
            said = f"says {name} {value!r}" if name in config else f"does not say {name}"
            raise LoadError(f"{_meta(path)} {said}, and a whole number above 0 is due")
    shape: dict[str, int] = {name: config[name] for name in _SHAPE}
    heads, shared, width = shape["n_head"], shape["n_kv_head"], shape["n_embd"]
    if width % (2 * heads) or heads % shared:
        raise LoadError(
            f"{_meta(path)} says n_embd {width}, n_head {heads} and n_kv_head {shared}, which do"
            " not divide each other"
        )
    layers = {int(found[1]) for found in map(_BLOCK.match, tensors) if found}
    if layers != set(range(len(layers))) or len(layers) != shape["n_layer"]:
        raise LoadError(
            f"{path} has tensors of {len(layers)} layers, and its meta says n_layer"
            f" {shape['n_layer']}"
        )
    return shape


def _names(layers: int) -> dict[str, str]:
    """Return what each tensor is called here and in transformers."""
    return {
        "transformer.wte.weight": "model.embed_tokens.weight",
        **{
            f"transformer.h.{layer}.{here}.weight": f"model.layers.{layer}.{there}.weight"
            for layer in range(layers)
            for here, there in _RENAMED.items()
        },
        "lm_head.weight": "lm_head.weight",
    }


def _network(
    shape: Mapping[str, int], tensors: dict[str, Tensor], path: Path, options: LoadOptions
) -> Any:
    """Return transformers' network with these weights in memory of its own, on its device."""
    import torch
    from transformers import NanoChatForCausalLM

    from gptrepl_plugins.models import weights
    from gptrepl_plugins.models.mapped import Mapped

    config = _config(shape)
    with torch.device("meta"):
        network: Any = NanoChatForCausalLM(config)
    names = _names(shape["n_layer"])
    state = network.state_dict()
    wanted = {here: tuple(state[there].shape) for here, there in names.items()}
    weights.compare(wanted, tensors, str(path))
    dtype = getattr(torch, "bfloat16" if options.quantize == "bf16" else options.dtype)
    own, mapped = {}, Mapped()
    for number, (here, there) in enumerate(names.items()):
        options.progress(f"reading {path}", number, len(names))
        own[there] = tensors[here].to(options.device, dtype, copy=True)
        mapped.let_go(tensors[here])
    network.load_state_dict(own, assign=True)
    rotary = network.model.rotary_emb
    network.model.rotary_emb = type(rotary)(config)  # its frequencies are computed, not stored
    return network.eval().to(options.device)


def _config(shape: Mapping[str, int]) -> Any:
    """Return the configuration of the first nanochat in the words of transformers."""
    import torch
    from transformers import NanoChatConfig

    make: Any = NanoChatConfig
    return make(
        vocab_size=shape["vocab_size"],
        hidden_size=shape["n_embd"],
        intermediate_size=4 * shape["n_embd"],
        num_hidden_layers=shape["n_layer"],
        num_attention_heads=shape["n_head"],
        num_key_value_heads=shape["n_kv_head"],
        max_position_embeddings=shape["sequence_len"],
        hidden_act="relu2",
        rms_norm_eps=torch.finfo(torch.float32).eps,  # torch's own, which nanochat leaves as it is
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        final_logit_softcapping=15.0,
        attention_bias=False,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )


def _training(path: Path, meta: Mapping[str, Any]) -> str:
    """Return how far a checkpoint was trained, as its meta says it."""
    named = _MODEL.fullmatch(path.name)
    step = meta.get("step", int(named[1]) if named else None)
    parts = [f"step {step}"] if isinstance(step, int) else []
    for name, told in (("val_loss", "validation loss {:.4f}"), ("val_bpb", "{:.4f} bits a byte")):
        value = meta.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            parts.append(told.format(value))
    return ", ".join(parts)
