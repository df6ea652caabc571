"""How well the model in memory foretells a text: the figure that a loss of precision is seen in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gptrepl.api import Event, GptreplError, Model, Notice, Progress

if TYPE_CHECKING:
    from torch import Tensor

CONTEXT = 1024
"""The ids that a model without a limit of its own is shown at most."""


def perplexity(session: Any, path: Path) -> Iterator[Event]:
    """Tell how well the model foretells the text in the file PATH; smaller is better.

    It is exp of the mean negative log-probability, in nats, of every token but the first. A token
    is foretold from the tokens before it, as many as the model sees (1024 if it has no limit) or,
    since the text is read in steps of half of that, at least half as many where the text has
    them. The chain plays no part. Bits a byte compare models of different tokenizers.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise GptreplError(f"cannot read the text {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GptreplError(f"{path} is no UTF-8 text") from None
    yield from session.ready()
    ids = session.loaded.encode(text)
    if len(ids) < 2:
        raise GptreplError(f"{path} has {len(ids)} tokens, and perplexity takes two or more")
    nats, what = 0.0, f"reading {path.name}"
    for row, count in windows(len(ids), session.model.block_size or CONTEXT):
        yield Progress(what, row.stop, len(ids))
        nats += surprise(session.model, ids[row.start : row.stop], count, ids[row.stop])
    yield Progress(what, len(ids), len(ids))
    tokens = len(ids) - 1
    bits = nats / math.log(2) / len(text.encode())
    yield Notice(
        f"perplexity {math.exp(min(nats / tokens, 700)):.4f} of {tokens} tokens of {path.name}, "
        f"{bits:.4f} bits a byte, quantize {getattr(session.model, 'quantize', 'off')}"
    )


def windows(size: int, context: int) -> Iterator[tuple[range, int]]:
    """Yield ranges of a text of *size* ids, none above *context*, and how many ends of each count.

    Each id but the first follows one of those ends, once.
    """
    stop = 0
    while stop < size - 1:
        count = min(context if stop == 0 else max(context // 2, 1), size - 1 - stop)
        stop += count
        yield range(max(stop - context, 0), stop), count


def surprise(model: Model, row: Sequence[int], count: int, following: int) -> float:
    """Return the sum of -log p, in nats, of the *count* ids that end with *following*."""
    import torch

    logits = positions(model, row, count).float()
    targets = torch.tensor([*row[len(row) - count + 1 :], following], device=logits.device)
    return float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))


def positions(model: Model, row: Sequence[int], count: int) -> Tensor:
    """Return the logits after each of the last *count* prefixes of *row*, in one pass if it can."""
    import torch

    several = getattr(model, "positions", None)
    if several is not None:
        found: Tensor = several(row, count)
        return found
    ends = range(len(row) - count + 1, len(row) + 1)
    return torch.cat([model.logits([row[:end]]) for end in ends])
