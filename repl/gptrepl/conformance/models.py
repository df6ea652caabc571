"""What is required of a loader and of the model it gives."""

from __future__ import annotations

import sys
from typing import Any

from ..api import GptreplError, LoadOptions, Model
from ..contract import no_model, no_tokenizer
from ..plugins import reason
from .result import Result, documented, required

NOWHERE = "no/such/source"
TOLERANCE = 1e-3
"""By how much logits may differ between batches and with a cache, and no more."""
ROWS = ((1,), (2, 3, 1), (1, 2, 3, 2, 1), (2, 3))


def results(loader: Any, source: str) -> list[Result]:
    """Return what came of each requirement of a loader, and of its model of *source*."""
    heavy = "torch" in sys.modules
    seen = [required("it is documented", documented(loader))]
    names = [str(name) for name in loader.sources()]
    refused = [name for name in names if not loader.accepts(name)]
    seen.append(
        required(
            "it accepts what it lists and nothing else",
            f"it does not accept {refused[0]!r}" if refused else stray(loader),
            f"{len(names)} names",
        )
    )
    imported = "torch" in sys.modules and not heavy
    seen.append(required("it tells so without torch", "it imports torch" if imported else ""))
    seen.append(required("it fails in one line", rude(loader)))
    if not source:
        return [*seen, Result("its model", "not tried", "give a source by --with")]
    notes: list[str] = []
    try:
        model, tokenizer = loader.load(source, LoadOptions(note=notes.append))
    except GptreplError as error:
        return [*seen, Result("its model", "not tried", str(error))]
    except (Exception, SystemExit) as error:
        return [*seen, required("its model loads", reason(error))]
    lacks = no_model(model) or no_tokenizer(tokenizer)
    if lacks:
        return [*seen, required("it gives a model and its tokenizer", lacks)]
    size = f"{model.vocab_size:,} ids"
    seen.append(required("it gives a model and its tokenizer", fit(model, tokenizer), size))
    return [*seen, *judged(model)]


def stray(loader: Any) -> str:
    """Return whether it accepts a source that is not there."""
    return f"it accepts {NOWHERE!r}" if loader.accepts(NOWHERE) else ""


def rude(loader: Any) -> str:
    """Return how a source that cannot be loaded is refused wrongly, or an empty text."""
    try:
        loader.load(NOWHERE, LoadOptions())
    except GptreplError as error:
        return "its error has several lines" if "\n" in str(error) else ""
    except Exception as error:
        return f"for a source that is not there it raises {reason(error)}, not a LoadError"
    return "it loads a source that is not there"


def fit(model: Model, tokenizer: Any) -> str:
    """Return why model and tokenizer do not belong together, or an empty text."""
    if tokenizer.vocab_size > model.vocab_size:
        return f"the tokenizer has {tokenizer.vocab_size} ids, the model {model.vocab_size}"
    return ""


def judged(model: Model) -> list[Result]:
    """Return what came of the requirements of a model."""
    import torch

    size = model.vocab_size
    rows = [[token % size for token in row] for row in ROWS]
    kept = [list(row) for row in rows]
    together = model.logits(rows)
    due = f"float32 of shape ({len(rows)}, {size})"
    if (tuple(together.shape), together.dtype) != ((len(rows), size), torch.float32):
        shape = f"{str(together.dtype).removeprefix('torch.')} of shape {tuple(together.shape)}"
        return [required("logits have their shape", f"{shape} where {due} is due")]
    together = together.clone()
    finite = "" if bool(together.isfinite().all()) else "some are nan or infinite"
    alone = torch.cat([model.logits([row]).clone() for row in rows])
    again = model.logits(rows)
    longer = [row + row for row in rows]
    model.logits(longer)
    back = model.logits(rows)
    far = float((together - alone).abs().max())
    drift = max(float((together - later).abs().max()) for later in (again, back))
    edited = "" if rows == kept else "it edits the rows"
    return [
        required("logits have their shape", "", due),
        required("logits are numbers", finite),
        required("a row alone has the logits it has among others", apart(far), f"{far:.1e} apart"),
        required("calls do not influence each other", edited or apart(drift), f"{drift:.1e} apart"),
        required("rows longer than it can see are cropped", crop(model)),
    ]


def apart(distance: float) -> str:
    """Return that logits differ, or an empty text."""
    return "" if distance <= TOLERANCE else f"they are {distance:.1e} apart"


def crop(model: Model) -> str:
    """Return how a row beyond the block fails, or an empty text."""
    if model.block_size is None:
        return ""
    row = [token % model.vocab_size for token in range(model.block_size + 3)]
    try:
        long, short = model.logits([row]).clone(), model.logits([row[-model.block_size :]])
    except Exception as error:
        return f"it raises {reason(error)}"
    return apart(float((long - short).abs().max()))
