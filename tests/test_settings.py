"""Settings: checked changes, their origins, and the order of the chain."""

from __future__ import annotations

import pytest

from gptrepl.api import GptreplError
from gptrepl.plugins import installed
from gptrepl.settings import Settings


def test_the_defaults_are_those_of_sample_py_for_one_sample():
    settings = Settings()
    assert settings.value("temperature") == "0.8"
    assert settings.value("top_k") == "200"
    assert settings.seed == 1337
    assert settings.start == "\n"
    assert settings.origin("temperature") == "default"


@pytest.mark.parametrize("name", ["temp", "temperature", "TEMP", "Temperature"])
def test_every_spelling_is_the_same_name(name):
    assert Settings().but(**{name: "0.3"}).value("temperature") == "0.3"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("top_k", "0", "off"),
        ("top_k", "off", "off"),
        ("top_k", "none", "off"),
        ("top_k", None, "off"),
        ("top_k", False, "off"),
        ("top_k", 99999, "99999"),
        ("temperature", 0, "0"),
        ("temperature", "off", "off"),
        ("top_p", 1, "off"),
        ("seed", "random", "random"),
        ("seed", -1, "random"),
        ("seed", "none", "random"),
        ("seed", 2**64 - 1, str(2**64 - 1)),
        ("repetition_penalty", "1.2", "1.2 window=all"),
        ("repetition_penalty", {"penalty": 1.2, "window": "64"}, "1.2 window=64"),
        ("repetition_penalty", [1.2, "off"], "1.2 window=off"),
        ("chain", "top_k temp", "top_k temperature"),
        ("device", "cuda:1", "cuda:1"),
        ("num_samples", "3", "3"),
    ],
)
def test_a_value_is_taken_and_shown(name, value, shown):
    settings = Settings().but(**{name: value})
    assert settings.value(name) == shown
    assert settings.origin(name) == "typed"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "-1"),
        ("temperature", "hot"),
        ("temperature", "nan"),
        ("top_k", "-1"),
        ("top_k", "40.5"),
        ("top_k", "yes"),
        ("top_p", "1.5"),
        ("seed", "1.5"),
        ("seed", 2**64),
        ("seed", "-7"),
        ("device", "gpu"),
        ("dtype", "int8"),
        ("num_samples", "0"),
        ("num_samples", "1000000000000"),
        ("max_new_tokens", "-1"),
        ("chain", "top_k top_k"),
        ("chain", "nonsense"),
        ("chain", "seed"),
        ("chain", 5),
        ("chain", {"top_k": 1}),
        ("stop", ["a", "\ud800"]),
        ("system", "\ud800"),
        ("topp2", "1"),
        ("repetition_penalty", {"windo": 3}),
        ("repetition_penalty", [1.2, "off", 3]),
        ("repetition_penalty", {"penalty": 0}),
    ],
)
def test_a_refused_value_names_itself_and_changes_nothing(name, value):
    before = Settings()
    with pytest.raises(GptreplError) as refused:
        before.but(**{name: value})
    assert "\n" not in str(refused.value)
    assert before == Settings()


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(GptreplError, match=r"no setting named 'topp2' \(did you mean top_p\?\)"):
        Settings().but(topp2=1)


def test_later_origins_win_and_each_is_told():
    settings = Settings().under("mine", {"temperature": "0.9", "top_k": "40"})
    assert (settings.value("temperature"), settings.origin("temperature")) == (
        "0.9",
        "profile mine",
    )
    settings = settings.but("command line", top_k=30).but(temperature=0.1)
    assert (settings.value("top_k"), settings.origin("top_k")) == ("30", "command line")
    assert (settings.value("temperature"), settings.origin("temperature")) == ("0.1", "typed")


def test_a_profile_replaces_the_one_before_and_what_it_names():
    settings = Settings().under("one", {"top_p": "0.5", "temperature": "0.9"})
    settings = settings.but(min_p=0.1, temperature=0.3).under("two", {"temperature": "0.7"})
    assert settings.value("top_p") == "off"
    assert settings.value("min_p") == "0.1"
    assert settings.value("temperature") == "0.7"
    assert settings.profile == "two"


def test_what_was_typed_can_be_forgotten():
    settings = Settings().but("command line", temperature=0.5).but(temperature=0.1, top_k=3)
    assert settings.without_typed("temperature").value("temperature") == "0.5"
    assert settings.without_typed().value("top_k") == "200"


def test_one_field_keeps_the_others():
    settings = Settings().but(repetition_penalty={"penalty": 1.3, "window": 64})
    assert settings.but(repetition_penalty={"penalty": 1.1}).value("repetition_penalty") == (
        "1.1 window=64"
    )


def test_the_chain_runs_by_stage_unless_it_is_told():
    on = {"top_p": 0.9, "top_k": 40, "min_p": 0.1, "temperature": 0.7, "repetition_penalty": 1.1}
    settings = Settings().but(**on)
    names = [name for name, _ in settings.active]
    assert names == ["repetition_penalty", "temperature", "top_k", "top_p", "min_p"]
    swapped = [name for name, _ in settings.but(chain="top_p temperature").active]
    assert swapped == ["repetition_penalty", "top_p", "top_k", "temperature", "min_p"]
    assert settings.but(chain="top_p temp").but(chain="default") == settings.but(chain=())


def test_what_is_off_is_not_in_the_chain():
    settings = Settings().but(temperature=1, top_k=0)
    assert settings.active == ()


@pytest.mark.parametrize("name", sorted(installed("samplers")))
def test_off_switches_every_sampler_off(name):
    assert Settings().but(**{name: "off"}).value(name) == "off"


@pytest.mark.parametrize(
    ("name", "shown"), [("temperature", "0"), ("top_p", "0"), ("top_k", "off")]
)
def test_zero_is_off_only_where_it_says_so(name, shown):
    assert Settings().but(**{name: 0}).value(name) == shown
