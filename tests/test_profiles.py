"""Profiles: a set of changes, applied whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gptrepl import profiles
from gptrepl.api import GptreplError
from gptrepl.settings import Settings


def parse(text: str) -> profiles.Profile:
    return profiles.parse(text, Path("p.yaml"))


def settings(text: str) -> Settings:
    return Settings().under("p", parse(text).changes)


def test_every_shipped_profile_is_what_its_name_says():
    shipped = {"creative", "default", "deterministic", "greedy", "precise", "sample"}
    assert shipped <= set(profiles.found())
    expected = {"creative": (0.9, 40), "precise": (0.7, 100), "deterministic": (0.5, 10)}
    for name, (temperature, top_k) in expected.items():
        changed = Settings().under(name, profiles.read(name).changes)
        assert changed.value("temperature") == f"{temperature}"
        assert changed.value("top_k") == f"{top_k}"
    greedy = Settings().under("greedy", profiles.read("greedy").changes)
    assert greedy.value("temperature") == "0"


def test_the_default_profile_says_the_defaults():
    default = Settings().under("default", profiles.read("default").changes)
    assert default.samplers == Settings().samplers
    names = [*profiles.read("default").changes]
    assert [default.value(name) for name in names] == [Settings().value(name) for name in names]


def test_the_sample_profile_is_sample_py_without_options():
    sample = Settings().under("sample", profiles.read("sample").changes)
    assert (sample.num_samples, sample.max_new_tokens, sample.seed, sample.start) == (
        10,
        500,
        1337,
        "\n",
    )
    assert (sample.value("temperature"), sample.value("top_k")) == ("0.8", "200")


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        ("temperature: 1e-3", "temperature", "0.001"),
        ("temp: .5", "temperature", "0.5"),
        ("top_k: off", "top_k", "off"),
        ("top_k: no", "top_k", "off"),
        ("top_k: null", "top_k", "off"),
        ("top_k: 0123", "top_k", "123"),
        ("start: 42", "start", '"42"'),
        ("start: no", "start", '"no"'),
        ('start: "\\n"', "start", '"\\n"'),
        ("start: '# x'", "start", '"# x"'),
        ("start: ' two  spaces '", "start", '" two  spaces "'),
        ("chain: [top_k, temperature]", "chain", "top_k temperature"),
        ("repetition_penalty: {penalty: 1.2, window: 64}", "repetition_penalty", "1.2 window=64"),
        ("seed: random", "seed", "random"),
        ("tokens: 5", "max_new_tokens", "5"),
        ("\ufefftokens: 5", "max_new_tokens", "5"),
    ],
)
def test_a_value_means_what_it_says(text, name, shown):
    assert settings(text).value(name) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temperature: hot", "p.yaml:1: temperature must be a number, 0 or more"),
        ("seed: 1\ntop_k: 40.5", "p.yaml:2: top_k must be a whole number"),
        ("top_k: yes", "p.yaml:1: top_k must be a whole number"),
        ("temprature: 1", "p.yaml:1: unknown key 'temprature' (did you mean temperature?)"),
        ("temp: 1\n\ntemp: 2", "p.yaml:3: temp: it is set twice, first in line 1"),
        ("temp: 1\ntemperature: 2", "p.yaml:2: temperature: it is set twice"),
        ("start: # x", "p.yaml:1: start: it has no value"),
        ("temp:\n\t1", "p.yaml:2: "),
        ("start: a: b", "p.yaml:1: "),
        ("- temp", "p.yaml:1: a profile is a list of"),
        ("just words", "p.yaml:1: a profile is a list of"),
        ("[a]: 1", "p.yaml:1: a key is a word"),
        ("top_k: [1, 2]", "p.yaml:1: top_k takes at most 1 values"),
        ("repetition_penalty: {wat: 1}", "p.yaml:1: repetition_penalty has"),
        ("chain: [top_k, nothing]", "p.yaml:1: chain: no setting named 'nothing'"),
        ("seed: {a: {b: {c: {d: 1}}}}", "p.yaml:1: it is nested too deeply"),
        ("start: !!python/object/apply:os.system [ls]", "p.yaml:1: start must be text"),
        ("seed: [", "p.yaml:1: "),
        ("x: \x00", "p.yaml:1: "),
    ],
)
def test_a_fault_is_said_with_file_line_and_key(text, message):
    with pytest.raises(GptreplError) as refused:
        parse(text)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_an_empty_profile_changes_nothing():
    assert parse("").changes == {}
    assert parse("description: it speaks\n").description == "it speaks"


def test_profiles_are_found_in_the_working_folder_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/creative.yaml").write_text("temp: 0.11")
    (tmp_path / "profiles/mine.yaml").write_text("temp: 0.12")
    assert Settings().under("x", profiles.read("creative").changes).value("temperature") == "0.11"
    assert "mine" in profiles.found()
    assert profiles.read(str(tmp_path / "profiles/mine.yaml")).name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("creativ", "no profile named 'creativ' (did you mean creative?)"),
        ("gone.yaml", "cannot read the profile gone.yaml: No such file or directory"),
        ("bad.yaml", "bad.yaml is not UTF-8 text"),
    ],
)
def test_a_profile_that_is_not_there_is_said(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_bytes(b"start: \xff\xfe\xfa")
    with pytest.raises(GptreplError) as refused:
        profiles.read(name)
    assert str(refused.value) == message
