"""Brings torch's largest library into memory while the keys still answer.

`import` keeps every other thread waiting until a shared library is linked, more than half a
second for this one; a call of `dlopen` does not. What is loaded so is then found by `import`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = (("libtorch_global_deps", "RTLD_GLOBAL"), ("libtorch_cpu", "RTLD_LOCAL"))
"""In the order in which `import torch` loads them, and the way it does."""


HUGE_PAGES = ("THP_MEM_ALLOC_ENABLE", "1")
"""Has torch ask for huge pages, in which a large model is read a tenth faster from memory."""


def preload() -> None:
    """Link the libraries of torch, if this system can and it has not been done; never fail."""
    if "torch" in sys.modules or sys.platform == "win32":
        return
    os.environ.setdefault(*HUGE_PAGES)
    with contextlib.suppress(Exception):  # then `import` does all of it
        found = find_spec("torch")
        if found is None or found.origin is None:
            return
        link = ctypes.CDLL(None).dlopen
        link.restype, link.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
        suffix = ".dylib" if sys.platform == "darwin" else ".so"
        for name, scope in LIBRARIES:
            path = Path(found.origin).parent / "lib" / f"{name}{suffix}"
            link(os.fsencode(path), os.RTLD_LAZY | getattr(os, scope))
