"""A receipt: all that one generation depended on and all that came of it, as plain data.

It is enough to draw the same again, and to tell what is different where that fails.
"""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from . import __version__
from .api import GptreplError, Tokenizer
from .fingerprint import WeightFile, combined
from .generation import Generation
from .loading import Loaded
from .samples import Sample
from .settings import FIELDS, NEVER_SAVED, Settings

UNFINISHED = "unfinished"
"""How a generation ended of which nobody saw the end."""
CUT = ("interrupted", "failed", UNFINISHED)
"""The endings that say nothing about the length."""


class Drawn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample: its prompt in text and ids, its seed, and what was drawn.

    *stream* draws of the seed's one stream came before it; None: it had the seed for itself.
    """

    prompt: str
    prompt_ids: list[int]
    seed: int
    ids: list[int]
    logprobs: list[float | None]
    text: str
    ending: str
    stream: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def logprob(self, place: int) -> float:
        """Return the log-probability of one token, nan where a server did not tell it."""
        told = self.logprobs[place]
        return math.nan if told is None else told


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One generation."""

    time: str
    model: str
    tokenizer: str
    device: str
    dtype: str
    settings: dict[str, Any]
    chain: list[str]
    versions: dict[str, str]
    samples: list[Drawn]
    seconds: float
    ending: str
    files: list[WeightFile] = []
    hash: str = ""
    id: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens were drawn."""
        return sum(len(sample.ids) for sample in self.samples)

    @property
    def seed(self) -> int:
        """The seed of its first sample."""
        return self.samples[0].seed if self.samples else 0

    @property
    def text(self) -> str:
        """The texts of all its samples, one below the other."""
        return "\n".join(sample.text for sample in self.samples)


def receipt_of(generation: Generation, *, ended: bool) -> Receipt:
    """Return the receipt of a generation as far as it has come."""
    loaded, settings = generation.loaded, generation.settings
    samples = [drawn(sample) for sample in generation.samples if sample.ending or sample.tokens]
    endings = {sample.ending for sample in samples}
    cut = next((ending for ending in CUT if ending in endings), "")
    whole = "stop" if endings == {"stop"} else "length"
    return Receipt(
        time=datetime.fromtimestamp(generation.began, UTC).isoformat(timespec="milliseconds"),
        model=loaded.source,
        tokenizer=tokenizer_of(loaded.tokenizer),
        device=loaded.device,
        dtype=loaded.dtype,
        settings=settings_of(settings) | {"model": place_of(loaded)},
        chain=[name for name, _ in settings.active],
        versions=versions(),
        samples=samples,
        seconds=round(generation.seconds, 3),
        ending=(cut or whole) if ended else UNFINISHED,
        files=list(loaded.fingerprint.files),
    )


def drawn(sample: Sample) -> Drawn:
    """Return a sample as plain data."""
    ending = sample.ending or UNFINISHED
    ids, tokens = list(sample.ids), list(sample.tokens)
    logprobs = [None if math.isnan(value) else value for value in sample.logprobs]
    return Drawn(
        sample.prompt, ids, sample.seed, tokens, logprobs, sample.text, ending, sample.stream
    )


def settings_of(settings: Settings) -> dict[str, Any]:
    """Return the exact value of every setting, and of every sampler that was set."""
    names = [*FIELDS, *settings.samplers]
    return {name: settings.data(name) for name in names if name not in NEVER_SAVED}


def place_of(loaded: Loaded) -> str:
    """Return where the files of a model are, whatever folder is asked from; else its source."""
    try:
        path = Path(loaded.source).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # it is no path
        return loaded.source
    files = [Path(file.path) for file in loaded.fingerprint.files]
    is_there = files and all(file.is_relative_to(path) for file in files)
    return str(path) if is_there else loaded.source


def tokenizer_of(tokenizer: Tokenizer) -> str:
    """Return what kind of tokenizer it is and how many ids it knows."""
    return f"{type(tokenizer).__name__}, {tokenizer.vocab_size} ids"


def versions() -> dict[str, str]:
    """Return the versions and the machine that the numbers depend on."""
    import torch

    found = {
        "gptrepl": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{sys.platform} {platform.machine()}",
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def with_hash(receipt: Receipt, digests: Callable[[WeightFile], str]) -> Receipt:
    """Return the receipt with the hash of its weights, as far as *digests* knows its files."""
    if receipt.hash:
        return receipt
    return msgspec.structs.replace(receipt, hash=combined(receipt.files, digests))


def to_json(receipt: Receipt) -> bytes:
    """Return the receipt as one line of JSON."""
    return msgspec.json.encode(receipt)


def from_json(lines: Iterable[bytes], name: str) -> list[Receipt]:
    """Return the receipts of a file of JSON lines; *name* is what errors call it."""
    found: list[Receipt] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=Receipt))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GptreplError(f"{name}:{number} is no receipt: {error}") from None
    return found
