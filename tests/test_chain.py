"""The chain: what cannot work together is refused, what has no effect is said."""

from __future__ import annotations

import pytest

from fakes import Speller, Uniform, session_of
from gptrepl import chain
from gptrepl.api import GptreplError, Notice
from gptrepl.commands import evaluate
from gptrepl.settings import Settings

SELECTING = {"mirostat": 5, "mirostat2": 5, "xtc": 0.5, "adaptive_p": 0.5}


def notices(session, **changes):
    return [e.text for e in session.stream("x", **changes) if isinstance(e, Notice)]


@pytest.mark.parametrize("name", SELECTING)
def test_one_that_selects_is_the_last(name):
    settings = Settings().but(**{name: SELECTING[name], "top_p": 0.9, "repetition_penalty": 1.1})
    assert [on for on, _ in settings.active][-1] == name
    with pytest.raises(GptreplError) as refused:
        settings.but(chain=[name, "temperature"])
    assert str(refused.value) == (
        f"{name} selects the token, so top_k cannot come after it: "
        "change the order by :chain, or set one of them off"
    )
    assert settings.but(chain=[name, "temperature"], temperature=1, top_k=0, top_p=1)


@pytest.mark.parametrize("other", ["mirostat2", "xtc", "adaptive_p"])
def test_only_one_selects(other):
    session = session_of(Uniform(), max_new_tokens=1, mirostat=5)
    before = session.settings
    with pytest.raises(GptreplError, match=r"both select the token: set one of them off first"):
        session.set(**{other: SELECTING[other]})
    assert session.settings is before
    session.set(mirostat="off", **{other: SELECTING[other]})


def test_a_profile_that_cannot_work_is_refused_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text("top_p: 0.9\nmirostat: 5\nxtc: 0.5\n")
    session = session_of(Uniform(), max_new_tokens=1)
    before = session.settings
    with pytest.raises(GptreplError, match="both select"):
        list(evaluate(session, ":profile p.yaml"))
    assert session.settings is before


def test_what_was_typed_for_a_sampler_that_is_off_is_said():
    session = session_of(Uniform(), max_new_tokens=1, xtc={"threshold": 0.2})
    assert notices(session) == ["xtc threshold=0.2 has no effect: xtc is off, probability is 0"]
    assert notices(session) == []
    session.set(xtc=0.5)
    assert notices(session) == []


def test_greedy_overrules_all_but_the_penalties_before_it():
    session = session_of(Speller("a"), max_new_tokens=1, temperature=0, seed=7)
    session.set(repetition_penalty=1.1, min_p=0.1)
    assert notices(session) == [
        "min_p 0.1 has no effect: decoding is greedy",
        "seed 7 has no effect: decoding is greedy",
    ]
    session.set(chain=["temperature", "repetition_penalty"])
    assert notices(session) == [
        "repetition_penalty 1.1 window=all has no effect: decoding is greedy"
    ]


def test_the_order_is_checked_where_it_is_used():
    with pytest.raises(GptreplError, match="selects the token"):
        chain.check([("xtc", chain.build("xtc", 0.5)), ("top_k", chain.build("top_k", 5))])
    chain.check([])


@pytest.mark.parametrize("breakers", ["", "a b", '"', "\t", '\\n:"*', "é", "x="])
def test_a_sampler_is_written_as_it_is_typed(breakers):
    settings = Settings().but(dry={"multiplier": 0.123456789, "breakers": breakers})
    typed = chain.read("dry", settings.value("dry"))
    assert Settings().but(dry=typed).samplers["dry"] == settings.samplers["dry"]
