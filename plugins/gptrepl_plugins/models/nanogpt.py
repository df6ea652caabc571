"""Loads checkpoints of nanoGPT's train.py and of its forks, and the models that ship with gptrepl.

A source is a folder with a ckpt.pt, a checkpoint file, or the name of a bundled model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import GptreplError, LoadError, LoadOptions, Model, Tokenizer
from gptrepl_plugins.models import gguf, hub, nanochat, vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from gptrepl_plugins.models.gpt import GPTConfig

_ARGUMENTS = ("block_size", "vocab_size", "n_layer", "n_head", "n_embd", "dropout", "bias")


def sources() -> Iterable[str]:
    """Return the names of the bundled models."""
    return _bundled()


def accepts(source: str) -> bool:
    """Return whether *source* is a bundled model, or a path that no other loader knows better."""
    if source in _bundled():
        return True
    if not source or nanochat.accepts(source):
        return False
    path = Path(source).expanduser()
    try:
        if source in hub.PUBLISHED and not (path / "ckpt.pt").exists():
            return False
        if path.is_dir():
            others = (path / "config.json").exists() or gguf.only(path) is not None
            return (path / "ckpt.pt").exists() or not others
        if path.suffix == ".gguf":
            return False
        return path.exists() or source.startswith((".", "/", "~")) or path.suffix in (".pt", ".pth")
    except OSError:
        return False


def load(source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
    """Load a checkpoint into the engine, with the tokenizer of the data it was trained on."""
    path = _find(source, options)

    from gptrepl_plugins.models import checkpoint, weights

    content = checkpoint.read(path)
    state, arguments, dataset = _parts(content, path, options)
    tensors = weights.plain(state, str(path))
    config = _configure(arguments, tensors, path)
    tokenizer = vocabulary.choose(path, dataset, config.vocab_size, options)
    model = weights.build(config, tensors, str(path), options)
    model.about = _training(content)
    return model, tokenizer


def files(source: str) -> Iterable[Path]:
    """Return the checkpoint that the weights are read from, for its hash."""
    return [_find(source, LoadOptions())]


def _bundled() -> dict[str, Path]:
    """Return the folders of the bundled models by name."""
    folder = resources.files("gptrepl_plugins.models")
    return {
        entry.name: Path(str(entry))
        for entry in folder.iterdir()
        if entry.joinpath("ckpt.pt").is_file()
    }


def _find(source: str, options: LoadOptions) -> Path:
    """Return the checkpoint file that *source* stands for."""
    path, bundled = Path(source).expanduser(), _bundled().get(source)
    if bundled is not None:
        if not (path / "ckpt.pt").is_file():
            return bundled / "ckpt.pt"
        options.note(f"loading the folder {path}, not the bundled model of that name")
    if path.is_dir():
        if (path / "ckpt.pt").exists():
            return path / "ckpt.pt"
        raise LoadError(_without_checkpoint(path))
    if not path.exists():
        raise LoadError(f"there is no file or folder '{source}'")
    return path


def _without_checkpoint(folder: Path) -> str:
    """Return what is to be said of a folder that has no ckpt.pt."""
    names = sorted(entry.name for entry in folder.iterdir())
    models = [name for name in names if name.endswith((".pt", ".pth"))]
    if models:
        return f"{folder} has no ckpt.pt; give the file itself, such as {folder / models[0]}"
    if any(name.endswith(".safetensors") for name in names):
        return f"{folder} has safetensors without the config.json that says how to read them"
    if any(name.endswith(".gguf") for name in names):
        return f"{folder} has several GGUF files: give the one to load"
    run = nanochat.inside(folder)
    if run is not None:
        return f"{folder} has no ckpt.pt; give the folder of a checkpoint in it, such as {run}"
    return f"{folder} has no ckpt.pt"


def _parts(
    content: Any, path: Path, options: LoadOptions
) -> tuple[Mapping[Any, Any], dict[str, Any], str | None]:
    """Return (state dict, model_args, dataset) of a checkpoint; what is not needed is left."""
    from gptrepl_plugins.models.checkpoint import Record

    if not isinstance(content, dict):
        raise LoadError(f"{path} holds a {type(content).__name__}, not a checkpoint of nanoGPT")
    state, arguments, config = (content.get(key) for key in ("model", "model_args", "config"))
    if any(".attn.c_q." in str(name) for name in content):
        raise LoadError(
            f"{path} is a checkpoint of nanochat, which is read with its meta beside it, as"
            " model_000100.pt and meta_000100.json"
        )
    if not isinstance(state, dict):
        if any(str(name).endswith("wte.weight") for name in content):
            raise LoadError(
                f"{path} holds weights alone, which do not tell the number of heads: save"
                " {'model': ..., 'model_args': ...} as nanoGPT's train.py does"
            )
        raise LoadError(f"{path} has no 'model' in it: it is not a checkpoint of nanoGPT")
    if isinstance(config, Record):
        config = config.fields
        if arguments is None:  # build-nanogpt stores its configuration object and no model_args
            known = {key: value for key, value in config.items() if key in _ARGUMENTS}
            options.note(f"{path} is read as build-nanogpt's: tanh GELU")
            return state, known | {"activation": "gelu_new"}, None
    if isinstance(arguments, Record):
        arguments = arguments.fields
    if not isinstance(arguments, dict):
        raise LoadError(f"{path} has no 'model_args', which say the number of heads")
    dataset = config.get("dataset") if isinstance(config, dict) else None
    return state, arguments, dataset if isinstance(dataset, str) else None


def _training(content: Mapping[str, Any]) -> str:
    """Return how far a checkpoint was trained, as train.py notes it; empty if it is not said."""
    parts: list[str] = []
    if isinstance(content.get("iter_num"), int):
        parts.append(f"iteration {content['iter_num']}")
    with contextlib.suppress(KeyError, TypeError, ValueError):  # a number, or a tensor of one
        parts.append(f"validation loss {float(content['best_val_loss']):.4f}")
    return ", ".join(parts)


def _configure(arguments: dict[str, Any], tensors: Mapping[str, Tensor], path: Path) -> GPTConfig:
    """Return the configuration: what model_args leave out is taken from the tensors."""
    from gptrepl_plugins.models import weights
    from gptrepl_plugins.models.gpt import GPTConfig

    foreign = [key for key in arguments if key not in (*_ARGUMENTS, "activation")]
    if foreign:
        raise LoadError(
            f"{path} has '{foreign[0]}' among its model_args: it is another architecture than GPT"
        )
    if any(".c_q." in name for name in tensors):
        raise LoadError(f"{path} holds a network of nanochat in another form than nanochat's own")
    given = {key: value for key, value in arguments.items() if value is not None}
    if "n_head" not in given:
        raise LoadError(f"{path} does not say n_head in its model_args")
    try:
        return GPTConfig(**weights.shape(tensors, str(path)) | given)
    except GptreplError as error:
        raise LoadError(f"{path} has model_args that make no model: {error}") from error
