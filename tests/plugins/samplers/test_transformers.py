"""Every case recorded from transformers: kept sets exact, values to 1e-6, stacks in order."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch

RECORDED = Path(__file__).parents[2] / "golden" / "samplers"

NAMES = {
    "TemperatureLogitsWarper": ("temperature", {}),
    "TopKLogitsWarper": ("top_k", {}),
    "TopPLogitsWarper": ("top_p", {}),
    "MinPLogitsWarper": ("min_p", {}),
    "RepetitionPenaltyLogitsProcessor": ("repetition_penalty", {}),
}
"""For each class of transformers our sampler, and its names of the arguments where they differ."""


def read(name: str) -> dict[str, Any]:
    return json.loads((RECORDED / name).read_text())


def tensor(values: list[float | None]) -> torch.Tensor:
    return torch.tensor([float("-inf") if value is None else value for value in values])


def build(class_name: str, params: dict[str, Any], length: int) -> Any:
    """Return our sampler for one of theirs; *length* is that of the row."""
    name, renamed = NAMES[class_name]
    (entry,) = entry_points(group="gptrepl.samplers", name=name)
    params = {renamed.get(key, key): value for key, value in params.items()}
    least = params.pop("min_tokens_to_keep", 1)
    if "prompt_ignore_length" in params:
        params["window"] = length - params.pop("prompt_ignore_length")
    if name == "top_k":
        params["top_k"] = max(params["top_k"], least)
    return type("Ours", (entry.load(),), {"min_tokens_to_keep": least})(**params)


def cases() -> list[Any]:
    found = []
    for path in sorted(RECORDED.glob("*.json")):
        data = read(path.name)
        for index, case in enumerate(data["cases"] if "outputs" in str(data)[:9999] else ()):
            stack = case.get("stack") or [{"class": data["class"], "params": case["params"]}]
            if all(link["class"] in NAMES for link in stack):
                found.append(pytest.param(stack, case["outputs"], id=f"{path.stem}-{index}"))
    return found


@pytest.mark.parametrize(("stack", "outputs"), cases())
def test_recorded(stack: list[dict[str, Any]], outputs: list[list[float | None]]) -> None:
    inputs = read("inputs.json")
    for values, ids, recorded in zip(inputs["logits"], inputs["input_ids"], outputs, strict=True):
        logits = tensor(values)
        for link in stack:
            logits = build(link["class"], link["params"], len(ids))(logits, ids)
        expected = tensor(recorded)
        assert torch.equal(logits.isfinite(), expected.isfinite())
        torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
