"""Tells how many layers of a network a long pass has gone through, by hooks that only look on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

LONG = 64
"""A pass over more ids than this is worth telling of."""

Progress = Callable[[int, int], None]
"""Takes how many layers are done, and of how many."""


@contextlib.contextmanager
def told(network: nn.Module, progress: Progress | None) -> Iterator[None]:
    """Call *progress* behind each layer of *network* within; None: change nothing."""
    layers = layers_of(network) if progress is not None else []
    with contextlib.ExitStack() as stack:
        for number, layer in enumerate(layers, 1):
            handle = layer.register_forward_hook(behind(number, len(layers), progress))
            stack.callback(handle.remove)
        yield


def behind(number: int, total: int, progress: Progress | None) -> Callable[..., None]:
    """Return a hook that tells that layer *number* is done."""

    def hook(*_: Any) -> None:
        if progress is not None:
            progress(number, total)

    return hook


def layers_of(network: nn.Module) -> list[nn.Module]:
    """Return the layers: the longest list of modules that is no part of another one."""
    found: list[nn.Module] = []
    waiting = [network]
    while waiting:
        for part in waiting.pop().children():
            if not isinstance(part, nn.ModuleList):
                waiting.append(part)
            elif len(part) > len(found):
                found = list(part)
    return found
