"""The pages of a mapped file are let go of once they are copied, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from gptrepl.api import LoadOptions
from gptrepl_plugins.models import nanogpt
from gptrepl_plugins.models.mapped import Mapped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


def resident(path: Path) -> int:
    """Return how many kB of a file are in the memory of this process."""
    total, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_ours = line.endswith(str(path))
        elif is_ours and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


def test_mapped_weights_are_let_go_of_and_can_be_read_again(tmp_path):
    path = tmp_path / "weights.pt"
    wanted = torch.arange(1 << 20)
    torch.save({"w": wanted}, path)
    (found,) = torch.load(path, mmap=True, weights_only=True).values()
    assert torch.equal(found, wanted)
    before = resident(path)
    mapped = Mapped()
    assert mapped.holds(found)
    assert mapped.holds(found.view(1024, 1024).t()[3:])
    mapped.let_go(found)
    assert resident(path) <= 16
    assert before >= 8192
    assert torch.equal(found, wanted)


def test_memory_of_our_own_is_left_as_it_is():
    mine = torch.arange(1 << 20)
    mapped = Mapped()
    assert not mapped.holds(mine)
    mapped.let_go(mine)
    assert torch.equal(mine, torch.arange(1 << 20))


def test_a_model_that_is_loaded_holds_nothing_of_its_file(golden, monkeypatch):
    monkeypatch.chdir(golden / "nanogpt_char")
    path = (golden / "nanogpt_char" / "out" / "ckpt.pt").resolve()
    seen: list[int] = []
    options = LoadOptions(progress=lambda *_told: seen.append(resident(path)))
    nanogpt.load("out", options)
    assert seen
    assert max(seen) * 1024 < path.stat().st_size / 4
