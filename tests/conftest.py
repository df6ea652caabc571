"""What every test stands on: one thread, and the recorded references."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"

# Two threads on two busy cores are many times slower than one for models this small.
torch.set_num_threads(1)
os.environ["TIKTOKEN_CACHE_DIR"] = str(GOLDEN / "tiktoken_cache")


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of recorded references."""
    return GOLDEN
