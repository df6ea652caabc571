"""The engine: one GPT for nanoGPT and GPT-2 weights, under nanoGPT's names.

It is a `gptrepl.api.Model`, and code written for nanoGPT's own GPT runs on it: the same
configuration, the same names in the state dict, `generate`, `from_pretrained`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gptrepl.api import GptreplError, LoadOptions
from gptrepl_plugins.models import parity, threads
from gptrepl_plugins.models.config import GPTConfig
from gptrepl_plugins.models.decoder import Decoder
from gptrepl_plugins.models.layers import Progress
from gptrepl_plugins.models.modules import Transformer

__all__ = ["GPT", "GPTConfig"]


class GPT(nn.Module):
    """A GPT with random weights, drawn as nanoGPT draws them, until a state dict is loaded.

    Weights may be changed in place. Those that are replaced by others are noticed at the next
    `eval()`, `train()`, `to()` or `load_state_dict()`.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.transformer = Transformer(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tied:
            self.transformer.wte.weight = self.lm_head.weight
        self.threads: int | None = None
        """How many threads `logits` runs on; None: as many as torch has."""
        self.quantize = "off"
        """The precision that the linear layers are rounded to; `off`: that of their weights."""
        self.progress: Progress | None = None
        """Told of each layer of a pass over a long prompt; None: nobody wants to know."""
        self.about = ""
        """How far it was trained, in words, where that is known."""
        self._compiled: Callable[..., Tensor] | None = None
        self._decoder: Decoder | None = None
        self._rough: list[GPT] | None = None  # in a list, so that it is no part of this module
        self.apply(_draw)
        for name, weight in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(weight, 0.0, 0.02 / math.sqrt(2 * config.n_layer))

    @property
    def vocab_size(self) -> int:
        """The number of logits for each row."""
        return self.config.vocab_size

    @property
    def block_size(self) -> int:
        """The longest row that is seen, in tokens; longer rows are cropped to their last ids."""
        return self.config.block_size

    @property
    def activation(self) -> str:
        """What stands between the layers of an MLP, by its name in a configuration."""
        return self.config.activation

    @property
    def bytes_per_token(self) -> int:
        """How many bytes of weights are read to decode one token."""
        from gptrepl_plugins.models.quantization import size_of

        body = self.transformer
        embeddings = body.wpe.weight.nbytes
        if body.wte.weight is not getattr(self.lm_head, "weight", None):
            embeddings += body.wte.weight.nbytes
        return size_of(self) - embeddings

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return float32 logits, shape (len(rows), vocab_size), for the token after each row.

        Raise GptreplError for an empty row and for an id outside the vocabulary.
        """
        with self._apart():
            return self._ready().logits(rows)

    def positions(self, row: Sequence[int], count: int) -> Tensor:
        """Return float32 logits, shape (count, vocab_size), after the last *count* prefixes of row.

        The last of them is *row* itself. Raise GptreplError if it is longer than the block.
        """
        if not 0 < count <= len(row) <= self.block_size:
            raise GptreplError(f"no {count} positions of {len(row)} ids in {self.block_size}")
        with self._apart():
            return self._ready().positions(row, count)

    def rough(self) -> list[GPT]:
        """Return a copy in 4 bits, for guesses, made when first asked; none where it is no use.

        With it the weights of this model are held packed as well, for verifying the guesses.
        """
        if self._rough is None:
            from gptrepl_plugins.models.quantization import rough_copy

            self._rough = rough_copy(self)
            if self._rough:
                self._ready().pack()
        return self._rough

    @property
    def compiled(self) -> Callable[..., Tensor] | None:
        """The decoding step as `torch.compile` made it; None: it runs as it is written."""
        return self._compiled

    @compiled.setter
    def compiled(self, step: Callable[..., Tensor] | None) -> None:
        self._compiled, self._decoder = step, None

    def _apart(self) -> AbstractContextManager[object]:
        """Return a context without gradients; torch compiles nothing that is in inference mode."""
        if self._compiled is not None:
            return _plain_mode()
        return nullcontext() if torch.is_inference_mode_enabled() else torch.inference_mode()

    def _ready(self) -> Decoder:
        if self.threads is not None:
            threads.use(self.threads)
        if self._decoder is None:
            self._decoder = Decoder(self)
        return self._decoder

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss) of ids (B, T), as nanoGPT: without *targets* of the last id alone.

        The logits are (B, T, vocab_size) with targets and (B, 1, vocab_size) without.
        """
        body = self.transformer
        x = body.wte(idx) + body.wpe(torch.arange(idx.shape[1], device=idx.device))
        x = F.dropout(x, self.config.dropout, self.training)
        for block in body.h:
            x = block(x)
        x = body.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def generate(
        self,
        idx: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Continue ids (B, T) to (B, T + max_new_tokens), drawing as nanoGPT does.

        All rows draw from one stream: *generator*, or torch's own. Logits tied with the k-th
        are kept.
        """
        rows: list[list[int]] = idx.tolist()
        for _ in range(max_new_tokens):
            logits = self.logits(rows) / temperature
            if top_k is not None:
                least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
                logits = logits.masked_fill(logits < least, -torch.inf)
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            for row, token in zip(rows, drawn[:, 0].tolist(), strict=True):
                row.append(token)
        return torch.tensor(rows, dtype=idx.dtype, device=idx.device)

    @classmethod
    def from_pretrained(cls, source: str, override_args: dict[str, Any] | None = None) -> GPT:
        """Return GPT-2's weights by name or folder, with the exact GELU as nanoGPT has it.

        Only `dropout` can be overridden.
        """
        from gptrepl_plugins.models import gpt2

        change = override_args or {}
        if set(change) - {"dropout"}:
            raise GptreplError(f"only dropout can be overridden, not {', '.join(change)}")
        return gpt2.pretrained(source, LoadOptions(activation="gelu"), change.get("dropout", 0.0))

    def replay_build(self, generator: torch.Generator) -> None:
        """Draw from a CPU *generator* what nanoGPT draws to build this model, as sample.py does."""
        parity.replay_build(self.config, generator)

    def crop_block_size(self, block_size: int) -> None:
        """Let the model see no more than *block_size* ids."""
        if block_size > self.config.block_size:
            raise GptreplError(f"block_size {block_size} is above {self.config.block_size}")
        self.config = dataclasses.replace(self.config, block_size=block_size)
        self.transformer.wpe.weight = nn.Parameter(self.transformer.wpe.weight[:block_size])
        self._decoder = None

    def train(self, mode: bool = True) -> Self:
        """Set training mode, and look at the weights anew."""
        self._decoder = self._rough = None
        return super().train(mode)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Copy weights in, and look at them anew."""
        self._decoder = self._rough = None
        return super().load_state_dict(*args, **kwargs)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._decoder = None  # to(), half(), cuda() and the like come here
        applied: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return applied


@contextmanager
def _plain_mode() -> Iterator[None]:
    with torch.inference_mode(mode=False), torch.no_grad():
        yield


def _draw(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
