"""The libraries of torch are linked before torch is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gptrepl import preload

CODE = """
import sys
from pathlib import Path
from gptrepl.preload import preload
preload()
assert "torch" not in sys.modules
assert "libtorch_cpu" in Path("/proc/self/maps").read_text()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what is in memory")
def test_the_library_is_there_without_the_import():
    subprocess.run([sys.executable, "-c", CODE], check=True)


def test_it_never_fails(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(preload, "find_spec", lambda _name: None)
    preload.preload()
    monkeypatch.setattr(preload, "find_spec", lambda name: 1 / 0)
    preload.preload()
