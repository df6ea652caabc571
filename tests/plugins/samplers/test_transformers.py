"""Every case recorded from transformers: kept sets exact, values to 1e-6, stacks in order."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch

from gptrepl import chain
from gptrepl.api import GptreplError

RECORDED = Path(__file__).parents[2] / "golden" / "samplers"

NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "TemperatureLogitsWarper": ("temperature", {}),
    "TopKLogitsWarper": ("top_k", {}),
    "TypicalLogitsWarper": ("typical", {"mass": "typical_p"}),
    "EpsilonLogitsWarper": ("epsilon", {}),
    "EtaLogitsWarper": ("eta", {"epsilon": "eta"}),
    "TopHLogitsWarper": ("top_h", {}),
    "NoRepeatNGramLogitsProcessor": ("no_repeat_ngram", {"ngram_size": "no_repeat_ngram"}),
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
    """Return each recorded stack with its outputs; one sampler is a stack of one."""
    found = []
    for path in sorted(RECORDED.glob("*.json")):
        data = read(path.name)
        for index, case in enumerate(data.get("cases", ())):
            stack = case.get("stack") or [{"class": data.get("class"), "params": case["params"]}]
            rounding = path.stem == "top_h" and case["params"]["top_h"] == 1  # decides its set
            if "outputs" in case and path.stem != "logit_normalization" and not rounding:
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


MEANT = {
    ("temperature", 0.0): "greedy",
    ("temperature", 1): "off",
    ("top_k", 0): "off",
    ("top_k", 2.0): "2",
    ("typical", 1.0): "off",
    ("epsilon", 0.0): "off",
    ("repetition_penalty", 1): "off",
    ("no_repeat_ngram", 0): "off",
    ("top_h", 0.0): "off",
}
"""What transformers refuses and gptrepl gives a meaning; the rest is refused here too."""


@pytest.mark.parametrize("case", read("invalid_arguments.json")["cases"], ids=str)
def test_refused(case: dict[str, Any]) -> None:
    name, _ = NAMES[case["class"]]
    (value,) = case["params"].values()
    if (name, value) in MEANT:
        sampler = chain.build(name, value)
        meaning = "greedy" if chain.is_greedy(sampler) else chain.written(sampler)
        assert meaning == MEANT[name, value]
    else:
        with pytest.raises(GptreplError, match=f"{name}.* must be .*, not {value:g}"):
            chain.build(name, value)
