"""A compiled step gives the text of the eager one, or is left alone in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gptrepl import load
from gptrepl.api import LoadOptions
from gptrepl_plugins.models import compiling, decoder, nanogpt
from gptrepl_plugins.models.gpt import GPT

Step = Callable[..., Tensor]


def text_of(model: GPT) -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return model.generate(torch.tensor([[0]]), 90, 0.8, 200, generator).tolist()


@pytest.fixture
def compiled(golden: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[GPT, list[str]]]:
    """Load the golden checkpoint compiled by some function; return it and what was said."""
    monkeypatch.setenv(compiling.VARIABLE, "elsewhere")

    def made(compile: Callable[[Step], Step], **options: str) -> tuple[GPT, list[str]]:
        monkeypatch.setattr(torch, "compile", compile)
        said: list[str] = []
        monkeypatch.chdir(golden / "nanogpt_char")
        model, _ = nanogpt.load("out", LoadOptions(compile=True, note=said.append, **options))
        assert isinstance(model, GPT)
        return model, said

    return made


def test_the_text_is_that_of_the_eager_step(compiled, monkeypatch):
    monkeypatch.setattr(compiling, "choose", lambda model, note: None)
    steps = []

    def compile(step: Step) -> Step:
        def counted(*given):
            assert not torch.is_inference_mode_enabled()
            steps.append(given)
            return step(*given)

        return counted

    model, _ = compiled(compile)
    plain, _ = nanogpt.load("out", LoadOptions())
    steps.clear()
    assert text_of(model) == text_of(plain)
    assert len(steps) == model.block_size - decoder.SPECIAL
    assert model.compiled is not None


def test_where_it_cannot_be_compiled_the_eager_step_stays(compiled):
    def fail(step: Step) -> Step:
        raise RuntimeError("no way\nand more")

    model, said = compiled(fail)
    assert model.compiled is None
    assert said[-1] == "compile is off: no way"
    assert "a minute" in said[0]
    assert text_of(model) == text_of(nanogpt.load("out", LoadOptions())[0])


def test_a_step_with_other_logits_is_left(compiled):
    model, said = compiled(lambda step: lambda *given: step(*given).flip(-1))
    assert model.compiled is None
    assert said[-1] == "compile is off: the compiled step gives other logits"


@pytest.mark.parametrize(
    ("ours", "plain", "said"),
    [
        (0.016, 0.032, "compiled: 1 ms a step, 2 ms as it was"),
        (
            0.032,
            0.016,
            "compile is off: compiled it is no faster here, 2 ms a step, 1 ms as it was",
        ),
    ],
)
def test_the_faster_step_is_chosen(monkeypatch, ours, plain, said):
    class Timed:
        compiled: Step | None = staticmethod(lambda: torch.zeros(1))

    clock = [0.0]
    model, notes = Timed(), []

    def run(model):
        clock[0] += plain if model.compiled is None else ours

    monkeypatch.setattr(compiling, "run", run)
    monkeypatch.setattr(compiling.time, "perf_counter", lambda: clock[0])
    compiling.choose(model, notes.append)
    assert notes[0].startswith(said)
    assert (model.compiled is not None) == (ours < plain)


def test_quantized_weights_are_not_compiled(compiled):
    model, said = compiled(lambda step: pytest.fail("it was compiled"), quantize="bf16")
    assert model.compiled is None
    assert said[-1] == "compile has no effect with quantize bf16: that has its own calls"


def test_a_missing_compiler_is_said_in_words():
    class InvalidCxxCompiler(RuntimeError):
        pass

    assert compiling.reason(InvalidCxxCompiler("x")) == "there is no C++ compiler here, such as g++"
    assert compiling.reason(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("given", "is_ours"), [(None, True), ("/any/torchinductor_me", True), ("/mine", False)]
)
def test_what_is_compiled_is_kept_for_the_next_start(monkeypatch, given, is_ours):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.delenv(compiling.VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(compiling.VARIABLE, given)
    compiling.keep_what_is_compiled()
    assert ("gptrepl" in compiling.os.environ[compiling.VARIABLE]) == is_ours


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="it needs a C++ compiler")
def test_torch_compiles_the_step(golden, monkeypatch, tmp_path):
    """Slow: torch takes some twenty seconds for it."""
    monkeypatch.setenv(compiling.VARIABLE, str(tmp_path))
    monkeypatch.setattr(compiling, "choose", lambda model, note: None)
    monkeypatch.chdir(golden / "nanogpt_char")
    session, plain = load("out", compile=True), load("out")
    assert session.model.compiled is not None
    assert any(tmp_path.iterdir())
    for seed in range(3):
        given = {"seed": seed, "max_new_tokens": 100}
        assert session.generate("ROMEO:", **given) == plain.generate("ROMEO:", **given)
