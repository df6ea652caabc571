"""Models behind a server: the protocol of OpenAI over real sockets, and all that can go wrong."""

from __future__ import annotations

import http.server
import json
import math
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

from gptrepl.api import GptreplError, LoadError, LoadOptions, Notice, Request, SampleEnded, Token
from gptrepl.chat import conversation
from gptrepl.commands import evaluate
from gptrepl.loading import Loaded
from gptrepl.session import Session
from gptrepl.settings import Settings
from gptrepl_plugins.models import connection, dialects, gpt2, huggingface, nanogpt, openai
from gptrepl_plugins.models.server import Pieces, ServerModel, said

SECRET = "sk-do-not-tell-7f3a"
WORDS = ["Once", " upon", " a", " ti", "me", ", ", "né", "🙂", " end"]


class Behaviour:
    """What the server does, and what it was asked."""

    def __init__(self) -> None:
        self.models = ["small"]
        self.owner = "vllm"
        self.key = ""
        self.words = list(WORDS)
        self.finish: str | None = "length"
        self.mark = True
        self.pause = 0.0
        self.thoughts = 0
        self.break_after: int | None = None
        self.say: dict[str, Any] | None = None
        self.status = 200
        self.answer: Any = {"error": {"message": "no such thing"}}
        self.with_logprobs = False
        self.refuses: tuple[str, ...] = ()
        self.paths: dict[str, Any] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.sent = 0


class Handler(http.server.BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self) -> None:
        does = self.behaviour
        if not self.is_allowed():
            return
        if self.path == "/v1/models":
            owned = [{"id": name, "owned_by": does.owner} for name in does.models]
            self.give(200, {"object": "list", "data": owned})
        elif self.path == "/openapi.json" and does.paths is not None:
            self.give(200, {"paths": does.paths})
        else:
            self.give(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        does = self.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        does.bodies.append(body)
        if not self.is_allowed():
            return
        refused = [name for name in does.refuses if name in body]
        if refused:
            self.give(422, {"detail": f"Unexpected fields in the request: {refused}"})
            return
        if does.status != 200:
            self.give(does.status, does.answer)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        self.stream(body)

    def stream(self, body: dict[str, Any]) -> None:
        does = self.behaviour
        is_chat = "messages" in body
        self.wfile.write(b": a comment\r\n\r\n")
        for number, word in enumerate(does.words):
            if number == does.break_after:
                self.wfile.write(b'data: {"choices": [{"te')
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            choice: dict[str, Any] = {"index": 0, "finish_reason": None}
            if number < does.thoughts:
                self.send({"choices": [choice | {"delta": {"reasoning_content": word}}]})
                continue
            choice |= {"delta": {"content": word}} if is_chat else {"text": word}
            if does.with_logprobs and body.get("logprobs"):
                content = [{"token": word, "logprob": -0.5 - number, "bytes": None}]
                plain = {"tokens": [word], "token_logprobs": [-0.5 - number]}
                choice["logprobs"] = {"content": content} if is_chat else plain
            self.send({"choices": [choice]})
            does.sent += 1
            time.sleep(does.pause)
        if does.say is not None:
            self.send(does.say)
        if does.finish:
            self.send({"choices": [{"index": 0, "text": "", "finish_reason": does.finish}]})
        self.send({"choices": [], "usage": {"completion_tokens": 9}})
        if does.mark:
            self.wfile.write(b"data: [DONE]\n\n")

    def send(self, answer: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
        self.wfile.flush()

    def is_allowed(self) -> bool:
        self.behaviour.keys.append(self.headers.get("Authorization"))
        if not self.behaviour.key or self.behaviour.keys[-1] == f"Bearer {self.behaviour.key}":
            return True
        self.give(
            401, {"error": {"message": f"Incorrect API key provided: {self.behaviour.keys[-1]}"}}
        )
        return False

    def give(self, status: int, answer: Any) -> None:
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header(
            "Content-Type", "text/html" if isinstance(answer, bytes) else "application/json"
        )
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is no news here."""


@pytest.fixture
def does(monkeypatch: pytest.MonkeyPatch) -> Behaviour:
    monkeypatch.delenv(connection.KEY, raising=False)
    return Behaviour()


@pytest.fixture
def url(does: Behaviour) -> Iterator[str]:
    handler = type("Handler", (Handler,), {"behaviour": does})
    server = Quiet(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def attach(source: str, **changes: Any) -> Session:
    """A session with a model of a server, as `:load` makes it."""
    session = Session(Settings().but("command line", model=source, max_new_tokens=20, **changes))
    session.model  # noqa: B018 - it is loaded now
    return session


def refusal(source: str) -> str:
    with pytest.raises(LoadError) as caught:
        openai.load(source, LoadOptions())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def failure(session: Session) -> tuple[str, SampleEnded]:
    """The error of a sample, and its end."""
    events = []
    with pytest.raises(GptreplError) as caught:
        events.extend(session.stream("x"))
    assert "\n" not in str(caught.value)
    return str(caught.value), next(e for e in events if isinstance(e, SampleEnded))


# --- attaching ----------------------------------------------------------------------------------


def test_an_address_is_this_loaders_alone() -> None:
    for source in ("http://127.0.0.1:8000/v1", "https://host/v1 name", "HTTP://host/v1"):
        assert openai.accepts(source)
        assert not any(loader.accepts(source) for loader in (gpt2, huggingface, nanogpt))
    for source in ("", "out", "org/name", "hf:org/name"):
        assert not openai.accepts(source)
    assert list(openai.sources()) == []


def test_the_only_model_needs_no_name(url: str) -> None:
    model, tokenizer = openai.load(url, LoadOptions())
    assert isinstance(model, ServerModel)
    assert (model.name, model.kind) == ("small", "vllm")
    assert model.place == f"at {url}, a server of the kind vllm"
    assert tokenizer.vocab_size == model.vocab_size
    with pytest.raises(GptreplError, match="small is at a server, which gives text and no logits"):
        model.logits([[1]])


def test_one_of_several_is_named(url: str, does: Behaviour) -> None:
    does.models = ["small", "large"]
    assert refusal(url) == f"{url} has several models: :load {url} NAME, one of small, large"
    for source in (f"{url} large", f"{url}/ large", f"{url}#large"):
        model, _ = openai.load(source, LoadOptions())
        assert isinstance(model, ServerModel)
        assert model.name == "large"
        assert model.siblings == [f"{url} small", f"{url} large"]
    assert refusal(f"{url} huge") == f"{url} has no model 'huge'; it has small, large"


@pytest.mark.parametrize(
    ("owner", "paths", "kind"),
    [
        ("vllm", None, "vllm"),
        ("llamacpp", None, "llama.cpp"),
        ("somebody", {"/load_model": {}}, "transformers"),
        ("somebody", {"/v1/models": {}}, "openai"),
        ("somebody", None, "openai"),
    ],
)
def test_the_kind_is_found_out(
    url: str, does: Behaviour, owner: str, paths: dict[str, Any] | None, kind: str
) -> None:
    does.owner, does.paths = owner, paths
    model, _ = openai.load(url, LoadOptions())
    assert isinstance(model, ServerModel)
    assert model.kind == kind


def test_what_is_no_server_of_models_is_said(url: str, does: Behaviour) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert refusal(f"http://127.0.0.1:{port}/v1").endswith(
        "cannot be reached: is the server running?"
    )
    assert refusal(url.removesuffix("/v1")).endswith("answers 404: Not Found")
    assert "is no address of a server" in refusal("http:///v1")
    does.models = []
    assert "has no model 'x'" in refusal(f"{url} x")


def test_other_answers_are_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.give(200, b"<html>"))
    assert refusal(url) == f"{url} is no server of models: it answers with text/html"
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.give(200, {"a": 1}))
    assert refusal(url) == f"{url} is no server of models: it lists none"


# --- keys ---------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment_and_is_told_to_nobody(
    url: str, does: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    does.key = SECRET
    assert refusal(url) == f"{url} wants a key: put it in OPENAI_API_KEY before the start"
    monkeypatch.setenv(connection.KEY, "sk-wrong")
    message = refusal(url)
    assert message == f"{url} refuses the key in OPENAI_API_KEY: status 401"
    monkeypatch.setenv(connection.KEY, SECRET)
    session = attach(url)
    assert session.generate("x").startswith("xOnce upon")
    assert does.keys[-1] == f"Bearer {SECRET}"
    does.status, does.answer = 500, {"error": f"the key {SECRET} is fine, the rest is not"}
    error, _ = failure(session)
    assert error == f"{url} answers 500: the key *** is fine, the rest is not"
    loaded = session.loaded
    assert isinstance(loaded, Loaded)
    assert SECRET not in repr(loaded) + repr(session.settings) + str(vars(session.samples[0]))


def test_a_key_in_the_address_is_refused() -> None:
    assert "the address holds a password" in refusal("http://me:secret@127.0.0.1:9/v1")


def test_a_key_that_travels_in_the_clear_is_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connection.KEY, SECRET)
    notes: list[str] = []
    openai.load(url, LoadOptions(note=notes.append))
    assert notes == []
    monkeypatch.setattr(openai, "_is_here", lambda _: False)
    openai.load(url, LoadOptions(note=notes.append))
    assert notes == [f"the key in OPENAI_API_KEY travels unencrypted to {url}"]
    monkeypatch.undo()
    assert not openai._is_here("http://example.org/v1")
    assert all(
        map(openai._is_here, ("http://localhost/v1", "http://127.0.0.2/v1", "http://[::1]/v1"))
    )


# --- streaming ----------------------------------------------------------------------------------


def test_text_streams_while_it_is_written(url: str, does: Behaviour) -> None:
    does.pause = 0.02
    stream = attach(url).stream("Say: ")
    first = next(event for event in stream if isinstance(event, Token))
    assert first.text == "Once"
    assert does.sent < len(WORDS)
    *_, ended = stream
    assert (ended.text, ended.ending) == ("Say: " + "".join(WORDS), "length")
    assert ended.tokens == len(WORDS)


def test_log_probabilities_are_told_where_the_server_tells_them(url: str, does: Behaviour) -> None:
    session = attach(url)
    tokens = [event for event in session.stream("x") if isinstance(event, Token)]
    assert all(math.isnan(token.logprob) for token in tokens)
    does.with_logprobs = True
    tokens = [event for event in session.stream("x") if isinstance(event, Token)]
    assert [token.logprob for token in tokens] == [-0.5 - number for number in range(len(WORDS))]


def test_a_server_that_refuses_to_tell_them_is_asked_without(url: str, does: Behaviour) -> None:
    does.refuses = ("logprobs",)
    session = attach(url)
    for _ in range(2):
        assert session.generate("x") == "x" + "".join(WORDS)
    assert ["logprobs" in body for body in does.bodies] == [True, False, False]


def test_the_same_seed_is_sent_for_the_same_sample(url: str, does: Behaviour) -> None:
    attach(url, seed=2**40 + 5).generate("x", n=2)
    assert [body["seed"] for body in does.bodies] == [5, 6]


def test_a_stop_ends_the_request(url: str, does: Behaviour) -> None:
    does.pause = 0.02
    session = attach(url, stop=" a")
    ended = list(session.stream("x"))[-1]
    assert (ended.text, ended.ending) == ("xOnce upon", "stop")
    assert does.bodies[-1]["stop"] == [" a"]
    time.sleep(0.2)
    assert does.sent < len(WORDS)


def test_why_it_ended_is_known(url: str, does: Behaviour) -> None:
    session = attach(url)
    does.finish = "stop"
    assert list(session.stream("x"))[-1].ending == "stop"
    does.finish, does.mark = "length", False
    assert list(session.stream("x"))[-1].ending == "length"
    does.finish, does.mark = None, True
    assert list(session.stream("x"))[-1].ending == "length"


def test_a_chat_is_sent_as_its_turns(url: str, does: Behaviour) -> None:
    does.with_logprobs = True
    session = attach(url, mode="chat", system="Be brief")
    for line in ("Hi", "You?"):
        events = list(evaluate(session, line))
    tokens = [event for event in events if isinstance(event, Token)]
    assert [token.logprob for token in tokens] == [-0.5 - number for number in range(len(WORDS))]
    body = does.bodies[-1]
    assert body["logprobs"] is True
    assert "prompt" not in body
    assert "ignore_eos" not in body
    assert [message["role"] for message in body["messages"]] == [
        *("system", "user", "assistant", "user")
    ]
    assert body["messages"][2]["content"] == "".join(WORDS)


def test_a_server_that_documents_it_goes_on_with_a_turn(url: str, does: Behaviour) -> None:
    session = attach(url, mode="chat")
    for line in ("Hi", ":more"):
        list(evaluate(session, line))
    first, second = does.bodies
    assert "continue_final_message" not in first
    assert second["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "".join(WORDS)},
    ]
    assert (second["continue_final_message"], second["add_generation_prompt"]) == (True, False)
    assert conversation(session)[1]["content"] == 2 * "".join(WORDS)


def test_another_server_begins_a_turn_anew_and_says_so(url: str, does: Behaviour) -> None:
    does.owner = "llamacpp"
    session = attach(url, mode="chat")
    list(evaluate(session, "Hi"))
    with pytest.raises(GptreplError, match="a server begins a turn anew: :retry draws another"):
        list(evaluate(session, ":more"))
    assert len(does.bodies) == 1
    model: Any = session.model
    turns = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "You"})
    with pytest.raises(GptreplError, match=r"of the kind llama\.cpp begins a turn anew"):
        next(model.complete(Request("", 3, 1, {}, messages=turns)))


def test_thoughts_stand_between_marks(url: str, does: Behaviour) -> None:
    does.thoughts = 2
    session = attach(url, mode="chat")
    list(evaluate(session, "Hi"))
    turn = session.samples[0].turn
    assert turn is not None
    assert session.samples[0].text[turn.opening :] == "<think>Once upon</think>" + "".join(
        WORDS[2:]
    )


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_stream_that_breaks_off_keeps_its_text(url: str, does: Behaviour) -> None:
    session = attach(url)
    does.break_after = 3
    error, ended = failure(session)
    assert error == f"{url} broke off before it was done"
    assert (ended.text, ended.ending) == ("xOnce upon a", "failed")
    assert session.samples[0].text == "xOnce upon a"
    does.break_after = None
    assert session.generate("x").endswith(" end")


def test_a_stream_that_ends_without_a_word_broke_off(url: str, does: Behaviour) -> None:
    session = attach(url)
    does.finish, does.mark = None, False
    error, ended = failure(session)
    assert error == f"{url} broke off before it was done"
    assert ended.text.endswith(" end")


def test_a_server_that_dies_is_one_line(does: Behaviour) -> None:
    handler = type("Handler", (Handler,), {"behaviour": does})
    server = Quiet(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    session = attach(url)
    server.shutdown()
    server.server_close()
    error, ended = failure(session)
    assert error in (
        f"{url} cannot be reached: is the server running?",
        f"{url} broke off before it was done",
    )
    assert (ended.text, ended.ending) == ("x", "failed")


def test_a_server_that_falls_silent_is_one_line(
    url: str, does: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    session = attach(url)
    does.pause = 1.0
    error, ended = failure(session)
    assert error == f"{url} has been silent for too long: try again"
    assert ended.text == "xOnce"


def test_an_error_within_the_stream_is_said(url: str, does: Behaviour) -> None:
    session = attach(url)
    does.say = {"error": {"message": "out of memory\non device 0", "code": 500}}
    error, ended = failure(session)
    assert error == f"{url} failed: out of memory on device 0"
    assert ended.text.endswith(" end")


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (404, {"error": {"message": "The model `x` does not exist."}}, "The model `x` does"),
        (400, {"error": "maximum context length is 64"}, "maximum context length is 64"),
        (422, {"detail": [{"loc": 1}]}, "[{'loc': 1}]"),
        (503, b"<html>busy</html>", "Service Unavailable"),
        (500, {}, "no reason is given"),
        (500, {"error": "long " * 200}, "long long"),
    ],
)
def test_a_refusal_is_one_line(
    url: str, does: Behaviour, status: int, answer: Any, said: str
) -> None:
    session = attach(url)
    does.status, does.answer = status, answer
    error, _ = failure(session)
    assert error.startswith(f"{url} answers {status}: {said}")
    assert len(error) < 300


def test_what_is_no_stream_is_said(
    url: str, does: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = attach(url)
    monkeypatch.setattr(Handler, "do_POST", lambda self: self.give(200, {"choices": []}))
    assert failure(session)[0] == f"{url} does not stream, which is how it is read"
    monkeypatch.undo()
    for line, message in ((b"data: {\n\n", "no JSON: {"), (b"data: [1]\n\n", "no object: [1]")):
        monkeypatch.setattr(Handler, "stream", lambda self, _, line=line: self.wfile.write(line))
        assert failure(session)[0] == f"{url} sent what is {message}"


def test_ctrl_c_is_there_at_once(url: str, does: Behaviour) -> None:
    session = attach(url)
    does.pause = 30.0
    events: list[Any] = []
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        events.extend(session.stream("x"))
    assert time.monotonic() - began < 5
    ended = events[-1]
    assert (ended.text, ended.ending) == ("xOnce", "interrupted")


# --- settings -----------------------------------------------------------------------------------


def request_of(kind: str, **changes: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What a server of a kind is sent, and what has no effect there."""
    settings = Settings().but("typed", **changes)
    request = Request("x", 5, 1, dict(settings.active), settings.stop, settings.stop_at_end)
    model = ServerModel(connection.Connection("http://127.0.0.1:9/v1"), "m", kind, Pieces())
    return model._body(request), dict(model.idle(request))


def test_defaults_are_sent_in_full_so_that_no_other_default_applies() -> None:
    body, idle = request_of("vllm")
    assert body == {
        "model": "m",
        "stream": True,
        "prompt": "x",
        "max_tokens": 5,
        "seed": 1,
        "temperature": 0.8,
        "top_k": 200,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "ignore_eos": True,
    }
    assert idle == {}


def test_what_is_off_is_sent_as_off() -> None:
    body, _ = request_of("vllm", top_k=0, temperature="off", stop_at_end=True, stop="END")
    assert (body["top_k"], body["temperature"]) == (-1, 1.0)
    assert "ignore_eos" not in body
    assert body["stop"] == ["END"]


def test_other_samplers_of_llama_cpp_have_its_names() -> None:
    body, idle = request_of(
        "llama.cpp", xtc="0.5", typical=0.9, repetition_penalty=1.2, presence_penalty=0.5
    )
    assert (body["xtc_probability"], body["xtc_threshold"], body["typical_p"]) == (0.5, 0.1, 0.9)
    assert (body["repeat_penalty"], body["repeat_last_n"]) == (1.2, -1)
    assert idle == {}


def test_transformers_takes_a_generation_config() -> None:
    body, idle = request_of("transformers", top_p=0.9, epsilon=3e-4, no_repeat_ngram=3)
    config = json.loads(body["generation_config"])
    assert config == {
        "do_sample": True,
        "temperature": 0.8,
        "top_k": 200,
        "top_p": 0.9,
        "min_p": 0.0,
        "typical_p": 1.0,
        "epsilon_cutoff": 3e-4,
        "eta_cutoff": 0.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 3,
    }
    assert idle == {"stop_at_end": "this server always stops where its model ends a text"}
    greedy, _ = request_of("transformers", temperature=0, repetition_penalty=1.1)
    assert json.loads(greedy["generation_config"]) == {
        "do_sample": False,
        "repetition_penalty": 1.1,
        "no_repeat_ngram_size": 0,
    }


def test_openai_takes_four_stops() -> None:
    stops = ["a", "b", "c", "d", "e"]
    assert request_of("openai", stop=stops)[0]["stop"] == stops[:4]
    assert request_of("vllm", stop=stops)[0]["stop"] == stops


def test_what_a_server_does_not_know_is_said() -> None:
    body, idle = request_of(
        "openai",
        top_k=40,
        xtc=0.5,
        presence_penalty={"penalty": 0.5, "window": 64},
        stop_at_end=True,
    )
    assert "top_k" not in body
    assert idle == {
        "top_k": "a server of the kind openai has no such sampler",
        "xtc": "a server of the kind openai has no such sampler",
        "presence_penalty": "a server of the kind openai takes no window for it",
    }


def test_every_knob_is_one_of_ours() -> None:
    from gptrepl import chain

    for kind, knobs in dialects.DIALECTS.items():
        for knob in knobs:
            assert knob.field in chain.knobs(knob.sampler), (kind, knob)


def test_what_has_no_effect_is_said_in_the_shell(url: str, does: Behaviour) -> None:
    does.owner = "somebody"
    session = attach(url, stop_at_end=True)
    notices = [event.text for event in session.stream("x") if isinstance(event, Notice)]
    assert notices == ["top_k 200 has no effect: a server of the kind openai has no such sampler"]
    assert "top_k" not in does.bodies[-1]


# --- pieces -------------------------------------------------------------------------------------


def test_pieces_have_ids_and_come_back() -> None:
    pieces = Pieces()
    assert pieces.encode("") == []
    first, again, other = (pieces.encode(text)[0] for text in ("né", "né", "x"))
    assert first == again != other
    assert pieces.token_bytes(first).decode() == "né"
    assert pieces.token_bytes(pieces.end) == b""


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"text": "ab"}, ["ab"]),
        ({"text": "", "delta": {"content": None}}, []),
        ({"delta": {"role": "assistant"}}, []),
        (
            {"text": "ab", "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1, None]}},
            ["a", "b"],
        ),
        ({"text": "ab", "logprobs": {"tokens": ["a", "?"], "token_logprobs": [-1, -2]}}, ["ab"]),
        ({"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": None}}, ["a"]),
    ],
)
def test_a_choice_is_split_where_its_tokens_are_its_text(
    choice: dict[str, Any], expected: list[str]
) -> None:
    assert [text for text, _ in said(choice)] == expected


def test_what_cannot_be_split_has_the_sum() -> None:
    told = {"tokens": ["a", "?"], "token_logprobs": [-1, -2]}
    assert list(said({"text": "ab", "logprobs": told})) == [("ab", -3.0)]


# --- the shell ----------------------------------------------------------------------------------


def test_a_script_attaches_and_keeps_the_partial_text(url: str, does: Behaviour) -> None:
    does.break_after = 2
    lines = f":load {url} small\n:load\nSay: \n"
    environment = {**os.environ, connection.KEY: SECRET}
    done = subprocess.run(
        [sys.executable, "-m", "gptrepl"],
        input=lines,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parent,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == "Say: Once upon\n---------------\n"
    assert f"<stdin>:3: {url} broke off before it was done" in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
