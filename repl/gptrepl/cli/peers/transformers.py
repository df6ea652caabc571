"""The peer `transformers`: its GPT-2 with its own cache, on the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...api import GptreplError
from . import Draw, serve

TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def load(source: str) -> Draw:
    """Return a loop over a GPT-2 that has the weights of the model."""
    import inspect

    import torch
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    from ...session import load as load_session

    own: Any = load_session(source, device="cpu").model
    shape: Any = getattr(own, "config", None)
    if not hasattr(shape, "n_embd"):
        raise GptreplError(f"{source} is no GPT-2, which this peer needs")
    made: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=shape.vocab_size,
            n_positions=shape.block_size,
            n_embd=shape.n_embd,
            n_layer=shape.n_layer,
            n_head=shape.n_head,
            activation_function=shape.activation,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    model = made.eval()
    takes = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in takes else "past_key_values"  # as older ones call it
    state = own.state_dict()
    turned = {k: v.t() if k.endswith(TRANSPOSED) else v for k, v in state.items()}
    model.load_state_dict(turned, strict=False)

    @torch.no_grad()
    def draw(ids: list[int], temperature: float, top_k: int) -> Iterator[int]:
        cache, new = DynamicCache(), torch.tensor([ids])
        while True:
            logits = model(new, logits_to_keep=1, **{name: cache}).logits[:, -1] / temperature
            if top_k:
                least = logits.topk(min(top_k, logits.size(-1))).values[:, [-1]]
                logits = logits.masked_fill(logits < least, -torch.inf)
            new = torch.multinomial(logits.softmax(-1), 1)
            yield int(new)

    return draw


if __name__ == "__main__":
    serve("transformers", load)
