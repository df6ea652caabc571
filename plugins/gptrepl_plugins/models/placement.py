"""Where transformers puts a network, and in how many bits it holds the weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from gptrepl.api import LoadError, LoadOptions

_BITS = {"int8": {"load_in_8bit": True}, "int4": {"load_in_4bit": True}}


def wanted(options: LoadOptions, how: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what `from_pretrained` is told besides *how*; *where* names the model in errors.

    A `device_map` among it means that the network must not be moved afterwards.
    """
    import torch

    dtype = "bfloat16" if options.quantize == "bf16" else options.dtype
    told: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if options.device_map != "off":
        if find_spec("accelerate") is None:
            raise LoadError("device_map needs accelerate: pip install 'gptrepl[accelerate]'")
        told["device_map"] = options.device_map
    if options.quantize in _BITS:
        if "gguf_file" in how:
            raise LoadError(
                f"{where} is quantized as it is, and read into {dtype}: set quantize off"
            )
        told = {"device_map": {"": options.device}} | told
        told["quantization_config"] = _fewer_bits(options.quantize, dtype)
    return told


def _fewer_bits(quantize: str, dtype: str) -> Any:
    """Return the configuration of bitsandbytes: 8 bits a weight, or 4 in its normal float."""
    if find_spec("bitsandbytes") is None or find_spec("accelerate") is None:
        raise LoadError(
            f"quantize {quantize} needs bitsandbytes for a model of transformers:"
            " pip install 'gptrepl[bitsandbytes]'"
        )
    import torch
    from transformers import BitsAndBytesConfig

    made: Any = BitsAndBytesConfig
    return made(
        **_BITS[quantize],
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=getattr(torch, dtype),
    )
