"""Lets go of the pages of a mapped file that were copied, so that no weight is held twice.

The pages are as the file has them; whoever looks at them again has them read again.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MAPS = Path("/proc/self/maps")


class Mapped:
    """The files that are mapped as this is made; on Linux alone, elsewhere nothing is let go."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        if sys.platform == "linux" and MAPS.exists():
            self._ranges = [*map(_range, filter(_is_of_file, MAPS.read_text().splitlines()))]
            self._madvise = ctypes.CDLL(None).madvise

    def holds(self, tensor: Tensor) -> bool:
        """Return whether all of a tensor's memory is a mapped file."""
        start, end = _memory(tensor)
        return any(low <= start < end <= high for low, high in self._ranges)

    def let_go(self, tensor: Tensor) -> None:
        """Let go of the pages that hold nothing but *tensor*, if they are those of a file."""
        if not self.holds(tensor):
            return
        start, end = _memory(tensor)
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        length = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if length > 0:
            self._madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


def _memory(tensor: Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    spans = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in spans)
    return start, start + (last + 1) * tensor.element_size()


def _is_of_file(line: str) -> bool:
    _, _, _, _, inode, *path = line.split(maxsplit=5)
    return inode != "0" and bool(path)


def _range(line: str) -> tuple[int, int]:
    low, high = line.split(maxsplit=1)[0].split("-")
    return int(low, 16), int(high, 16)
