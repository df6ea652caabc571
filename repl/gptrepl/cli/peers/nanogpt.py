"""The peer `nanogpt`: its loop, which computes the whole text anew for each token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...api import GptreplError
from . import Draw, serve


def load(source: str) -> Draw:
    """Return the loop over the modules of the model."""
    import torch

    from ...session import load as load_session

    loaded = load_session(source, device="cpu").model
    if not isinstance(loaded, torch.nn.Module):
        raise GptreplError(f"{source} is no model that nanoGPT's loop can run")

    model: Any = loaded

    @torch.no_grad()
    def draw(ids: list[int], temperature: float, top_k: int) -> Iterator[int]:
        text = torch.tensor([ids])
        while True:
            logits = model(text[:, -model.block_size :])[0][:, -1, :] / temperature
            if top_k:
                least = torch.topk(logits, min(top_k, logits.size(-1))).values[:, [-1]]
                logits[logits < least] = -float("inf")
            token = torch.multinomial(torch.softmax(logits, dim=-1), num_samples=1)
            text = torch.cat((text, token), dim=1)
            yield int(token)

    return draw


if __name__ == "__main__":
    serve("nanogpt", load)
