"""A real server: `transformers serve` on loopback, with a small random model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import gptrepl
from gptrepl.api import GptreplError, SampleEnded, Token
from gptrepl.commands import evaluate
from gptrepl.session import Session

# A process starts with torch and transformers, which takes half a minute on a busy machine.
pytestmark = pytest.mark.slow

SERVE = "from transformers.cli.transformers import main; main()"
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama whose letters are ASCII, so that its text is a text."""
    letters = [chr(code) for code in range(0x21, 0x7F)] + ["Ġ", "Ċ"]
    tables = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    tables.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tables.decoder = decoders.ByteLevel()
    tables.add_special_tokens(["<s>", "</s>"])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tables, bos_token="<s>", eos_token="</s>"
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=98,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=4096,
        bos_token_id=96,
        eos_token_id=97,
    )
    network = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.15)
    folder = tmp_path_factory.mktemp("served")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Served:
    """A process that serves a folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                SERVE,
                "serve",
                str(folder),
                "--port",
                str(port),
                "--device",
                "cpu",
            ],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.wait(port)
        except BaseException:
            self.kill()
            raise

    def wait(self, port: int) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the server does not come up")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    served = Served(folder, tmp_path_factory.mktemp("home"))
    yield served.url
    served.kill()


@pytest.fixture
def session(url: str) -> Session:
    return gptrepl.load(url, max_new_tokens=60, top_k=0)


def test_it_is_known_for_what_it_is(session: Session, folder: Path, url: str) -> None:
    model: Any = session.model
    assert (model.kind, model.name) == ("transformers", str(folder))
    assert model.siblings == [f"{url} {folder}"]


def test_greedy_text_is_that_of_the_model_in_memory(session: Session, folder: Path) -> None:
    here = gptrepl.load(str(folder), max_new_tokens=60, temperature=0, stop_at_end=True)
    session.set(temperature=0)
    for prompt in ("Hello", "To be, or not to be"):
        assert session.generate(prompt) == here.generate(prompt)


def test_a_chat_is_that_of_the_model_in_memory(session: Session, folder: Path) -> None:
    here = gptrepl.load(str(folder), max_new_tokens=40, temperature=0, mode="chat")
    session.set(temperature=0, mode="chat", max_new_tokens=40)
    for line in ("Hello", "And?"):
        list(evaluate(session, line))
        list(evaluate(here, line))
    ours, theirs = (s.samples[-1] for s in (here, session))
    assert ours.turn is not None
    assert theirs.turn is not None
    assert ours.text[ours.turn.opening :] == theirs.text[theirs.turn.opening :]


def test_the_same_seed_gives_the_same_text(session: Session) -> None:
    first, second = session.generate("Hello", n=2)
    assert first != second
    assert session.generate("Hello", n=2) == [first, second]


def test_tokens_stream(session: Session) -> None:
    session.set(max_new_tokens=400, temperature=0)
    times = [time.monotonic() for e in session.stream("Hello") if isinstance(e, Token)]
    assert len(times) > 50
    assert times[-1] - times[0] > 0.1


def test_a_stop_string_ends_it(session: Session) -> None:
    session.set(temperature=0)
    whole = session.generate("Hello").removeprefix("Hello")
    stop = whole[20:23]
    assert session.generate("Hello", stop=stop) == "Hello" + whole.partition(stop)[0]


def test_another_model_is_refused(url: str) -> None:
    session = gptrepl.load(f"{url} nothing", max_new_tokens=5)
    with pytest.raises(GptreplError, match=r"answers 400: Server is pinned to"):
        session.generate("Hello")


def test_ctrl_c_keeps_the_text(session: Session) -> None:
    session.set(max_new_tokens=3000, temperature=0)
    events: list[Any] = []
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        events.extend(session.stream("Hello"))
    assert isinstance(events[-1], SampleEnded)
    assert events[-1].ending == "interrupted"
    assert len(events[-1].text) > 10
    assert session.generate("Hello", max_new_tokens=5).startswith("Hello")


def test_a_kill_in_mid_stream_keeps_the_text(folder: Path, tmp_path: Path) -> None:
    served = Served(folder, tmp_path)
    session = gptrepl.load(served.url, max_new_tokens=3000, temperature=0)
    events: list[Any] = []
    threading.Timer(1.0, served.kill).start()
    with pytest.raises(GptreplError, match=f"{served.url} broke off before it was done"):
        events.extend(session.stream("Hello"))
    assert events[-1].ending == "failed"
    assert len(events[-1].text) > 10
    served.process.wait()
    with pytest.raises(GptreplError, match=r"cannot be reached|broke off"):
        session.generate("Hello")
