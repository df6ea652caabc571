"""Activations: the quick GELU of a small tensor gives torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gptrepl_plugins.models import activations


def test_the_brisk_gelu_is_the_gelu_and_leaves_torch_as_it_was() -> None:
    x = torch.linspace(-6, 6, 101)
    before = torch.backends.mkldnn.enabled
    torch.testing.assert_close(activations.brisk_gelu(x), F.gelu(x))
    assert torch.backends.mkldnn.enabled == before


def test_a_brisk_gelu_that_was_interrupted_is_set_right_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.linspace(-6, 6, 101)
    torch._C._set_mkldnn_enabled(False)
    try:
        monkeypatch.setattr(activations, "_switched", True)  # as if Ctrl-C came in the call before
        torch.testing.assert_close(activations.brisk_gelu(x), F.gelu(x))
        assert torch.backends.mkldnn.enabled
        torch._C._set_mkldnn_enabled(False)
        activations.brisk_gelu(x)
        assert not torch.backends.mkldnn.enabled  # whoever switched it off wants it so
    finally:
        torch._C._set_mkldnn_enabled(True)
