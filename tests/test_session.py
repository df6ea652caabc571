"""What stays in memory: the laws of a session."""

from __future__ import annotations

import threading

import pytest
import torch

from fakes import Bytes, Interrupted, Speller, Uniform, session_of
from gptrepl import plugins
from gptrepl.api import (
    GptreplError,
    LoadError,
    Notice,
    Progress,
    SampleEnded,
    SampleStarted,
    Token,
)
from gptrepl.commands import drive
from gptrepl.session import Session
from gptrepl.settings import Settings


def texts(events):
    return [event.text for event in events if isinstance(event, SampleEnded)]


# --- law 1: text is a function of (model, settings, prompt) -------------------------------------


def test_text_never_depends_on_what_came_before():
    session = session_of(Uniform(), max_new_tokens=8, num_samples=2)
    first = texts(session.stream("x"))
    for line in ("y", "something else"):
        texts(session.stream(line))
    session.set(temperature=0.1)
    session.set(temperature=0.8)
    assert texts(session.stream("x")) == first
    assert first[0] != first[1]


def test_sample_five_can_be_drawn_again_alone():
    session = session_of(Uniform(), max_new_tokens=8)
    together = session.generate("x", n=6, seed=100)
    assert session.generate("x", seed=105) == together[5]


def test_seeds_wrap_at_the_last_one():
    session = session_of(Uniform(), max_new_tokens=4, seed=2**64 - 1)
    assert session.generate("x", n=2)[1] == session.generate("x", seed=0)


def test_a_random_seed_is_shown_and_gives_the_text_again():
    session = session_of(Uniform(), max_new_tokens=8, seed="random")
    ended = [event for event in session.stream("x") if isinstance(event, SampleEnded)]
    again = session.generate("x", seed=ended[0].seed)
    assert again == ended[0].text
    assert session.generate("x") != again


# --- law 2: a change happens, or leaves the session as it was ------------------------------------


class Loader:
    """Loads `good` and `other`; the rest fails in one way or another."""

    def sources(self):
        return ["good", "other"]

    def accepts(self, source):
        return source in ("good", "other", "bad", "crash", "big")

    def load(self, source, options):
        if source == "bad":
            raise LoadError("bad is empty")
        if source == "crash":
            raise RuntimeError("two\nlines")
        if source == "big":
            return Uniform(10), Bytes()
        options.note(f"{source} noted")
        return Speller(source), options.tokenizer or Bytes()


@pytest.fixture
def loader(monkeypatch):
    real_installed, real_load = plugins.installed, plugins.load
    entry = next(iter(real_installed("models").values()))
    monkeypatch.setattr(
        plugins,
        "installed",
        lambda kind: {"fake": entry} if kind == "models" else real_installed(kind),
    )
    monkeypatch.setattr(
        plugins,
        "load",
        lambda kind, name: Loader() if kind == "models" else real_load(kind, name),
    )


def test_a_model_is_loaded_when_it_is_needed(loader):
    session = Session(Settings().but(model="good", max_new_tokens=4))
    assert session.loaded is None
    events = list(session.stream("x"))
    assert Notice("good noted") in events
    assert session.samples[0].text == "xgood"
    assert session.model is session.loaded.model
    assert isinstance(session.tokenizer, Bytes)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("bad", "bad is empty"),
        ("crash", "cannot load 'crash': two lines"),
        ("nothing", "nothing here can load 'nothing'"),
        ("big", "the tokenizer has 256 tokens but the model only 10"),
    ],
)
def test_a_load_that_fails_leaves_everything(loader, source, message):
    session = Session(Settings().but(model="good"))
    loaded, settings = session._ready(), session.settings
    with pytest.raises(LoadError, match=message):
        session.set(model=source, temperature=0.1)
    assert session.loaded is loaded
    assert session.settings is settings


def test_a_load_behind_the_prompt_is_waited_for(loader):
    session = Session(Settings().but(model="good", max_new_tokens=4))
    session.load_behind()
    session.set(temperature=0)
    events = list(session.stream("x"))
    assert any(isinstance(event, Progress) for event in events)
    assert texts(events) == ["xgood"]
    assert not session.is_loading


def test_what_is_noted_is_said_while_the_load_goes_on(loader, monkeypatch):
    goes_on = threading.Event()

    def load(_self, source, options):
        options.note("it will be large")
        goes_on.wait(5)
        return Speller(source), Bytes()

    monkeypatch.setattr(Loader, "load", load)
    session = Session(Settings().but(model="good", max_new_tokens=1))
    stream = session.stream("x")
    assert next(event for event in stream if isinstance(event, Notice)).text == "it will be large"
    assert session.loaded is None
    goes_on.set()
    assert [event for event in stream if isinstance(event, Notice)] == []


def test_a_first_load_that_fails_is_said_at_the_prompt_and_can_be_mended(loader):
    session = Session(Settings().but(model="bad"))
    session.load_behind()
    with pytest.raises(LoadError, match="bad is empty"):
        list(session.stream("x"))
    session.set(model="good")
    assert session.generate("x", max_new_tokens=4) == "xgood"


def test_a_sampling_change_loads_nothing(loader):
    session = Session(Settings().but(model="good"))
    loaded = session._ready()
    session.set(temperature=0.3, top_p=0.9)
    assert session.loaded is loaded


def test_a_device_this_machine_lacks_is_one_line(loader, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    session = Session(Settings().but(model="good"))
    session._ready()
    with pytest.raises(LoadError, match="this machine has no cuda:3; it has"):
        session.set(device="cuda:3")
    assert session.settings.device == "auto"


def test_a_profile_made_elsewhere_opens_with_a_note(loader, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    session = Session(Settings().under("gpu", {"device": "cuda", "model": "good"}))
    assert session._ready().device in ("cpu", "mps")
    assert "this machine has no cuda" in session.loaded.notes[0]


def test_a_call_cannot_change_the_model(loader):
    session = Session(Settings().but(model="good"))
    with pytest.raises(GptreplError, match="a sample cannot change the model"):
        session.generate("x", model="other")


# --- law 4: the texts joined are the decoding of all the bytes ----------------------------------


@pytest.mark.parametrize("said", ["héllo €", "🙂🙃", "e\u0301 日本語"])
def test_a_character_is_never_split(said):
    session = session_of(Speller(said), max_new_tokens=len(said.encode()), temperature=0)
    pieces = [event.text for event in session.stream("x") if isinstance(event, Token)]
    assert "".join(pieces) == said
    assert "\ufffd" not in "".join(pieces)


def test_half_a_character_is_flushed_once_at_the_end():
    session = session_of(Speller("a€"), max_new_tokens=3, temperature=0)
    events = list(session.stream("x"))
    ended = events[-1]
    assert [event.text for event in events if isinstance(event, Token)] == ["a", "", ""]
    assert ended.tail == "\ufffd"
    assert ended.text == "xa\ufffd"


# --- samples one after the other ----------------------------------------------------------------


def test_samples_come_one_after_the_other_though_drawn_together():
    model = Uniform()
    session = session_of(model, max_new_tokens=3, num_samples=3)
    kinds = [(type(e).__name__, e.index) for e in session.stream("x")]
    one = ["SampleStarted", "Token", "Token", "Token", "SampleEnded"]
    assert kinds == [(kind, index) for index in range(3) for kind in one]


def test_samples_are_decoded_as_one_batch():
    model = Speller("abc")
    list(session_of(model, max_new_tokens=3).stream("x", n=4))
    assert [len(rows) for rows in model.calls] == [4, 4, 4]


def test_many_samples_are_decoded_in_batches():
    model = Speller("ab")
    session = session_of(model, max_new_tokens=2)
    events = list(session.stream("x", n=40))
    assert [len(rows) for rows in model.calls] == [32, 32, 8, 8]
    assert [event.index for event in events if isinstance(event, SampleEnded)] == list(range(40))
    assert len(session.samples) == 40


def test_the_first_token_streams_before_the_second_is_drawn():
    model = Speller("abc")
    stream = session_of(model, max_new_tokens=3).stream("x", n=2)
    assert [type(next(stream)).__name__ for _ in range(2)] == ["SampleStarted", "Token"]
    assert len(model.calls) == 1
    stream.close()


def test_several_prompts_are_one_batch_and_equal_to_single_runs():
    session = session_of(Uniform(), max_new_tokens=5)
    assert session.generate(["a", "bcd"]) == [session.generate("a"), session.generate("bcd")]
    assert session.generate(["a", "b"], n=2) == [
        session.generate("a", n=2),
        session.generate("b", n=2),
    ]


def test_no_new_tokens_give_the_prompt():
    assert session_of(Uniform(), max_new_tokens=0).generate("x") == "x"


@pytest.mark.parametrize("n", [0, -1, 2.5, "no"])
def test_a_number_of_samples_that_is_none_is_refused(n):
    session = session_of(Uniform())
    with pytest.raises(
        GptreplError, match="num_samples must be a whole number from 1 to 100000, not"
    ):
        session.generate("x", n=n)
    assert session.samples == []


@pytest.mark.parametrize("name", ["num_samples", "samples"])
def test_generate_takes_n_for_num_samples(name):
    with pytest.raises(GptreplError, match="num_samples has no effect on generate: give n"):
        session_of(Uniform()).generate("x", **{name: 3})


@pytest.mark.parametrize("n", [None, 2])
def test_no_prompts_are_refused(n):
    with pytest.raises(GptreplError, match="there is no prompt"):
        session_of(Uniform()).generate([], n=n)


def test_an_empty_prompt_is_refused():
    with pytest.raises(GptreplError, match="the prompt is empty"):
        session_of(Uniform()).generate("")


# --- law 6: an interrupt ends the work and keeps the text ---------------------------------------


def test_an_interrupt_in_the_model_keeps_what_was_said():
    session = session_of(Interrupted("hello", 3, KeyboardInterrupt), max_new_tokens=9)
    events, stream = [], session.stream("x", temperature=0)
    with pytest.raises(KeyboardInterrupt):
        events.extend(stream)
    assert events[-1].ending == "interrupted"
    assert events[-1].text == "xhel"
    assert session.samples[0].text == "xhel"
    assert session.generate("x", max_new_tokens=5, temperature=0) == "xhello"


def test_an_interrupt_while_a_token_is_shown_keeps_what_was_said():
    session = session_of(Speller("hello"), max_new_tokens=9)
    stream = session.stream("x", n=2)
    assert isinstance(next(stream), SampleStarted)
    assert next(stream).text == "h"
    ended = stream.throw(KeyboardInterrupt)
    assert (ended.ending, ended.text) == ("interrupted", "xh")
    with pytest.raises(KeyboardInterrupt):
        list(stream)


@pytest.mark.parametrize("place", range(18))
def test_an_interrupt_at_any_event_shows_all_that_was_drawn(place):
    session = session_of(Uniform(), max_new_tokens=4)
    events = []

    def show(event):
        events.append(event)
        if len(events) == place + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(session.stream("x", n=3), show)
    assert [event.index for event in events if isinstance(event, SampleEnded)] == [0, 1, 2]
    for sample in session.samples:
        own = [event for event in events if event.index == sample.index]
        drawn = [event.token for event in own if isinstance(event, Token)]
        assert isinstance(own[-1], SampleEnded)
        assert (drawn, own[-1].text) == (sample.tokens, sample.text)
        assert sample.ending in ("length", "interrupted")


@pytest.mark.parametrize("kind", [GptreplError, ZeroDivisionError])
def test_an_error_in_the_middle_is_raised_when_all_is_said(kind):
    model = Interrupted("hello", 2, kind)
    events = []
    with pytest.raises(kind):
        events.extend(session_of(model, max_new_tokens=9).stream("x"))
    assert (events[-1].ending, events[-1].text) == ("failed", "xhe")


# --- law 7: what has no effect is said, once ----------------------------------------------------


def notices(session, prompt="x", **changes):
    return [e.text for e in session.stream(prompt, **changes) if isinstance(e, Notice)]


def test_a_setting_without_effect_is_said_once():
    session = session_of(Uniform(65), max_new_tokens=1)
    session._loaded.tokenizer.vocab_size = 65
    assert notices(session, "!") == []
    session.set(top_k=200)
    assert notices(session, "!") == ["top_k 200 has no effect: the vocabulary has 65"]
    assert notices(session, "!") == []


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [("system", "Be brief.", '"Be brief."'), ("turns", "{user}>{assistant}", "{user}>{assistant}")],
)
def test_what_is_for_a_chat_is_said_to_have_no_effect_on_a_text(name, value, written):
    session = session_of(Uniform(), max_new_tokens=1, top_k=0, **{name: value})
    said = [event.text for event in session.stream("x") if isinstance(event, Notice)]
    assert said == [f"{name} {written} has no effect: the text is no turn of a chat"]


def test_greedy_says_what_it_overrules():
    session = session_of(Speller("a"), max_new_tokens=1, temperature=0, top_p=0.9)
    assert notices(session) == ["top_p 0.9 has no effect: decoding is greedy"]


def test_greedy_samples_are_said_to_be_alike():
    session = session_of(Speller("a"), max_new_tokens=1, temperature=0, num_samples=3)
    assert notices(session) == ["decoding is greedy: the 3 samples are alike"]


def test_the_start_that_falls_out_of_sight_is_said_once():
    session = session_of(Uniform(block_size=4), max_new_tokens=8)
    (said,) = notices(session, "ab")
    assert "the model sees the last 4 tokens" in said
    assert notices(session, "ab") == []
    (said,) = notices(session, "abcdef")
    assert "the prompt has 6 tokens" in said


def test_the_context_is_what_the_model_sees():
    session = session_of(Uniform(block_size=4), max_new_tokens=8)
    ended = list(session.stream("ab"))[-1]
    assert (ended.tokens, ended.context, ended.block_size) == (8, 4, 4)


def test_ids_only_the_model_has_are_said_at_the_load(loader, monkeypatch):
    monkeypatch.setattr(Loader, "load", lambda *_: (Uniform(300), Bytes()))
    session = Session(Settings().but(model="good"))
    assert "the model has 300 ids, its tokenizer knows 256" in session._ready().notes[0]


# --- prompts ------------------------------------------------------------------------------------


def test_the_start_is_the_default_prompt_and_may_be_a_file(tmp_path):
    (tmp_path / "p.txt").write_bytes(b"a\r\nb")
    session = session_of(Speller("!", prompt=3), max_new_tokens=1, temperature=0)
    assert session.generate(start="ab") == "ab!"
    assert session.generate(start=f"FILE:{tmp_path}/p.txt") == "a\nb!"
    with pytest.raises(GptreplError, match="cannot read '/gone': No such file"):
        session.generate(start="FILE:/gone")


def test_a_token_that_speaks_of_the_text_says_so():
    class Signed(Bytes):
        special = frozenset({ord("|")})

    session = session_of(Speller("a|"), Signed(), max_new_tokens=2, temperature=0)
    assert [e.special for e in session.stream("x") if isinstance(e, Token)] == [False, True]


def test_what_stands_before_every_text_stands_there_once():
    class Started(Bytes):
        start = (1, 2)

    model = Speller("abc", prompt=3)
    session = session_of(model, Started(), max_new_tokens=1, temperature=0)
    assert session.generate("x") == "xa"
    assert model.calls[-1] == [[1, 2, ord("x")]]
    assert session.generate("\x01\x02x") == "\x01\x02xa"
    assert model.calls[-1] == [[1, 2, ord("x")]]
    assert session.generate("") == "c"


def test_the_public_names_are_three():
    import gptrepl

    assert {name for name in gptrepl.__all__ if not name.startswith("_")} == {
        "load",
        "Session",
        "Settings",
    }
    assert gptrepl.Session is Session
    with pytest.raises(AttributeError):
        _ = gptrepl.nothing


def test_load_gives_a_session_with_its_model(loader):
    import gptrepl

    session = gptrepl.load("good", temperature=0)
    assert session.generate("x", max_new_tokens=4) == "xgood"
    assert session.settings.origin("temperature") == "command line"
    with pytest.raises(LoadError):
        gptrepl.load("bad")


def test_a_source_may_be_a_path(loader):
    from pathlib import Path

    import gptrepl

    assert gptrepl.load(Path("good"), temperature=0).source == "good"


def test_a_load_may_name_the_tokenizer(loader, golden):
    from gptrepl.commands import evaluate

    meta = golden / "nanogpt_char/data/shakespeare_char/meta.pkl"
    session = Session(Settings())
    list(evaluate(session, f":load good char:{meta}"))
    assert (session.source, session.settings.tokenizer) == ("good", f"char:{meta}")
    assert session.tokenizer.vocab_size == 65
    list(evaluate(session, ":load other"))
    assert (session.source, session.settings.tokenizer) == ("other", "auto")
