"""Profiles: a set of changes, applied whole or not at all."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from gptrepl import profiles, saving
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
        ("chain: [top_k, nothing]", "p.yaml:1: chain: no sampler named 'nothing'"),
        ("seed: {a: {b: {c: {d: 1}}}}", "p.yaml:1: it is nested too deeply"),
        ("start: !!python/object/apply:os.system [ls]", "p.yaml:1: tags (!) are not read"),
        ("start: !mine x", "p.yaml:1: tags (!) are not read"),
        ("min_p: []", "p.yaml:1: min_p has no value; `off` switches it off"),
        ("seed: [", "p.yaml:1: "),
        ("seed: &a 1\ntokens: *a", "p.yaml:1: aliases (*) are not read"),
        ("chain: &a [*a, *a]", "p.yaml:1: aliases (*) are not read"),
        ("description: [a]", "p.yaml:1: description: it is a text"),
        ("extends: {a: 1}", "p.yaml:1: extends: it is the name of a profile, or a list"),
        ("temp: 1\nextends: nobody", "p.yaml:2: extends: no profile named 'nobody'"),
        (
            "extends: ../gone.yaml",
            "p.yaml:1: extends: cannot read the profile ../gone.yaml: No such",
        ),
        ("commands: {a: 1}", "p.yaml:1: commands: it is a list of lines"),
        ("commands:\n- [a]", "p.yaml:1: commands: it is a list of lines"),
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


def test_every_fault_of_a_file_is_found():
    _, faults = profiles.examine("temp: hot\nseed: 1\ntpo_k: 3\nextends: nobody", Path("p.yaml"))
    assert sorted(fault.split(":")[1] for fault in faults) == ["1", "3", "4"]


def test_a_repeated_key_hides_no_other_fault():
    text = "extends: gone\ntemp: hot\nseed: 1\nseed: 2\ncommands: []\ncommands: []\nnothing: 3"
    _, faults = profiles.examine(text, Path("p.yaml"))
    assert [fault.split(":")[1] for fault in faults] == ["1", "2", "4", "6", "7"]
    assert faults[2:4] == [
        "p.yaml:4: seed: it is set twice, first in line 3",
        "p.yaml:6: commands: it is set twice, first in line 5",
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("commands: [':temp 1', x]", [1, 1]),
        ("temp: 1\ncommands:\n- ':temp 1'\n-  x\n", [3, 4]),
        ("commands: |\n  :temp 1\n  x\n", [2, 3]),
    ],
)
def test_commands_are_lines_with_their_places(text, places):
    assert parse(text).commands == tuple(
        (line, f"p.yaml:{place}") for line, place in zip((":temp 1", "x"), places, strict=True)
    )


# --- extending ----------------------------------------------------------------------------------


@pytest.fixture
def lay(tmp_path, monkeypatch):
    """Lay profiles, NAME='its text', into the folder the test works in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()

    def lay(**texts):
        for name, text in texts.items():
            (tmp_path / f"profiles/{name}.yaml").write_text(text)
        return tmp_path / "profiles"

    return lay


def under(name: str) -> Settings:
    return Settings().under(name, profiles.read(name).changes)


def test_a_profile_changes_what_it_extends(lay):
    lay(
        one="temp: 0.1\ntop_k: 5\nrepetition_penalty: {penalty: 1.2, window: 9}\ncommands: [a]",
        two="temp: 0.2\nmin_p: 0.1\ncommands: [b]",
        both="extends: [one, two]\ntop_k: 7\nrepetition_penalty: {penalty: 1.3}\ncommands: [c]",
        over="extends: both\ndescription: all of it",
    )
    settings = under("over")
    assert settings.value("temperature") == "0.2"
    assert settings.value("min_p") == "0.1"
    assert settings.value("top_k") == "7"
    assert settings.value("repetition_penalty") == "1.3 window=9"
    found = profiles.read("over")
    assert (found.extends, dict(found.own), found.description) == (("both",), {}, "all of it")
    assert [text for text, _ in found.commands] == ["a", "b", "c"]
    assert [where for _, where in found.commands] == [
        "profiles/one.yaml:4",
        "profiles/two.yaml:3",
        "profiles/both.yaml:4",
    ]


def test_several_names_are_one_profile_over_the_other(lay):
    lay(one="temp: 0.1\ntop_k: 5", two="temp: 0.2")
    found = profiles.read("one+two")
    assert (found.name, found.extends) == ("one+two", ("one", "two"))
    assert under("one+two").value("temperature") == "0.2"
    assert under("two+one").value("temperature") == "0.1"
    assert under("two+one").value("top_k") == "5"


def test_ones_own_may_extend_the_one_it_hides(lay):
    lay(creative="extends: creative\nmin_p: 0.1")
    assert under("creative").value("temperature") == "0.9"
    assert under("creative").value("min_p") == "0.1"


def test_a_path_is_relative_to_the_file_that_says_it(lay, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/base.yaml").write_text("temp: 0.1")
    (tmp_path / "deep/top.yaml").write_text("extends: base")
    (tmp_path / "deep/up.yaml").write_text("extends: ../deep/base.yaml")
    for name in ("deep/top.yaml", "deep/up.yaml"):
        assert under(name).value("temperature") == "0.1"
        assert profiles.read(name).name == name


@pytest.mark.parametrize("others", [{"b": "extends: a"}, {"b": "extends: c", "c": "extends: [a]"}])
def test_a_circle_is_refused(lay, others):
    lay(a="extends: b", **others)
    with pytest.raises(GptreplError, match=r"profiles/.\.yaml:1: extends: a extends ., so neither"):
        profiles.read("a")


def test_a_fault_in_what_is_extended_names_its_own_file(lay):
    lay(a="extends: b", b="seed: 1\ntemp: hot")
    with pytest.raises(GptreplError, match=r"^profiles/b\.yaml:2: temperature must be"):
        profiles.read("a")


# --- saving -------------------------------------------------------------------------------------


def save(path: Path, settings: Settings, **like: object) -> profiles.Profile:
    blank = profiles.Profile(path.stem, path, {})
    return saving.save(path, settings, dataclasses.replace(blank, **like))


def test_only_what_differs_is_written(lay):
    folder = lay(base="temp: 0.3\ntop_k: 9\nxtc: {probability: 0.5, threshold: 0.05}")
    settings = under("base").but(top_k=40, start="a: #b\n", xtc={"threshold": 0.2}, chain="top_k")
    save(folder / "mine.yaml", settings, extends=("base",), description="mine: all mine")
    assert (folder / "mine.yaml").read_text() == (
        "extends: base\n"
        "description: 'mine: all mine'\n"
        'start: "a: #b\\n"\n'
        "chain: [top_k]\n"
        "top_k: 40\n"
        "xtc: {probability: 0.5, threshold: 0.2}\n"
    )
    assert under("mine").start == "a: #b\n"
    assert sorted(path.name for path in folder.iterdir()) == ["base.yaml", "mine.yaml"]


def test_what_only_the_configuration_says_is_written_too(lay):
    folder = lay()
    mine = Settings().but("configuration", top_p=0.9, temperature=0.3)
    save(folder / "mine.yaml", mine)
    assert {
        name: Settings().under("", profiles.read("mine").changes).value(name)
        for name in ("top_p", "temperature")
    } == {"top_p": "0.9", "temperature": "0.3"}
    save(folder / "mine.yaml", mine.but(temperature=0.8))
    assert mine.under("", profiles.read("mine").changes).value("temperature") == "0.8"


def test_a_profile_that_could_not_be_read_again_is_not_left_behind(lay):
    folder = lay(mine="extends: base", base="temp: 0.3")
    with pytest.raises(GptreplError, match="base extends mine, so neither can be read"):
        save(folder / "base.yaml", Settings(), extends=("mine",))
    assert (folder / "base.yaml").read_text() == "temp: 0.3"
    lay(mine="extends: creative")
    with pytest.raises(GptreplError, match="creative extends mine, so neither can be read"):
        save(folder / "creative.yaml", Settings(), extends=("mine",))
    assert not (folder / "creative.yaml").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said(lay):
    folder = lay()
    folder.chmod(0o500)
    with pytest.raises(GptreplError, match=r"cannot write .*mine\.yaml: Permission denied"):
        save(folder / "mine.yaml", Settings())


def test_a_link_stays_a_link(lay, tmp_path):
    folder = lay()
    (tmp_path / "real.yaml").write_text("temp: 0.3")
    (folder / "mine.yaml").symlink_to(tmp_path / "real.yaml")
    save(folder / "mine.yaml", Settings().but(seed=5))
    assert (folder / "mine.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == "seed: 5\n"


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
