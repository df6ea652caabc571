"""Every call of a linear layer gives what F.linear gives, and the text stays nanoGPT's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gptrepl.api import LoadOptions
from gptrepl_plugins.models import decoder, kernels, nanogpt, raced
from gptrepl_plugins.models.gpt import GPT, GPTConfig

KINDS = [
    kernels.Plain,
    kernels.Transposed,
    kernels.OneDNN,
    kernels.SplitOutputs,
    kernels.SplitInputs,
]


@pytest.fixture(autouse=True)
def _no_race_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(raced, "path", lambda: tmp_path / "cache" / "races.json")
    monkeypatch.setattr(kernels, "_taken", {})
    monkeypatch.setattr(kernels, "_ENOUGH", 1 << 16)  # the weights here are small
    kernels._works.cache_clear()
    yield
    kernels._works.cache_clear()


def race_won_by(kind: type[kernels.Plain], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *kind* win every race that it can run, and have every weight be large."""

    def decided(lanes: Sequence[kernels._Lane], *_shape: int) -> dict[kernels._Lane, float]:
        return {lane: float(lane.kind is not kind) for lane in lanes}

    monkeypatch.setattr(kernels, "_race", decided)
    monkeypatch.setattr(kernels, "SMALL", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_each_call_is_the_linear_layer(kind: type[kernels.Plain], bias: bool) -> None:
    torch.manual_seed(0)
    weight, added = torch.randn(48, 32), torch.randn(48) if bias else None
    laid = weight.t().contiguous().t() if kind is kernels.SplitInputs else weight
    call = kind(laid, added)
    for positions in (1, 5):
        x, residual = torch.randn(positions, 32), torch.randn(positions, 48)
        expected = F.linear(x, weight, added)
        torch.testing.assert_close(call(x), expected, rtol=1e-4, atol=1e-4)
        total = call.onto(x, residual.clone())
        torch.testing.assert_close(total, residual + expected, rtol=1e-4, atol=1e-4)
        room = torch.zeros(positions, 96)
        call.into(x, room[:, 48:])
        torch.testing.assert_close(room[:, 48:], expected, rtol=1e-4, atol=1e-4)
        assert not room[:, :48].any()


@pytest.mark.parametrize("kind", [kernels.OneDNN, kernels.SplitOutputs, kernels.SplitInputs])
def test_a_packed_copy_gives_the_same(kind: type[kernels.OneDNN]) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(48, 32), torch.randn(48)
    call = kind(weight.t().contiguous().t() if kind is kernels.SplitInputs else weight, bias)
    packed = kernels.Packed.of(call)
    assert type(packed) is kernels.Packed
    for positions in (1, 2, 8, 11):
        x = torch.randn(positions, 32)
        torch.testing.assert_close(packed(x), F.linear(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_a_torch_that_packs_nothing_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_given: object) -> Tensor:
        raise NotImplementedError

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing)
    for call in (kernels.OneDNN(torch.randn(48, 32), None), kernels.Plain(torch.ones(2, 2), None)):
        assert kernels.Packed.of(call) is call


@pytest.mark.parametrize(("limit", "is_drafted"), [(1 << 30, False), (0, False), (0, True)])
def test_several_positions_run_on_packed_weights(
    monkeypatch: pytest.MonkeyPatch, limit: int, is_drafted: bool
) -> None:
    race_won_by(kernels.OneDNN, monkeypatch)
    torch.manual_seed(0)
    model, plain = (GPT(GPTConfig(16, 64, 2, 2, 32)).eval() for _ in range(2))
    plain.load_state_dict(model.state_dict())
    monkeypatch.setattr(decoder, "PACKABLE", limit)
    if is_drafted:
        assert model.rough()
    rows = [[k, 2, 3] for k in range(decoder.ROWS)]
    for _ in range(3):
        expected = torch.cat([plain.logits([row]) for row in rows])
        torch.testing.assert_close(model.logits(rows), expected, rtol=1e-4, atol=1e-4)
        for row in rows:
            row.append(5)
    calls = model._ready()._for_several()
    is_packed = limit > 0 or is_drafted
    for call in (calls.head, calls.blocks[0].up, calls.blocks[1].qkv):
        assert isinstance(call, kernels.Packed) == is_packed
    torch.testing.assert_close(
        model.positions([1, 2, 3, 4], 2)[1:], plain.logits([[1, 2, 3, 4]]), rtol=1e-4, atol=1e-4
    )
    with torch.no_grad():
        for one in (model, plain):
            one.lm_head.weight.mul_(2)
    torch.testing.assert_close(
        model.positions([1, 2, 3, 4], 2)[1:], plain.logits([[1, 2, 3, 4]]), rtol=1e-4, atol=1e-4
    )


def test_a_torch_without_the_operator_runs_everything_plainly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> Callable[..., Tensor]:
        raise AttributeError("no such operator")

    monkeypatch.setattr(kernels, "product", missing)
    monkeypatch.setattr(kernels, "SMALL", 0)
    assert type(kernels.linear(nn.Linear(8, 8))) is kernels.Plain


def test_a_wrong_operator_is_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kernels, "product", lambda: lambda x, weight, *rest: F.linear(x, weight) + 1
    )
    assert {lane.kind for lane in kernels._known(64, 64)} == {kernels.Plain}


def test_only_calls_that_fit_the_shape_and_the_memory_are_chosen() -> None:
    kinds = {lane.kind for lane in kernels._known(64, 64)}
    assert kinds == {kernels.Plain, kernels.OneDNN, kernels.SplitOutputs, kernels.SplitInputs}
    assert {lane.kind for lane in kernels._known(65, 63)} == {kernels.Plain, kernels.OneDNN}
    assert kernels.fastest((64, 64), by_input=True) is kernels.SplitInputs
    assert kernels.fastest((64, 63), by_input=True) is kernels.Plain
    assert kernels.fastest((64, 64), by_input=False) is not kernels.SplitInputs


def test_a_race_is_run_once_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernels._known(64, 64)
    monkeypatch.setattr(kernels, "_race", lambda *_given: pytest.fail("it was run again"))
    assert kernels._known(64, 64) == first
    monkeypatch.setattr(raced, "machine", lambda: "another machine")
    with pytest.raises(pytest.fail.Exception):
        kernels._known(64, 64)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"here": 3}', '{"here": {"64 x 64": {"Plain, by output": "x"}}}']
)
def test_a_damaged_file_of_races_means_another_race(
    monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(raced, "machine", lambda: "here")
    raced.path().parent.mkdir()
    raced.path().write_text(content)
    found = kernels._known(64, 64)
    assert raced.find("64 x 64") == {lane.name: seconds for lane, seconds in found.items()}


def test_a_folder_that_cannot_be_written_only_costs_the_race(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(raced, "path", lambda: tmp_path / "file" / "races.json")
    assert kernels._known(64, 64)
    assert raced.find("64 x 64") == {}


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_does_not_depend_on_the_call(
    golden: Path, monkeypatch: pytest.MonkeyPatch, kind: type[kernels.Plain]
) -> None:
    monkeypatch.chdir(golden / "nanogpt_char")
    texts = []
    for is_decided in (False, True):
        if is_decided:
            race_won_by(kind, monkeypatch)
        model, _ = nanogpt.load("out", LoadOptions())
        assert isinstance(model, GPT)
        generator = torch.Generator().manual_seed(7)
        texts.append(model.generate(torch.tensor([[0]]), 90, 0.8, 200, generator).tolist())
    assert texts[0] == texts[1]


def test_a_weight_lies_as_it_is_best_read(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden / "nanogpt_char")
    plain, _ = nanogpt.load("out", LoadOptions())
    race_won_by(kernels.SplitInputs, monkeypatch)
    model, _ = nanogpt.load("out", LoadOptions())
    assert isinstance(model, GPT)
    assert isinstance(plain, GPT)
    attention = model.transformer.blocks[0].attn.c_attn
    assert attention.weight.t().is_contiguous()
    assert type(kernels.linear(attention)) is kernels.SplitInputs
    assert model.transformer.wpe.weight.is_contiguous()
    for name, weight in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight)
    ids = torch.arange(20)[None]
    torch.testing.assert_close(model(ids)[0], plain(ids)[0], rtol=1e-4, atol=1e-4)


def test_logits_at_several_positions_are_those_of_each_prefix() -> None:
    torch.manual_seed(3)
    model = GPT(GPTConfig(16, 11, 2, 2, 8)).eval()
    row = [1, 2, 3, 4, 5, 6, 7]
    for held, count in (([[9, 9]], 3), ([row[:4]], 3), ([row[:3]], 1), ([row], 5), ([row, [1]], 7)):
        expected = torch.cat([model.logits([row[: 7 - n]]) for n in reversed(range(count))])
        model.logits(held)
        torch.testing.assert_close(model.positions(row, count), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(model.logits([row])[0], expected[-1], rtol=1e-4, atol=1e-4)
