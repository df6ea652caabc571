"""Every test that takes `sampler_class` runs for each sampler that gptrepl itself registers."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sampler_class" in metafunc.fixturenames:
        own = [entry for entry in entry_points(group="gptrepl.samplers") if entry.dist]
        own = sorted((entry for entry in own if entry.dist.name == "gptrepl"), key=str)
        metafunc.parametrize(
            "sampler_class", [entry.load() for entry in own], ids=[entry.name for entry in own]
        )
