"""Tensors by name become a GPT: names made plain, shapes compared with the configuration.

The weights end in memory of their own, so that a training run may overwrite the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gptrepl.api import LoadError, LoadOptions
from gptrepl_plugins.models import kernels, threads
from gptrepl_plugins.models.gpt import GPT, GPTConfig
from gptrepl_plugins.models.mapped import Mapped

WTE = "transformer.wte.weight"
WPE = "transformer.wpe.weight"
HEAD = "lm_head.weight"


def plain(state: Mapping[Any, Any], where: str) -> dict[str, Tensor]:
    """Return the tensors of a state dict under nanoGPT's names.

    The prefixes of `torch.compile` and of DistributedDataParallel go, and so do the buffers
    of the causal mask, which are no weights. *where* names the file in errors.
    """
    tensors = {}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise LoadError(f"{where} has {name!r} among its weights, which is not a tensor")
        short = name.replace("_orig_mod.", "")
        while short.startswith("module."):
            short = short.removeprefix("module.")
        if not short.endswith((".attn.bias", ".attn.masked_bias")):
            tensors[short] = tensor
    return tensors


def shape(tensors: Mapping[str, Tensor], where: str) -> dict[str, Any]:
    """Return what the tensors say of the configuration: all of it but the number of heads."""
    for name in (WTE, WPE):
        if name not in tensors or tensors[name].dim() != 2:
            raise LoadError(f"{where} has no tensor {name}: it is not a GPT of nanoGPT's shape")
    wte, head = tensors[WTE], tensors.get(HEAD)
    layers = {name.split(".")[2] for name in tensors if name.startswith("transformer.h.")}
    return {
        "vocab_size": wte.shape[0],
        "block_size": tensors[WPE].shape[0],
        "n_embd": wte.shape[1],
        "n_layer": len(layers),
        "bias": any(name.endswith(".bias") for name in tensors),
        "tied": head is None or _same(head, wte),
    }


def with_biases(tensors: dict[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Return the tensors, and zeros for the kinds of bias that no block of theirs has."""
    with torch.device("meta"):
        wanted = GPT(config).state_dict()
    had = {_kind(name) for name in tensors}
    lacking = (name for name in wanted if name.endswith(".bias") and _kind(name) not in had)
    return tensors | {name: torch.zeros(wanted[name].shape) for name in lacking}


def _kind(name: str) -> tuple[str, ...]:
    """Return a name without the number of its block."""
    return tuple(part for part in name.split(".") if not part.isdigit())


def build(config: GPTConfig, tensors: dict[str, Tensor], where: str, options: LoadOptions) -> GPT:
    """Return a GPT of this configuration with these weights, ready to sample from.

    The activation is that of the configuration, unless the options name another.
    Raise LoadError naming the first tensor that is missing, too many or of another shape.
    """
    if options.activation != "auto":
        config = dataclasses.replace(config, activation=options.activation)
    with torch.device("meta"):
        model = GPT(config)
    wanted = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    if config.tied:
        del wanted[HEAD]
        tensors = {name: tensor for name, tensor in tensors.items() if name != HEAD}
    compare(wanted, tensors, where)
    own, mapped = {}, Mapped()
    for number, name in enumerate(wanted):
        options.progress(f"reading {where}", number, len(wanted))
        embeds = name == WPE or (name == WTE and not config.tied)
        own[name] = _copy(tensors[name], options, multiplies=not embeds)
        mapped.let_go(tensors[name])
    options.progress(f"reading {where}", len(wanted), len(wanted))
    if config.tied:
        own[HEAD] = own[WTE]
    model.load_state_dict(own, assign=True)
    own.clear()  # quantizing lets go of each weight as soon as it is packed
    if config.tied:
        model.transformer.wte.weight = model.lm_head.weight
    model.eval()
    if options.quantize != "off":
        from gptrepl_plugins.models.quantization import quantize

        quantize(model, options.quantize, options.note)
    if options.device == "cpu":
        model.threads = threads.choose(model)
    if options.compile:
        from gptrepl_plugins.models.compiling import compile_step

        compile_step(model, options)
    return model


def _copy(tensor: Tensor, options: LoadOptions, *, multiplies: bool) -> Tensor:
    """Return a copy in memory of its own; a weight that *multiplies* lies as it is best read."""
    plain = (options.device, options.dtype, options.quantize) == ("cpu", "float32", "off")
    if plain and multiplies and tensor.dim() == 2 and kernels.lies_by_input(tensor.shape):
        return torch.empty(tensor.shape[::-1]).t().copy_(tensor)
    own = tensor.to(options.device, getattr(torch, options.dtype), copy=True)
    return own.contiguous()


def _same(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() or torch.equal(one, other)


def compare(wanted: dict[str, tuple[int, ...]], given: dict[str, Tensor], where: str) -> None:
    """Raise LoadError for the first tensor that is missing, too many or of another shape."""
    missing = [name for name in wanted if name not in given]
    if missing:
        raise LoadError(f"{where} lacks the tensor {missing[0]}{_more(missing)}")
    beyond = [name for name in given if name not in wanted]
    if beyond:
        raise LoadError(
            f"{where} has the tensor {beyond[0]}{_more(beyond)}, which its configuration has not"
        )
    for name, expected in wanted.items():
        if tuple(given[name].shape) != expected:
            found = tuple(given[name].shape)
            raise LoadError(f"{name} in {where} is {found}, and its configuration says {expected}")


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
