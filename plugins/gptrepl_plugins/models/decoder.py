"""The arithmetic of a GPT as plain calls on its weights: one pass for any rows, any prefix cached.

Only the last position of each row leaves the last block. Nothing here calls a module: at one
token a step those calls would cost more than the arithmetic of a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from gptrepl.api import GptreplError
from gptrepl_plugins.models import calls, groups, kernels
from gptrepl_plugins.models.activations import ACTIVATIONS, brisk_gelu
from gptrepl_plugins.models.cache import Cache, View
from gptrepl_plugins.models.calls import Affine, Layers, Weights
from gptrepl_plugins.models.groups import Group
from gptrepl_plugins.models.layers import LONG

if TYPE_CHECKING:
    from gptrepl_plugins.models.gpt import GPT


PACKABLE = 1 << 30
"""Up to so many bytes of weights are held twice for the sake of several rows."""
ROWS = 4
"""From so many rows on packed weights pay."""
FEW = 16
"""Up to so many positions the activation takes less time than oneDNN adds to it."""
SPECIAL = 2
"""torch.compile would make a step of its own for each place below."""


class Decoder:
    """The logits after some rows, computed from references to the weights of a GPT."""

    def __init__(self, model: GPT):
        """Take references to the weights as they are now, and start with an empty cache."""
        config = model.config
        self._model, self._config = model, config
        self._activation = ACTIVATIONS[config.activation]
        self._compiled = model.compiled
        self._may_pack = False
        self._several: Layers | None = None
        self._eps = config.layer_norm_eps
        self._n_head = config.n_head
        self._width, self._shape = config.n_embd, (config.n_embd,)
        self._block_size = config.block_size
        self._watched = [weight for weight in model.parameters() if not weight.is_inference()]
        self._version = -1

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return float32 logits, shape (len(rows), vocab_size), for the token after each row.

        Rows longer than the block are cropped to their last ids; equal rows are computed once.
        """
        self._refresh()
        seen = [list(row[-self._block_size :]) for row in rows]
        if not all(seen):
            raise GptreplError("a row holds no ids: a model continues at least one")
        if len(seen) == 1:
            return self._after(seen)
        numbers: dict[tuple[int, ...], int] = {}
        number = [numbers.setdefault(tuple(row), len(numbers)) for row in seen]
        logits = self._after([list(row) for row in numbers])
        return logits if len(numbers) == len(seen) else logits[number]

    def _after(self, rows: list[list[int]]) -> Tensor:
        """Return the logits after each of these distinct rows."""
        layers = self._for_several() if len(rows) >= ROWS else self._one
        follows = self._cache.follows(rows)
        return self._head_of(self._step(rows, layers) if follows else self._last(rows), layers)

    def positions(self, row: Sequence[int], count: int) -> Tensor:
        """Return float32 logits, shape (count, vocab_size), after the last *count* prefixes of row.

        The last of them is *row* itself, which is no longer than the block.
        """
        self._refresh()
        rows = [list(row)]
        (start,) = self._cache.seat(rows, count)
        _check((rows[0][start:],), self._config.vocab_size)
        (group,) = groups.of(rows, [start], self._wpe.device)
        x = self._run(group, whole=True)
        self._cache.keep(rows)
        return self._head_of(x[-count:], self._for_several())

    def pack(self) -> None:
        """Let weights of any size be held packed as well, for passes over several positions."""
        self._may_pack, self._several = True, None

    def _for_several(self) -> Layers:
        """Return what runs several positions: on packed copies of the large weights.

        They are made when they are first wanted; those of a large model only after `pack`.
        """
        if self._several is None:
            self._several = self._one
            if self._may_pack or sum(weight.nbytes for weight in self._watched) <= PACKABLE:
                self._several = Layers(
                    [block.packed() for block in self._one.blocks],
                    kernels.Packed.of(self._one.head),
                )
        return self._several

    def _refresh(self) -> None:
        """Take the weights anew if they were written to; what was computed before is void then."""
        version = self._count()
        if version == self._version:
            return
        body = self._model.transformer
        self._wte, self._wpe = body.wte.weight, body.wpe.weight
        self._token, self._place = calls.by_row(self._wte), calls.by_row(self._wpe)
        self._ln_f = calls.affine(body.ln_f)
        self._one = Layers(
            [calls.take(block) for block in body.blocks], kernels.linear(self._model.lm_head)
        )
        self._several = None
        is_brisk = self._activation is F.gelu and self._wpe.device.type == "cpu"
        self._brisk = brisk_gelu if is_brisk else self._activation
        # Where torch compiles the step, it would copy what a product writes into a view.
        is_small = isinstance(self._one.blocks[0].qkv, kernels.Transposed)
        self._cache = Cache(self._wpe, self._config, queries=is_small and self._compiled is None)
        self._version = version

    def _last(self, rows: list[list[int]]) -> Tensor:
        """Return what leaves the last block after each of these distinct rows: (rows, n_embd)."""
        known = self._cache.seat(rows)
        new = (row[start:] for row, start in zip(rows, known, strict=True))
        _check(new, self._config.vocab_size)
        found = groups.of(rows, known, self._wpe.device)
        if len(found) == 1:  # no copy
            x = self._run(found[0])
        else:
            x = self._wpe.new_empty(len(rows), *self._shape)
            for group in found:
                x[group.slots] = self._run(group)
        self._cache.keep(rows)
        return x

    def _step(self, rows: list[list[int]], layers: Layers) -> Tensor:
        """Return what leaves the last block after the id that each row has and the cache lacks.

        It is `_run` for the case that comes once a token, with as few calls as there can be.
        """
        tokens, place = [row[-1] for row in rows], len(rows[0]) - 1
        _check((tokens,), self._config.vocab_size)
        x = self._embed(tokens, place)
        if self._compiled is not None and place >= SPECIAL and len(rows) == 1:
            self._cache.grow(self._block_size)  # one size, so that it is compiled once
            x = self._compiled(self, x, place)
        else:
            self._cache.grow(place + 1)
            activation = self._brisk if len(rows) <= FEW else self._activation
            x = self.through(x, self._cache.views(place), layers.blocks, activation)
        self._cache.keep(rows)
        return x

    def to_compile(self, x: Tensor, place: int) -> Tensor:
        """Return what `through` returns, all that it looks at being made within."""
        return self.through(x, self._cache.new_views(place), self._one.blocks, self._activation)

    def through(
        self,
        x: Tensor,
        views: Sequence[View],
        blocks: Sequence[Weights],
        activation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Return what leaves the last block for what enters the first, both (rows, n_embd).

        *views* are those of the cache at the last place of all rows.
        """
        norm, shape, eps = torch.layer_norm, self._shape, self._eps
        rows, width = len(x), self._width
        for block, (slot, keys, values, queries) in zip(blocks, views, strict=True):
            q, y = queries, norm(x, shape, *block.ln_1, eps)
            if q is not None:
                block.qkv.into(y, slot)
            else:
                qkv = block.qkv(y)
                slot.copy_(qkv.narrow(1, width, 2 * width).view(slot.shape))
                q = qkv.narrow(1, 0, width).view(rows, self._n_head, 1, -1)
            y = F.scaled_dot_product_attention(q, keys, values, scale=block.scale)
            x = block.out.onto(y.view(rows, width), x)
            x = block.down.onto(activation(block.up(norm(x, shape, *block.ln_2, eps))), x)
        return x

    def _embed(self, tokens: Sequence[int], place: int) -> Tensor:
        rows = [self._token(token) for token in tokens]
        return (rows[0] if len(rows) == 1 else torch.cat(rows)) + self._place(place)

    def _count(self) -> int:
        """Return how often the weights were written to; what was computed before is void then."""
        return sum([weight._version for weight in self._watched])

    def _run(self, group: Group, *, whole: bool = False) -> Tensor:
        """Return what leaves the last block at the last position of each row: (rows, n_embd).

        With *whole* at every new position instead: (rows * new, n_embd).
        """
        rows, new = group.ids.shape
        width = self._width
        x = (F.embedding(group.ids, self._wte) + self._wpe[group.places]).view(-1, width)
        mask, causal = group.mask, group.causal
        activation = self._brisk if rows * new <= FEW else self._activation
        told = self._model.progress if rows * new > LONG else None
        is_several = whole or (new == 1 and rows >= ROWS)
        blocks = self._for_several().blocks if is_several else self._one.blocks
        for number, block in enumerate(blocks):
            qkv = block.qkv(self._norm(x, block.ln_1)).view(rows, new, -1)
            self._cache.write(number, group.at, qkv)
            k, v = self._cache.read(number, group.slots, group.length)
            q = qkv.view(rows, new, 3 * self._n_head, -1)[:, :, : self._n_head].transpose(1, 2)
            if number == len(blocks) - 1 and new > 1 and not whole:
                q, x = q[:, :, -1:], x.view(rows, new, width)[:, -1]
                mask, causal = None, False  # the last id of a row sees all of it
            y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=block.scale)
            x = block.out.onto(y.transpose(1, 2).reshape(-1, width), x)
            x = block.down.onto(activation(block.up(self._norm(x, block.ln_2))), x)
            if told is not None:
                told(number + 1, len(blocks))
        return x

    def _norm(self, x: Tensor, affine: Affine) -> Tensor:
        return torch.layer_norm(x, self._shape, *affine, self._eps)

    def _head_of(self, x: Tensor, layers: Layers) -> Tensor:
        return layers.head(self._norm(x, self._ln_f)).float()


def _check(rows: Iterable[Sequence[int]], vocab_size: int) -> None:
    """Refuse an id outside the vocabulary, which some devices cannot report."""
    for row in rows:
        for token in row:
            if not 0 <= token < vocab_size:
                raise GptreplError(f"id {token} is outside the model's vocabulary of {vocab_size}")
