"""The guide to plugins is true: its examples are one package, and each is sound and works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from fakes import Uniform, distribution, session_of
from gptrepl import plugins
from gptrepl.api import Notice, SampleEnded, Table
from gptrepl.commands import evaluate, find
from gptrepl.conformance import faults
from gptrepl.session import Session
from gptrepl.settings import Settings

PATH = Path(__file__).parents[1] / "plugins/README.md"
GUIDE = PATH.read_text(encoding="utf-8")


def fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def modules():
    """The examples by the name of the module they are."""
    named = [re.match(r"# (\w+)\.py\n(.*)", code, re.DOTALL) for code in fenced("python")]
    return {match[1]: match[2] for match in named if match}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    (points,) = fenced("toml")
    sections = re.sub(r'project\.entry-points\."(.*?)"', r"\1", points).replace('"', "")
    monkeypatch.syspath_prepend(tmp_path)
    with distribution(tmp_path, "guide", sections, **modules()):
        yield


def theirs():
    (points,) = fenced("toml")
    kind = ""
    for line in points.splitlines():
        section = re.match(r'\[project\.entry-points\."gptrepl\.(\w+)"\]', line)
        if section:
            kind = section[1]
        elif "=" in line:
            yield kind, line.split()[0]


GIVEN = {"alphabet": "alphabet", "words": "3", "ascii": ""}


@pytest.mark.parametrize(("kind", "name"), list(theirs()))
def test_each_example_is_sound(installed, kind, name):
    assert faults(kind, plugins.load(kind, name), GIVEN.get(name)) == []


def test_the_first_sampler_has_twelve_lines():
    assert len([line for line in modules()["margin"].splitlines() if line.strip()]) <= 12


def test_the_samplers_do_what_they_say(installed):
    logits = torch.tensor([0.0, 2.0, 2.5, 3.0])
    margin = plugins.load("samplers", "margin")(1.0)
    assert margin(logits, [0]).isfinite().tolist() == [False, True, True, True]
    calm = plugins.load("samplers", "calm")(2, 3.0).begin(None)
    lefts = [calm(logits, [0]) for _ in range(3)]
    assert [float(left[3]) for left in lefts] == [1.0, 1.5, 3.0]
    blink = plugins.load("samplers", "blink")(0.5)
    draws = blink.begin(torch.Generator().manual_seed(1))
    blinks = sum(bool(draws(logits, [0])[3] == -float("inf")) for _ in range(200))
    assert 70 < blinks < 130


def test_a_sampler_has_its_command_and_its_key(installed):
    session = session_of(Uniform(), max_new_tokens=1)
    assert list(evaluate(session, ":calm 20 start=3")) == [Notice("calm 20 start=3")]
    assert [name for name, _ in session.settings.active] == ["temperature", "calm", "top_k"]
    assert Settings().but(blink="0.3").value("blink") == "0.3"


def test_a_drawing_sampler_leaves_the_draw_alone(installed):
    session = session_of(Uniform(), max_new_tokens=30)
    plain = session.generate("x")
    assert session.generate("x", blink=1e-9) == plain


def test_the_model_and_the_tokenizer_are_used(installed):
    session = Session(Settings().but(model="alphabet", max_new_tokens=3, temperature=0))
    ended = [event for event in session.stream("ab") if isinstance(event, SampleEnded)]
    assert ended[0].text == "abcde"
    assert session.loaded.notes == ("it knows no language",)
    session.set(tokenizer="ascii")
    assert type(session.tokenizer).__module__ == "ascii_tokenizer"
    assert session.generate("ab", stop_at_end=True) == "abcde"


def test_the_command_yields_a_table(installed):
    session = session_of(Uniform(), max_new_tokens=1)
    assert find("vocabulary").usage == ":words [COUNT]"
    assert list(evaluate(session, ":words")) == [Notice("nothing was sampled yet")]
    session.generate("a b a c ")
    (table,) = evaluate(session, ":words 1")
    assert table == Table(("word", "times"), (("a", "2"),), "words")


def test_the_line_for_ones_own_tests_holds(installed, tmp_path, monkeypatch):
    *_, code = fenced("python")
    exec(code, {})
