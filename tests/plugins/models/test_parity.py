"""The stream of random numbers of nanoGPT's sample.py, without running it."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from gptrepl.api import LoadOptions
from gptrepl_plugins.models import nanogpt, parity
from gptrepl_plugins.models.gpt import GPT, GPTConfig
from gptrepl_plugins.tokenizers import CharTokenizer

SHAPES = {
    "with biases": GPTConfig(8, 11, 2, 2, 8),
    "without": GPTConfig(64, 65, 4, 4, 128, bias=False),
    "as small as can be": GPTConfig(3, 5, 1, 1, 1),
    "a large embedding": GPTConfig(16, 5003, 1, 2, 130),
}


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES.keys())
def test_replaying_draws_what_building_draws(config: GPTConfig) -> None:
    torch.manual_seed(4)
    GPT(config)
    generator = torch.Generator().manual_seed(4)
    parity.replay_build(config, generator)
    assert torch.equal(generator.get_state(), torch.get_rng_state())


def recorded(golden: Path) -> list[dict[str, Any]]:
    files = sorted((golden / "nanogpt_char/sample_py").glob("*.json"))
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [record for record in records if record["rc"] == 0]


def options(record: dict[str, Any]) -> dict[str, Any]:
    """What the record's sample.py ran with: its defaults, the file it printed, its arguments."""
    values: dict[str, Any] = {
        "start": "\n",
        "num_samples": 10,
        "max_new_tokens": 500,
        "temperature": 0.8,
        "top_k": 200,
        "seed": 1337,
    }
    if not record["args"][0].startswith("--"):
        assignments = record["stdout"].split("\nOverriding: ")[0].split("\n", 1)[1]
        for name, text in re.findall(r"(\w+) = (.*)", assignments):
            values[name] = ast.literal_eval(text)
    for argument in record["args"]:
        name, _, text = argument.removeprefix("--").partition("=")
        if name in values:
            values[name] = text if name == "start" else ast.literal_eval(text)
    return values


def test_the_texts_of_sample_py(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden / "nanogpt_char")
    model, tokenizer = nanogpt.load("out", LoadOptions())
    assert isinstance(model, GPT)
    records = [(record, options(record)) for record in recorded(golden)]
    short = [(record, asked) for record, asked in records if asked["max_new_tokens"] <= 20]
    assert len(short) > 3
    for record, asked in short:
        start = asked["start"]
        if start.startswith("FILE:"):
            start = Path(start[5:]).read_text(encoding="utf-8")
        generator = torch.Generator().manual_seed(asked["seed"])
        model.replay_build(generator)
        prompt = torch.tensor([tokenizer.encode(start)])
        rows = [
            model.generate(
                prompt, asked["max_new_tokens"], asked["temperature"], asked["top_k"], generator
            )[0].tolist()
            for _ in range(asked["num_samples"])
        ]
        texts = [b"".join(map(tokenizer.token_bytes, row)).decode() for row in rows]
        assert record["stdout"].endswith("".join(f"{text}\n---------------\n" for text in texts))


def test_code_pasted_from_nanogpt_gives_the_text_of_sample_py(golden: Path) -> None:
    record = next(record for record in recorded(golden) if options(record)["start"] == "\n")
    asked = options(record)
    torch.manual_seed(asked["seed"])
    checkpoint = torch.load(golden / "nanogpt_char/out/ckpt.pt", weights_only=True)
    model = GPT(GPTConfig(**checkpoint["model_args"]))
    model.load_state_dict(checkpoint["model"])
    model.eval()
    model.to("cpu")
    x = torch.tensor([[0]], dtype=torch.long)
    alphabet = CharTokenizer(str(golden / "nanogpt_char/data/shakespeare_char"))
    with torch.no_grad():
        for text in record["stdout"].split("meta.pkl...\n")[1].split("\n---------------\n")[:-1]:
            y = model.generate(
                x, asked["max_new_tokens"], temperature=asked["temperature"], top_k=asked["top_k"]
            )
            assert b"".join(map(alphabet.token_bytes, y[0].tolist())).decode() == text
