"""A causal language model of transformers as a pure function of token ids.

Its cache shows only as speed: rows are found again by their longest common prefix with the rows
of the last call. Past the context a row is cropped to its last ids and computed afresh, as
everywhere in gptrepl.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gptrepl.api import GptreplError
from gptrepl_plugins.models import layers, threads
from gptrepl_plugins.models.prefixes import Prefixes

_CACHES = ("cache", "past_key_values")


class CausalModel:
    """A `gptrepl.api.Model` made of an `AutoModelForCausalLM`."""

    def __init__(self, network: Any, device: str = "cpu"):
        """Take a network that is ready to be used; its logits come on *device*."""
        self.network = network
        self.recommended: Mapping[str, Any] = {}
        """The settings that its makers recommend, by the names of settings and samplers."""
        self.about = ""
        """How far it was trained, in words."""
        self.quantize = "off"
        """The bits that its weights are held in."""
        self.device_map = "off"
        """`auto`: its weights may lie on several devices."""
        self._device = device
        self.threads: int | None = None
        """How many threads `logits` runs on; None: as many as torch has."""
        self.progress: layers.Progress | None = None
        """Told of each layer of a pass over a long prompt; None: nobody wants to know."""
        config = network.config.get_text_config(decoder=True)
        head = network.get_output_embeddings()
        self.vocab_size: int = config.vocab_size if head is None else head.weight.shape[0]
        self.block_size = _context(config)
        self._takes = set(inspect.signature(network.forward).parameters)
        # transformers called it past_key_values before
        self._cache_name = next((name for name in _CACHES if name in self._takes), None)
        # Past some length a few networks stretch all positions, which makes others of them.
        self._limit = _stretched_beyond(config)
        self._caches = {far: _prefixes(config) for far in (False, True) if self._cache_name}

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(weight.numel() for weight in self.network.parameters())

    @torch.inference_mode()
    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return float32 logits, shape (len(rows), vocab_size), for the token after each row.

        Raise GptreplError for an empty row and for an id outside the vocabulary.
        """
        if self.threads is not None:
            threads.use(self.threads)
        seen = [tuple(row if self.block_size is None else row[-self.block_size :]) for row in rows]
        self._check(seen)
        numbers: dict[tuple[int, ...], int] = {}
        number = [numbers.setdefault(row, len(numbers)) for row in seen]
        distinct = [list(row) for row in numbers]
        logits = self._grouped(distinct)
        return logits if len(distinct) == len(seen) else logits[number]

    def _grouped(self, rows: list[list[int]]) -> Tensor:
        """Return the float32 logits after each of these distinct rows, as few passes as can be."""
        groups: dict[tuple[bool, int], list[int]] = {}
        for place, row in enumerate(rows):
            far = self._limit is not None and len(row) > self._limit
            is_movable = far in self._caches and self._caches[far].movable
            alike = 0 if is_movable else len(row)  # others may take padding for ids
            groups.setdefault((far, alike), []).append(place)
        if len(groups) == 1:
            return self._last(rows, far)
        logits = torch.empty(len(rows), self.vocab_size, device=self._device)
        for (far, _), places in groups.items():
            logits[places] = self._last([rows[place] for place in places], far)
        return logits

    def _last(self, rows: list[list[int]], far: bool) -> Tensor:
        """Return the float32 logits after each of these rows, in one pass."""
        width, prefixes = max(map(len, rows)), self._caches.get(far)
        new = prefixes.seat(rows) if prefixes else width
        padding = [width - len(row) for row in rows]
        ids = [[0] * (new - len(row)) + row[-new:] for row in rows]
        places = [[max(at - pad, 0) for at in range(width - new, width)] for pad in padding]
        given: dict[str, Any] = {"input_ids": self._tensor(ids)}
        given["position_ids"] = self._tensor(places)
        if any(padding):
            mask = [[0] * pad + [1] * (width - pad) for pad in padding]
            given["attention_mask"] = self._tensor(mask)
        given |= {"logits_to_keep": 1, "use_cache": prefixes is not None}
        given = {name: value for name, value in given.items() if name in self._takes}
        if prefixes and self._cache_name:
            given[self._cache_name] = prefixes.cache
        progress = self.progress if len(rows) * new > layers.LONG else None
        with layers.told(self.network, progress):
            logits: Tensor = self.network(**given).logits[:, -1].to(self._device, torch.float32)
        if prefixes:
            prefixes.keep(rows)
        return logits

    def _tensor(self, values: list[list[int]]) -> Tensor:
        return torch.tensor(values, device=self.network.get_input_embeddings().weight.device)

    def _check(self, rows: Sequence[Sequence[int]]) -> None:
        """Refuse what a network would answer with an index error, or not at all."""
        if not all(rows):
            raise GptreplError("a row holds no ids: a model continues at least one")
        known = self.network.get_input_embeddings().weight.shape[0]
        for row in rows:
            for token in (min(row), max(row)):
                if not 0 <= token < known:
                    raise GptreplError(f"id {token} is outside the model's vocabulary of {known}")


def _context(config: Any) -> int | None:
    """Return the longest row that a network was made for; None: its configuration has none."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        size = getattr(config, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return None


def _stretched_beyond(config: Any) -> int | None:
    """Return the length beyond which all positions are stretched; None: they never are."""
    how = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if "longrope" not in (how.get("rope_type"), how.get("type")):
        return None
    own = getattr(config, "original_max_position_embeddings", None)
    limit: int | None = how.get("original_max_position_embeddings", own)
    return limit


def _prefixes(config: Any) -> Prefixes:
    """Return an empty cache of the kind that a network needs.

    Where every layer holds a key and a value for each id, all of them are kept, those before a
    sliding window too: what is dropped cannot be gone back to.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    if kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
        return Prefixes(DynamicCache, movable=True)
    return Prefixes(lambda: DynamicCache(config=config), movable=False)
