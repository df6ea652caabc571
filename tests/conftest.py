"""What every test stands on: one thread, folders of its own, and the recorded references."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"

# Two threads on two busy cores are many times slower than one for models this small.
torch.set_num_threads(1)
os.environ["TIKTOKEN_CACHE_DIR"] = str(GOLDEN / "tiktoken_cache")

# No test reads or writes what belongs to the user, and neither does a process that it starts.
USER = Path(tempfile.mkdtemp(prefix="gptrepl-tests-"))
atexit.register(shutil.rmtree, USER, ignore_errors=True)
for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{kind}_HOME"] = str(USER / kind.lower())
for name in [name for name in os.environ if name.startswith("GPTREPL_")]:
    del os.environ[name]


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of recorded references."""
    return GOLDEN
