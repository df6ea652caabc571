"""Which device and which dtype a model gets: what was asked for, or the best that exists here."""

from __future__ import annotations

from collections.abc import Callable

from .api import GptreplError


def present() -> list[str]:
    """Return the devices of this machine, the best one first. Imports torch."""
    import torch

    found = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def resolve(
    device: str, dtype: str, note: Callable[[str], None], *, lenient: bool = False
) -> tuple[str, str]:
    """Return the device and the dtype to load with; `auto` becomes what suits this machine.

    Raises GptreplError if the machine lacks *device*; a *lenient* call takes the best there is
    and notes it. auto is bfloat16 on a GPU that has it, float32 elsewhere.
    """
    import torch

    here = present()
    wanted = {"auto": here[0], "cuda": "cuda:0"}.get(device, device)
    if wanted not in here:
        if not lenient:
            raise GptreplError(f"this machine has no {device}; it has {', '.join(here)}")
        note(f"this machine has no {device}: the model runs on {here[0]}")
        wanted = here[0]
    if dtype == "auto":
        is_cuda = wanted.startswith("cuda")
        dtype = "bfloat16" if is_cuda and torch.cuda.is_bf16_supported() else "float32"
    return wanted, dtype
