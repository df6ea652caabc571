"""The loop: rows of ids, a model, chains and generators become picks. It never sees text.

The draw is `torch.multinomial` over the whole vocabulary, one a token, and none where the chain
is greedy: that is nanoGPT's rule, so the same seed gives nanoGPT's ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from . import plugins, together
from .api import GptreplError, Model
from .draw import Noise, draw
from .rows import Pick, Row, broken, measures


def generate(
    model: Model,
    rows: Sequence[Row],
    max_new_tokens: int,
    known: int | None = None,
    *,
    measure: bool = False,
) -> Iterator[Pick]:
    """Yield *max_new_tokens* picks for each row, all rows step by step.

    Only the first *known* ids are drawn (None: all of them). With *measure* each pick says what
    it was drawn from. Raises GptreplError when the model or a sampler fails or gives nan, or the
    chain leaves nothing to draw from.
    """
    share = together.can_share(rows)
    for _ in range(max_new_tokens):
        alive = [index for index, row in enumerate(rows) if not row.done]
        if not alive:
            return
        with torch.inference_mode():  # never while whoever takes the picks is at work
            logits = logits_of(model, [rows[index].ids for index in alive])
            found = together.picks(logits, rows, alive, known, measure=measure) if share else None
        if found is not None:
            yield from found
            continue
        for place, index in enumerate(alive):
            with torch.inference_mode():
                one = pick(index, logits[place], rows[index], known, measure=measure)
            yield one


def logits_of(model: Model, rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the logits of *model* after *rows*, (rows, vocab_size); refuse what is none."""
    logits = model.logits(rows)
    if logits.shape != (len(rows), model.vocab_size) or logits.dtype != torch.float32:
        due = f"float32 of shape ({len(rows)}, {model.vocab_size})"
        raise GptreplError(f"the model gave {described(logits)} where {due} was due")
    return logits


def pick(
    index: int,
    logits: Tensor,
    row: Row,
    known: int | None,
    *,
    measure: bool = False,
    noise: Noise | None = None,
) -> Pick:
    """Return the pick of *row* from its *logits*, 1-D, with its id appended to the row.

    The draw uses *noise*, or the row's generator where that is None.
    """
    left = remaining(logits, row, known)
    token = choose(left, row, noise)
    logprob = float(logits.log_softmax(-1)[token])
    if not math.isfinite(logprob):
        raise GptreplError(broken(logits))
    row.ids.append(token)
    return Pick(index, token, logprob, *(measures(logits, left) if measure else ()))


def choose(left: Tensor, row: Row, noise: Noise | None = None) -> int:
    """Return the id that is drawn for *row* from what its chain left."""
    if row.greedy:
        return int(left.argmax())
    return draw(left, row.generator) if noise is None else noise.take(left)


def remaining(logits: Tensor, row: Row, known: int | None) -> Tensor:
    """Return what the chain leaves to draw the next id of *row* from, of *logits*, both 1-D."""
    steps = run(logits, row)
    left = steps[-1]
    if known is not None and known < len(logits):
        # Behind the chain, so that whatever is left is drawn as if nothing had been masked.
        left = masked(left, known)
        if left.max() == -math.inf:
            steps = run(masked(logits, known), row)
            left = steps[-1]
    best = float(left.max())
    if not math.isfinite(best):
        raise blame(steps, row)
    return left


def run(logits: Tensor, row: Row) -> list[Tensor]:
    """Return *logits* and what each link of the row's chain makes of them; the last counts."""
    steps = [logits]
    for name, sampler in row.chain:
        try:
            left = sampler(steps[-1], row.ids)
        except GptreplError:
            raise
        except (Exception, SystemExit) as error:
            raise plugins.blame("samplers", name, plugins.reason(error)) from error
        if not isinstance(left, Tensor) or (left.shape, left.dtype) != (logits.shape, logits.dtype):
            due = described(logits)
            fault = f"it returned {described(left)} where {due} was due"
            raise plugins.blame("samplers", name, fault)
        steps.append(left)
    return steps


def described(value: object) -> str:
    """Return in words what a model or a sampler returned."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"


def masked(logits: Tensor, known: int) -> Tensor:
    """Return *logits* with nothing left from id *known* on."""
    kept = logits.clone()
    kept[known:] = -math.inf
    return kept


def blame(steps: Sequence[Tensor], row: Row) -> GptreplError:
    """Return the error that says who left no distribution to draw from."""
    if not math.isfinite(float(steps[0].max())):
        return GptreplError(broken(steps[0]))
    for (name, _), left in zip(row.chain, steps[1:], strict=True):
        best = float(left.max())
        if math.isfinite(best):
            continue
        label = plugins.label("samplers", name)
        if best == -math.inf:
            fault, way = "left no token to draw from", "set it less strictly, or off"
        else:
            fault, way = f"turned the logits into {best}", "set it off"
        plugins.faults["samplers", name] = f"it {fault}"
        return GptreplError(f"{label} {fault}: {way}")
    return GptreplError(
        "the tokenizer knows none of the tokens that the chain left: set a sampler less strictly"
    )
