"""The modules of a GPT, under the names that nanoGPT's state dicts have."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gptrepl_plugins.models.activations import ACTIVATIONS
from gptrepl_plugins.models.config import GPTConfig


class LayerNorm(nn.Module):
    """A layer norm whose bias may be absent."""

    def __init__(self, width: int, bias: bool, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return *x* normalized over its last dimension."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Attention(nn.Module):
    """Causal self-attention; queries, keys and values of all heads come from one matrix."""

    def __init__(self, config: GPTConfig, scale: float | None):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.scale, self.dropout = config.n_head, scale, config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return (rows, ids, n_embd): what each id gathers from itself and those before it."""
        rows, ids, width = x.shape
        heads = self.c_attn(x).view(rows, ids, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind()
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=True, scale=self.scale
        )
        y = self.c_proj(y.transpose(1, 2).reshape(rows, ids, width))
        return F.dropout(y, self.dropout, self.training)


class MLP(nn.Module):
    """Two linear layers with the activation between them."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc = nn.Linear(config.n_embd, inner, bias=config.bias)
        self.c_proj = nn.Linear(inner, config.n_embd, bias=config.bias)
        self.activation, self.dropout = ACTIVATIONS[config.activation], config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return (rows, ids, n_embd)."""
        y = self.c_proj(self.activation(self.c_fc(x)))
        return F.dropout(y, self.dropout, self.training)


class Block(nn.Module):
    """Attention, then the MLP, each added to what came in."""

    def __init__(self, config: GPTConfig, number: int):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.bias, config.layer_norm_eps)
        self.attn = Attention(config, config.scale(number))
        self.ln_2 = LayerNorm(config.n_embd, config.bias, config.layer_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """Return (rows, ids, n_embd)."""
        x = x + self.attn(self.ln_1(x))
        y: Tensor = x + self.mlp(self.ln_2(x))
        return y


class Transformer(nn.Module):
    """Embeddings of tokens and positions, the blocks, and the last norm."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList(Block(config, number) for number in range(config.n_layer))
        self.ln_f = LayerNorm(config.n_embd, config.bias, config.layer_norm_eps)

    @property
    def blocks(self) -> list[Block]:
        """The blocks in order; `h` holds them under nanoGPT's name."""
        return [block for block in self.h if isinstance(block, Block)]
