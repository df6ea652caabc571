"""Models that sample by themselves: their text streams, stops and breaks off like any other."""

from __future__ import annotations

import math
from collections.abc import Generator

import pytest

from fakes import session_of
from gptrepl.api import GptreplError, Notice, Request, SampleEnded, SampleStarted, Token
from gptrepl.commands import evaluate


class Pieces:
    """Gives ids to pieces of text as they come along."""

    vocab_size = 1000
    end = 0

    def __init__(self):
        self.texts = [""]

    def encode(self, text):
        self.texts.append(text)
        return [len(self.texts) - 1]

    def token_bytes(self, token):
        return self.texts[token].encode()


class Dictator:
    """Writes *pieces*, then ends or raises; it keeps what it was asked for."""

    vocab_size = 1000
    block_size = None

    def __init__(self, *pieces, ending="length", error=None, lacks=()):
        self.pieces = pieces
        self.ending = ending
        self.error = error
        self.lacks = lacks
        self.asked: list[Request] = []
        self.closed = 0
        self.tokenizer = Pieces()

    def complete(self, request) -> Generator[tuple[int, float], None, str]:
        self.asked.append(request)
        try:
            for piece in self.pieces:
                yield self.tokenizer.encode(piece)[0], math.nan
            if self.error is not None:
                raise self.error
            return self.ending
        finally:
            self.closed += 1

    def idle(self, request):
        return {name: "it is deaf" for name in request.samplers if name in self.lacks}


def session(model, **changes):
    return session_of(model, model.tokenizer, **{"max_new_tokens": 9, **changes})


def test_pieces_stream_as_they_come():
    model = Dictator("Hel", "lo", " 🙂")
    events = list(session(model).stream("Say: "))
    assert isinstance(events[0], SampleStarted)
    assert [event.text for event in events if isinstance(event, Token)] == ["Hel", "lo", " 🙂"]
    assert isinstance(events[-1], SampleEnded)
    assert (events[-1].text, events[-1].ending) == ("Say: Hello 🙂", "length")
    assert math.isnan(events[1].logprob)


def test_it_is_asked_for_what_the_settings_say():
    model = Dictator("a")
    asking = session(model, temperature=0.5, top_p=0.9, stop="\n\n", stop_at_end=True, seed=7)
    asking.generate("x", n=2)
    one, other = model.asked
    assert (one.prompt, one.max_new_tokens, one.stop, one.stop_at_end) == ("x", 9, ("\n\n",), True)
    assert (one.seed, other.seed) == (7, 8)
    assert one.samplers["temperature"].temperature == 0.5
    assert one.samplers["top_p"].top_p == 0.9
    assert one.messages == ()


def test_samples_come_one_after_the_other():
    model = Dictator("a", "b")
    kinds = [(type(e).__name__, e.index) for e in session(model).stream("x", n=2)]
    one = ["SampleStarted", "Token", "Token", "SampleEnded"]
    assert kinds == [(kind, index) for index in range(2) for kind in one]


def test_it_tells_why_it_ended():
    ended = list(session(Dictator("a", ending="stop")).stream("x"))[-1]
    assert ended.ending == "stop"


def test_a_stop_string_is_never_half_shown_and_ends_the_request():
    model = Dictator("on", "e\n", "\ntwo", "three")
    ended = list(session(model, stop="\n\n").stream("x"))[-1]
    assert (ended.text, ended.ending, model.closed) == ("xone", "stop", 1)


def test_no_tokens_ask_for_nothing():
    model = Dictator("a")
    assert session(model, max_new_tokens=0).generate("x") == "x"
    assert model.asked == []


def test_an_error_keeps_what_was_written_and_begins_no_other():
    model = Dictator("a", "b", error=GptreplError("it broke off"))
    events = []
    with pytest.raises(GptreplError, match="it broke off"):
        events.extend(session(model).stream("x", n=3))
    assert (events[-1].text, events[-1].ending) == ("xab", "failed")
    assert len(model.asked) == 1


def test_an_interrupt_keeps_what_was_written_and_closes_the_request():
    model = Dictator("a", "b", "c")
    stream = session(model).stream("x", n=2)
    assert [next(stream), next(stream)][1].text == "a"
    ended = stream.throw(KeyboardInterrupt)
    assert (ended.ending, ended.text) == ("interrupted", "xa")
    with pytest.raises(KeyboardInterrupt):
        list(stream)
    assert model.closed == 1
    assert len(model.asked) == 1


def test_what_it_cannot_honour_is_said_once():
    model = Dictator("a", lacks=("top_k",))
    asking = session(model, chain=["top_k", "temperature"], dtype="float32")
    said = [event.text for event in asking.stream("x") if isinstance(event, Notice)]
    assert said == [
        "top_k 200 has no effect: it is deaf",
        "chain has no effect: the order of the samplers is the server's own",
        "dtype float32 has no effect: the model does not run here",
    ]
    assert not [event for event in asking.stream("x") if isinstance(event, Notice)]


def test_one_stream_of_draws_is_refused():
    with pytest.raises(GptreplError, match="a server draws by itself"):
        list(session(Dictator("a")).stream("x", one_stream=True))


def test_the_shell_tells_where_it_runs_and_who_else_does():
    model = Dictator("a")
    asking = session(model)
    assert next(evaluate(asking, ":load")).text.endswith(" on cpu in float32")
    model.place, model.siblings = "at a desk", ["desk one", "desk two"]
    assert next(evaluate(asking, ":load")).text.endswith(" at a desk")
    (table,) = evaluate(asking, ":models")
    assert ("", "desk two", "at the server") in table.rows


def test_a_receipt_and_json_say_where_a_probability_is_not_told():
    from gptrepl.generation import Generation
    from gptrepl.jsonlines import object_of
    from gptrepl.receipts import Receipt, from_json, receipt_of, to_json

    asking = session(Dictator("a", "b"))
    events = list(asking.stream("x"))
    assert object_of(events[-2])["logprob"] is None
    generation = Generation(asking.loaded, asking.settings, asking.samples)
    (receipt,) = from_json([to_json(receipt_of(generation, ended=True))], "here")
    assert isinstance(receipt, Receipt)
    assert receipt.samples[0].logprobs == [None, None]
    assert math.isnan(receipt.samples[0].logprob(0))


def test_a_receipt_of_it_cannot_be_drawn_again(monkeypatch):
    from gptrepl.generation import Generation
    from gptrepl.receipts import receipt_of
    from gptrepl.replay import replay

    asking = session(Dictator("a"))
    asking.generate("x")
    receipt = receipt_of(Generation(asking.loaded, asking.settings, asking.samples), ended=True)
    with pytest.raises(GptreplError, match="fake draws by itself and gives no ids"):
        list(replay(receipt, asking))
