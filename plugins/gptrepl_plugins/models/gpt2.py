"""Loads GPT-2 by its published name, or from a folder as `save_pretrained` leaves it.

The files are read straight into the engine; transformers is never imported.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import GptreplError, LoadError, LoadOptions, Model, Tokenizer
from gptrepl_plugins.models import hub, vocabulary
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from gptrepl_plugins.models.gpt import GPT, GPTConfig

_TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""GPT-2 stores these (in, out); a linear layer has them (out, in)."""
_NAMES = {
    "n_positions": "block_size",
    "n_ctx": "block_size",
    "vocab_size": "vocab_size",
    "n_layer": "n_layer",
    "n_head": "n_head",
    "n_embd": "n_embd",
    "n_inner": "n_inner",
    "activation_function": "activation",
    "layer_norm_epsilon": "layer_norm_eps",
    "scale_attn_weights": "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx": "scale_attn_by_inverse_layer_idx",
}
_DEFAULTS: dict[str, Any] = {"block_size": 1024, "vocab_size": 50257, "activation": "gelu_new"}


def sources() -> Iterable[str]:
    """Return the published names."""
    return hub.PUBLISHED


def accepts(source: str) -> bool:
    """Return whether *source* is a folder of GPT-2's shape, or a name that begins with gpt2."""
    if not source:
        return False
    folder = Path(source).expanduser()
    try:
        if (folder / "ckpt.pt").exists():
            return False
        if (folder / "config.json").exists():
            return kind_of(folder) == "gpt2"
    except OSError:
        return False
    return source in hub.PUBLISHED or (source.startswith("gpt2") and _is_name(source))


def kind_of(folder: Path) -> str | None:
    """Return the type of model that a folder says it holds; None: it has no config.json.

    One that cannot be read counts as GPT-2's, whose loader says what is wrong with it.
    """
    path = folder / "config.json"
    if not path.exists():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get("model_type", "gpt2"))
    except (OSError, ValueError, AttributeError):
        return "gpt2"


def load(source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
    """Load GPT-2 weights with the activation their configuration names, and their tokenizer."""
    from gptrepl_plugins.models import weights

    folder = _find(source, options)
    config, tensors = _read(folder)
    tokenizer = _tokenizer(folder, config.vocab_size, options)
    return weights.build(config, tensors, str(folder), options), tokenizer


def files(source: str) -> Iterable[Path]:
    """Return the files that hold the weights, as far as they are on this machine."""
    folder: Path | None = Path(source).expanduser()
    if folder is not None and not (folder / "config.json").exists():
        folder = hub.cached(source)
    kinds = ("*.safetensors", "pytorch_model*.bin")
    found = [sorted(folder.glob(kind)) for kind in kinds] if folder else []
    return next((paths for paths in found if paths), [])


def pretrained(source: str, options: LoadOptions, dropout: float) -> GPT:
    """Return the model alone, for those who train it further."""
    from gptrepl_plugins.models import weights

    folder = _find(source, options)
    config, tensors = _read(folder)
    return weights.build(
        dataclasses.replace(config, dropout=dropout), tensors, str(folder), options
    )


def _read(folder: Path) -> tuple[GPTConfig, dict[str, Tensor]]:
    """Return the configuration of a folder and its tensors, mapped from the files."""
    from gptrepl_plugins.models import weights

    read = _configuration(folder)
    named = {_long(name): tensor for name, tensor in _tensors(folder)}
    tensors = {
        name: tensor.t() if name.endswith(_TRANSPOSED) and tensor.dim() == 2 else tensor
        for name, tensor in weights.plain(named, str(folder)).items()
    }
    config = _configure(read, tensors, folder)
    return config, weights.with_biases(tensors, config)


def _is_name(source: str) -> bool:
    return not any(sign in source for sign in "/\\.~") and not Path(source).exists()


def _find(source: str, options: LoadOptions) -> Path:
    """Return the folder of a source: its own, or where the published files lie."""
    folder = Path(source).expanduser()
    if (folder / "config.json").exists():
        if source in hub.PUBLISHED:
            options.note(f"loading the folder {folder}, not the published model of that name")
        return folder
    if folder.is_dir() and source in hub.PUBLISHED:
        options.note(f"the folder {folder} has no config.json: loading the published {source}")
    return hub.folder(source, options)


# --- the configuration --------------------------------------------------------------------------


def _configuration(folder: Path) -> dict[str, Any]:
    """Return what config.json says, or refuse what is no GPT-2."""
    path = folder / "config.json"
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} cannot be read: {error}") from error
    kind = read.get("model_type") if isinstance(read, dict) else None
    if kind != "gpt2":
        raise LoadError(f"{folder} is a model of type {kind}, and only gpt2 is read here")
    if read.get("add_cross_attention"):
        raise LoadError(f"{folder} has cross-attention, which a model of text alone has not")
    return dict(read)


def _configure(read: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> GPTConfig:
    """Return the engine's configuration: whether the head is tied is left to the tensors."""
    from gptrepl_plugins.models import weights
    from gptrepl_plugins.models.gpt import GPTConfig

    shape = weights.shape(tensors, str(folder))
    given = {_NAMES[key]: value for key, value in read.items() if key in _NAMES}
    tied = shape["tied"] if weights.HEAD in tensors else read.get("tie_word_embeddings", True)
    try:
        return GPTConfig(**_DEFAULTS | given, bias=shape["bias"], tied=tied)
    except GptreplError as error:
        raise LoadError(f"{folder / 'config.json'} makes no model: {error}") from error


# --- the weights --------------------------------------------------------------------------------


def _long(name: str) -> str:
    """Return a name as GPT2LMHeadModel has it; GPT2Model leaves the first word out."""
    return name if name.startswith(("transformer.", "lm_head.")) else f"transformer.{name}"


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a folder by name, from whichever of the four layouts it has."""
    for file, read in (("model.safetensors", _safetensors), ("pytorch_model.bin", _pickled)):
        index = folder / f"{file}.index.json"
        if (folder / file).exists():
            yield from read(folder / file)
            return
        if index.exists():
            for shard in shards(index):
                yield from read(shard)
            return
    others = [name for name in ("tf_model.h5", "flax_model.msgpack") if (folder / name).exists()]
    beside = f", only {others[0]}" if others else ""
    raise LoadError(f"{folder} has no weights in model.safetensors or pytorch_model.bin{beside}")


def shards(index: Path) -> list[Path]:
    """Return the files that an index lists; raise LoadError if one is missing."""
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"{index} cannot be read") from error
    for name in names:
        if not (index.parent / name).exists():
            raise LoadError(f"{index.parent} lacks {name}, one of the {len(names)} parts of it")
    return [index.parent / name for name in names]


def check_safetensors(path: Path) -> None:
    """Refuse a file that does not begin as safetensors do, and say what it is."""
    from gptrepl_plugins.models import checkpoint

    with path.open("rb") as stream:
        head = stream.read(512)
    if head[8:9] != b"{":
        raise LoadError(f"{path} is {checkpoint.recognise(head) or 'not a safetensors file'}")


def _safetensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    check_safetensors(path)
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                yield name, file.get_tensor(name)
    except SafetensorError as error:
        raise LoadError(f"{path} is damaged or truncated: {error}") from error


def _pickled(path: Path) -> Iterator[tuple[str, Tensor]]:
    from gptrepl_plugins.models import checkpoint

    content = checkpoint.read(path)
    if not isinstance(content, dict):
        raise LoadError(f"{path} holds a {type(content).__name__}, not weights by name")
    yield from content.items()


# --- the tokenizer ------------------------------------------------------------------------------


def _tokenizer(folder: Path, size: int, options: LoadOptions) -> Tokenizer:
    """Return the user's choice, the folder's own, or GPT-2's where the size is GPT-2's."""
    own = any((folder / name).exists() for name in HuggingFaceTokenizer.FILES)
    if options.tokenizer is not None or not own:
        return vocabulary.choose(folder / "config.json", None, size, options)
    tokenizer = HuggingFaceTokenizer(str(folder))
    if tokenizer.vocab_size > size:
        options.note(f"{folder} has a tokenizer of {tokenizer.vocab_size} ids, its model {size}")
    return tokenizer
