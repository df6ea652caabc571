"""Loads any causal model of transformers: a Hub name, a folder, or a GGUF file.

No file runs code: weights are read from safetensors or GGUF and never unpickled, and Python
files that a repository brings are run only where the user says `trust_remote_code`. Folders of
GPT-2's shape go to the engine.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import GptreplError, LoadError, LoadOptions, Model, Tokenizer
from gptrepl_plugins.models import gguf, gpt2, hub, placement, template, vocabulary
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

if TYPE_CHECKING:
    from gptrepl_plugins.models.causal import CausalModel

_HUB = "hf:"
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_FILES = (".pt", ".pth", ".bin", ".safetensors", ".gguf")
_PICKLES = (".bin", ".pt", ".pth")
_TABLES = {"tokenizer.json", "vocab.json", "tokenizer.model"}
_SMALL = 200_000_000  # parameters up to which one thread may be the fastest


def sources() -> Iterable[str]:
    """Return no names: those of the Hub are too many to list."""
    return ()


def accepts(source: str) -> bool:
    """Return whether *source* is a Hub name, a folder that is not of GPT-2's shape, or GGUF."""
    if source.startswith(_HUB):
        return True
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            is_other = gpt2.kind_of(path) not in (None, "gpt2")
            return not (path / "ckpt.pt").exists() and (is_other or gguf.only(path) is not None)
        if path.exists():
            return path.suffix == ".gguf"
    except OSError:
        return False
    is_name = _NAME.fullmatch(source) is not None and path.suffix not in _FILES
    return is_name or path.suffix == ".gguf"


def load(source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
    """Load a model with the tokenizer that its files bring."""
    place = _find(source, options)
    if place.suffix == ".gguf":
        gguf.weigh(place, options)
        with gguf.reporting(place, options):
            return _build(place.parent, {"gguf_file": place.name}, str(place), options)
    if gpt2.kind_of(place) == "gpt2":
        return gpt2.load(str(place), options)
    _check(place, options)
    return _build(place, {"use_safetensors": True}, str(place), options)


def files(source: str) -> Iterable[Path]:
    """Return the files that the weights of a source are read from."""
    name = source.removeprefix(_HUB)
    path = Path(source).expanduser()
    place = path if path.exists() else hub.cached(name) if _NAME.fullmatch(name) else None
    if place is None:
        return []
    return sorted(place.glob("*.safetensors")) or sorted(place.glob("*.gguf")) or [place]


def _find(source: str, options: LoadOptions) -> Path:
    """Return the folder or the GGUF file that a source stands for, downloaded if need be."""
    path = Path(source).expanduser()
    if path.exists():
        return gguf.only(path) or path
    if path.suffix == ".gguf":
        raise LoadError(f"there is no file '{source}'")
    name = source.removeprefix(_HUB)
    if not _NAME.fullmatch(name):
        raise LoadError(f"'{name}' is no name of the Hub: they read ORGANISATION/NAME")
    return hub.repository(name, options)


# --- what is looked at before anything is loaded ------------------------------------------------


def _check(folder: Path, options: LoadOptions) -> None:
    """Refuse a folder without weights that can be read safely, and code that nobody allowed."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("is_encoder_decoder"):
        raise LoadError(f"{folder} reads one text to write another; it does not continue a text")
    _check_kind(folder, "auto_map" in config, options)
    index = folder / "model.safetensors.index.json"
    shards = gpt2.shards(index) if index.exists() else sorted(folder.glob("*.safetensors"))
    if not shards:
        pickled = [path.name for path in sorted(folder.iterdir()) if path.suffix in _PICKLES]
        if pickled:
            raise LoadError(
                f"{folder} has its weights as {pickled[0]}, a pickle, which can run code and is"
                " not read: save them as safetensors"
            )
        raise LoadError(f"{folder} has no weights in safetensors")
    for shard in shards:
        gpt2.check_safetensors(shard)


def _check_kind(folder: Path, brings_code: bool, options: LoadOptions) -> None:
    """Refuse a network that transformers has not, or that continues no text."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = gpt2.kind_of(folder)
    if brings_code and options.trust_remote_code:
        options.note(f"{folder} brings code of its own, and it runs: trust_remote_code is on")
    elif brings_code and kind not in CONFIG_MAPPING:
        raise LoadError(
            f"{folder} brings code of its own for models of type {kind}, which is not run: read it,"
            " then start with --trust-remote-code"
        )
    elif kind not in CONFIG_MAPPING:
        raise LoadError(f"{folder} is a model of type {kind}, which this transformers has not")
    elif kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise LoadError(f"{folder} is a model of type {kind}, which continues no text")


# --- the model ----------------------------------------------------------------------------------


def _build(
    folder: Path, how: Mapping[str, Any], where: str, options: LoadOptions
) -> tuple[Model, Tokenizer]:
    """Return the model and the tokenizer that transformers reads from a folder."""
    from gptrepl_plugins.models import threads
    from gptrepl_plugins.models.causal import CausalModel

    options.progress(f"loading {where}", 0, None)
    with _quiet():
        model = CausalModel(_network(folder, how, where, options), options.device)
        tokenizer = options.tokenizer or _tokenizer(folder, how, where, model, options)
    model.recommended = _recommended(folder)
    model.quantize, model.device_map = options.quantize, options.device_map
    if options.device == "cpu" and model.size < _SMALL:
        model.threads = threads.choose(model)
    return model, tokenizer


def _network(folder: Path, how: Mapping[str, Any], where: str, options: LoadOptions) -> Any:
    """Return the network with all of its weights, on its devices."""
    from transformers import AutoModelForCausalLM

    told = placement.wanted(options, how, where)
    with _naming(where):
        pair: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            output_loading_info=True,
            trust_remote_code=options.trust_remote_code,
            **how,
            **told,
        )
    network, read = pair
    missing = sorted(map(str, read["missing_keys"])) + sorted(map(str, read["mismatched_keys"]))
    if missing:
        raise LoadError(f"{where} lacks the tensor {missing[0]}{_more(missing)}")
    unused = sorted(map(str, read["unexpected_keys"]))
    if unused:
        options.note(f"{where} has the tensor {unused[0]}{_more(unused)}, which is not used")
    network.eval()
    return network if "device_map" in told else network.to(options.device)


def _tokenizer(
    folder: Path, how: Mapping[str, Any], where: str, model: CausalModel, options: LoadOptions
) -> Tokenizer:
    """Return the tokenizer of a folder; GPT-2's where it has none and the size is GPT-2's."""
    from transformers import AutoTokenizer

    given = {key: value for key, value in how.items() if key == "gguf_file"}
    names = {path.name for path in folder.iterdir()}
    if not given and not names & _TABLES:
        return vocabulary.choose(folder / "config.json", None, model.vocab_size, options)
    if not given and names & _TABLES == {"tokenizer.model"} and not find_spec("sentencepiece"):
        raise LoadError(
            f"{folder} has a tokenizer.model: pip install 'gptrepl[sentencepiece]' to read it"
        )
    with _naming(f"the tokenizer of {where}"):
        read = AutoTokenizer.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=options.trust_remote_code,
            **given,
        )
    tables = getattr(read, "backend_tokenizer", None)
    if tables is None:
        raise LoadError(f"{where} has a tokenizer without tables, which is not read here")
    with _naming(where):
        tokenizer = HuggingFaceTokenizer.of(tables, f"the tokenizer of {where}", model.vocab_size)
    tokenizer.end = _ends(read.eos_token_id, model.network.generation_config.eos_token_id)
    if read.chat_template:
        tokenizer.render = template.renderer(read, where)
        tokenizer.end |= template.turn_ends(tokenizer)
    return tokenizer


def _ends(*given: int | list[int] | None) -> frozenset[int]:
    """Return the ids with which a text or a turn ends, from all who know some."""
    listed = [each if isinstance(each, list) else [each] for each in given]
    return frozenset(token for ids in listed for token in ids if token is not None)


def _recommended(folder: Path) -> dict[str, Any]:
    """Return the sampling that a model's makers recommend: what its generation_config.json means.

    Most files hold the ids of special tokens and do not say how to sample.
    """
    from gptrepl_plugins.commands import generation_config

    path = folder / "generation_config.json"
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        says = isinstance(given.get("do_sample"), bool)
    except (OSError, ValueError, AttributeError):
        return {}
    return generation_config.translate(given).changes if says else {}


# --- how transformers is kept quiet -------------------------------------------------------------


@contextlib.contextmanager
def _naming(what: str) -> Iterator[None]:
    """Turn whatever transformers raises into one line about *what*."""
    try:
        yield
    except GptreplError as error:
        raise LoadError(str(error)) from error
    except ImportError as error:
        raise LoadError(f"{what} needs a package that is not here: {_first(error)}") from error
    except MemoryError:
        raise
    except Exception as error:  # damaged files fail in more ways than the library lists
        raise LoadError(f"{what} cannot be read: {_first(error)}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the remarks and the progress bars of transformers off the screen."""
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _first(error: Exception) -> str:
    """Return the first sentence of an error, on one line."""
    text = " ".join(str(error).split())
    return re.split(r"(?<=[.!?]) ", text)[0][:200] or type(error).__name__


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
