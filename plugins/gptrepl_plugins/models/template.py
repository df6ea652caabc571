"""The template with which a model's files write a conversation, run by transformers' sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gptrepl.api import GptreplError
from gptrepl_plugins.tokenizers import HuggingFaceTokenizer

Renderer = Callable[[Sequence[Mapping[str, str]]], str]

_MARK = "gptrepl-reply"


def renderer(read: Any, where: str) -> Renderer:
    """Return what writes a conversation as the tokenizer *read* of transformers does."""

    def render(messages: Sequence[Mapping[str, str]]) -> str:
        last = messages[-1]["role"] if messages else ""
        try:
            text: str = read.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=last != "assistant",
            )
        except Exception as error:  # a template fails in the words of whoever wrote it
            reason = " ".join(str(error).split()) or type(error).__name__
            raise GptreplError(
                f"the template of {where} refuses this conversation: {reason}"
            ) from error
        return text

    return render


def turn_ends(tokenizer: HuggingFaceTokenizer) -> frozenset[int]:
    """Return the special id that the template puts behind a turn of the assistant, if any."""
    assert tokenizer.render is not None
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": _MARK}]
    try:
        behind = tokenizer.render(turns).partition(_MARK)[2]
    except GptreplError:
        return frozenset()
    ids = tokenizer.encode(behind) if behind else []
    return frozenset(ids[:1]) & tokenizer.special
