"""The decoding step of a GPT through `torch.compile`: the same text, fused calls.

It is compiled while the model loads, so that the user sees it, and can give it up. What is
compiled is kept in the user's cache folder for the next start. The eager step stays where the
compiled one cannot be made, gives other logits, or is no faster.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import torch

from gptrepl_plugins.models.decoder import Decoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gptrepl.api import LoadOptions
    from gptrepl_plugins.models.gpt import GPT

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
STEPS = 16
"""So many steps are compared and timed."""
ROUNDS = 5


def compile_step(model: GPT, options: LoadOptions) -> None:
    """Let *model* decode by a compiled step where that is faster; say so where it is not."""
    if model.block_size < 2 * STEPS:
        options.note(f"compile has no effect: {model.block_size} tokens are too few to gain by it")
        return
    if options.quantize != "off":
        options.note(
            f"compile has no effect with quantize {options.quantize}: that has its own calls"
        )
        return
    options.note("compiling the model takes a minute or so the first time")
    options.progress("compiling the model", 0, None)
    keep_what_is_compiled()
    eager = run(model)
    try:
        with warnings.catch_warnings():  # they are torch's, about itself
            warnings.simplefilter("ignore")
            torch._dynamo.reset()  # what belongs to a model before this one
            model.compiled = torch.compile(Decoder.to_compile)
            run(model)
            compiled = run(model)
    except Exception as error:  # there is no compiler, or torch cannot: eager is always there
        model.compiled = None
        options.note(f"compile is off: {reason(error)}")
        return
    if not torch.allclose(compiled, eager, rtol=1e-3, atol=1e-3):
        model.compiled = None
        options.note("compile is off: the compiled step gives other logits")
        return
    choose(model, options.note)


def choose(model: GPT, note: Callable[[str], None]) -> None:
    """Keep the compiled step if its median is below that of the eager one."""
    compiled = model.compiled
    taken: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for is_compiled, seconds in taken.items():
            model.compiled = compiled if is_compiled else None
            began = time.perf_counter()
            run(model)
            seconds.append((time.perf_counter() - began) / STEPS)
    ours, plain = (1e3 * statistics.median(taken[which]) for which in (True, False))
    figures = f"{ours:.3g} ms a step, {plain:.3g} ms as it was"
    if ours < plain:
        model.compiled = compiled
        note(f"compiled: {figures}")
    else:
        model.compiled = None
        note(f"compile is off: compiled it is no faster here, {figures}")


def run(model: GPT) -> Tensor:
    """Return the logits of some steps, (STEPS, vocab_size)."""
    row, found = [0, 0, 0], []
    model.logits([row])
    for token in range(STEPS):
        row.append(token % model.vocab_size)
        found.append(model.logits([row]))
    return torch.cat(found)


def keep_what_is_compiled() -> None:
    """Let torch keep it in the user's cache folder, unless the user has named another.

    Its own choice, among the temporary files, may be gone at the next start.
    """
    given = os.environ.get(VARIABLE, "")
    if not given or Path(given).name.startswith("torchinductor_"):
        folder = Path(platformdirs.user_cache_dir("gptrepl", appauthor=False)) / "compiled"
        os.environ[VARIABLE] = str(folder)


def reason(error: Exception) -> str:
    """Return why it cannot be compiled, in one line."""
    if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
        return "there is no C++ compiler here, such as g++"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
