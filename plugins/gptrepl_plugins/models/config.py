"""The shape of a GPT: what has to be known besides its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gptrepl.api import GptreplError
from gptrepl_plugins.models.activations import ACTIVATIONS


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT. The first seven are nanoGPT's; the rest differ in GPT-2 folders only."""

    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True
    """Whether linear layers and layer norms have biases."""
    activation: str = "gelu"
    """`gelu` is the exact one (nanoGPT's), `gelu_new` its tanh form (the published GPT-2's)."""
    n_inner: int | None = None
    """The width inside the MLP; None: 4 * n_embd."""
    layer_norm_eps: float = 1e-5
    tied: bool = True
    """Whether the output head is the token embedding."""
    scale_attn_weights: bool = True
    """Whether attention scores are divided by the square root of the head's size."""
    scale_attn_by_inverse_layer_idx: bool = False
    """Whether they are divided by the number of the layer besides, counted from one."""

    def __post_init__(self) -> None:
        for name in ("block_size", "vocab_size", "n_layer", "n_head", "n_embd"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise GptreplError(f"{name} is {value!r}, which is no whole number above 0")
        if self.n_embd % self.n_head:
            raise GptreplError(
                f"n_embd {self.n_embd} cannot be divided among n_head {self.n_head} heads"
            )
        if self.activation not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            raise GptreplError(f"no activation named '{self.activation}' (there are {known})")

    def scale(self, layer: int) -> float | None:
        """Return what the attention scores of *layer* are multiplied by; None: the usual."""
        if self.scale_attn_weights and not self.scale_attn_by_inverse_layer_idx:
            return None
        scale = 1 / math.sqrt(self.n_embd // self.n_head) if self.scale_attn_weights else 1.0
        return scale / (layer + 1) if self.scale_attn_by_inverse_layer_idx else scale
