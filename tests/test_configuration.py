"""The user's own ground: config.yaml, then variables, then profiles and the command line."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from gptrepl import configuration, profiles
from gptrepl.api import GptreplError, Notice
from gptrepl.commands import evaluate
from gptrepl.script import Script
from gptrepl.session import Session


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """Where the file is for the time of a test."""
    found = tmp_path / "config/config.yaml"
    found.parent.mkdir()
    monkeypatch.setattr(configuration, "path", lambda: found)
    monkeypatch.chdir(tmp_path)
    return found


def begin(text="", environ=None, *names):
    configuration.path().write_text(text)
    return configuration.read(environ or {}).begin(names)


def test_without_any_there_are_the_defaults(path):
    settings, lines = configuration.read({}).begin()
    assert (settings.value("temperature"), settings.origin("temperature")) == ("0.8", "default")
    assert lines == ()


def test_later_ones_win_and_each_is_told():
    text = "temp: 0.1\ntop_k: 1\ntop_p: 0.1\nmin_p: 0.1\nseed: 1\ntokens: 1"
    environ = {"GPTREPL_TOP_K": "2", "GPTREPL_TOP_P": "0.2", "GPTREPL_MIN_P": "0.2"}
    Path("profiles").mkdir()
    Path("profiles/mine.yaml").write_text("top_p: 0.3\nmin_p: 0.3\nseed: 3")
    settings, _ = begin(text, environ, "mine")
    settings = settings.but("command line", min_p=0.4).but(max_new_tokens=5)
    names = ("temperature", "top_k", "top_p", "min_p", "seed", "max_new_tokens", "dtype")
    assert [(settings.value(name), settings.origin(name)) for name in names] == [
        ("0.1", "configuration"),
        ("2", "environment"),
        ("0.3", "profile mine"),
        ("0.4", "command line"),
        ("3", "profile mine"),
        ("5", "typed"),
        ("auto", "default"),
    ]


def test_another_profile_leaves_what_the_user_configured():
    settings, _ = begin("temp: 0.1\nmin_p: 0.1", {"GPTREPL_TOP_P": "0.2"}, "creative")
    settings = settings.under("other", {"top_k": 3})
    assert settings.value("temperature") == "0.1"
    assert settings.value("top_p") == "0.2"
    assert settings.without_typed().origin("min_p") == "configuration"


@pytest.mark.parametrize(
    ("text", "environ", "names", "profile"),
    [
        ("profile: creative", {}, (), "creative"),
        ("profile: [creative, greedy]", {}, (), "creative+greedy"),
        ("profile: creative", {"GPTREPL_PROFILE": "precise"}, (), "precise"),
        (
            "profile: creative",
            {"GPTREPL_PROFILE": "precise"},
            ("greedy", "sample"),
            "greedy+sample",
        ),
        ("profile:", {}, (), "default"),
    ],
)
def test_the_profile_to_begin_with(text, environ, names, profile):
    assert begin(text, environ, *names)[0].profile == profile


def test_the_front_ends_settings_are_settings_like_others():
    settings, _ = begin("keys: vi\ntoolbar: off\ncolours: off\nhistory_size: 5\nlog: off")
    assert (settings.keys, settings.toolbar, settings.log) == ("vi", False, False)
    assert (settings.colours, settings.history_size) == ("off", 5)


def test_a_variable_is_written_as_it_would_be_typed():
    environ = {
        "GPTREPL_PENALTY": "1.2 window=9",
        "GPTREPL_LOG": "off",
        "GPTREPL_TOPK": "3",
        "GPTREPL_START": "two words",
        "GPTREPL_SEED": "",
        "OTHER": "1",
    }
    settings, _ = begin("", environ)
    assert settings.value("repetition_penalty") == "1.2 window=9"
    assert (settings.log, settings.start, settings.seed) == (False, "two words", 1337)
    assert settings.value("top_k") == "3"


def test_the_lines_to_run_first_come_in_order():
    Path("profiles").mkdir()
    Path("profiles/mine.yaml").write_text("commands: [c]")
    _, lines = begin("commands: [':echo a', b]\nprofile: mine")
    assert [text for text, _ in lines] == [":echo a", "b", "c"]
    assert [where.rpartition("/")[2] for _, where in lines] == ["config.yaml:1"] * 2 + [
        "mine.yaml:1"
    ]
    _, lines = begin("commands: [a]", {"GPTREPL_COMMANDS": "x\ny"})
    assert [tuple(line) for line in lines] == [("x", "GPTREPL_COMMANDS"), ("y", "GPTREPL_COMMANDS")]


def test_the_first_line_comes_after_them():
    session = Session()
    session.startup = [Notice("hello"), *begin("commands: [':echo a', ':for x in 1', ':end']")[1]]
    said = [event.text for event in evaluate(session, ":echo b")]
    assert said == ["hello", "a", "b"]
    assert list(evaluate(session, "")) == []


def test_what_they_name_is_relative_to_the_file_that_says_it(path, monkeypatch):
    home = path.parent
    monkeypatch.setattr(profiles, "user_folder", lambda: home / "profiles")
    for folder in (home / "profiles", Path("profiles"), Path("scripts")):
        folder.mkdir()
    (home / "a.txt").write_text(":echo of the configuration\n:source profiles/b.txt\n")
    (home / "profiles/b.txt").write_text(":echo of the user's profiles {x}")
    (home / "profiles/base.yaml").write_text("commands: [':source b.txt']")
    Path("profiles/b.txt").write_text(":echo of the profiles here")
    Path("profiles/mine.yaml").write_text("extends: base\ncommands: [':source b.txt']")
    Path("b.txt").write_text(":echo of the folder")
    Path("scripts/b.txt").write_text(":echo of the script")
    Path("scripts/s.txt").write_text(":source b.txt\n")
    text = "profile: mine\ncommands: [':for x in 1 2', ':source a.txt', ':end']"
    expected = [
        *("of the configuration", "of the user's profiles 1"),
        *("of the configuration", "of the user's profiles 2"),
    ]
    in_profiles = ["of the user's profiles {x}", "of the profiles here"]
    session = Session()
    session.startup = list(begin(text)[1])
    said = [event.text for event in evaluate(session, ":source b.txt")]
    assert said == [*expected, *in_profiles, "of the folder"]
    said = [event.text for event in evaluate(session, ":profile mine") if event.text[:2] == "of"]
    assert said == in_profiles
    session.startup = list(begin(text, {"GPTREPL_COMMANDS": ":source b.txt"})[1])
    out, err = io.StringIO(), io.StringIO()
    script = Path("scripts/s.txt")
    lines = script.read_text().splitlines()
    assert Script(session, out, err).run(lines, "s.txt", path=script) == 0
    assert err.getvalue().splitlines() == ["of the folder", *in_profiles, "of the script"]


def test_a_line_of_theirs_that_names_no_file_is_said_with_its_place():
    session = Session()
    session.startup = list(begin("commands: [':source gone.txt']")[1])
    with pytest.raises(GptreplError) as error:
        list(evaluate(session, ""))
    gone = configuration.path().with_name("gone.txt")
    assert str(error.value) == f"cannot read the script {gone}: No such file or directory"
    assert error.value.where == f"{configuration.path()}:1"
    session.startup = list(begin("commands: [':for x in 1', ':echo a']")[1])
    with pytest.raises(GptreplError, match=":for has no :end"):
        list(evaluate(session, ""))
    assert not session.scope.is_open


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("temp: hot", {}, "config.yaml:1: temperature must be a number"),
        ("seed: 1\ntop_kk: 1", {}, "config.yaml:2: unknown key 'top_kk' (did you mean top_k?)"),
        ("profil: x", {}, "config.yaml:1: unknown key 'profil' (did you mean profile?)"),
        ("profile: {a: b}", {}, "config.yaml:1: profile: it is the name of a profile"),
        ("commands: {a: b}", {}, "config.yaml:1: commands: it is a list of lines"),
        ("- a", {}, "config.yaml:1: a configuration is a list of"),
        ("a: [", {}, "config.yaml:1: "),
        ("", {"GPTREPL_TEMPERATURE": "hot"}, "GPTREPL_TEMPERATURE: temperature must be a number"),
        ("profile: nobody", {}, "no profile named 'nobody'"),
    ],
)
def test_a_fault_is_one_line(text, environ, message):
    with pytest.raises(GptreplError) as refused:
        begin(text, environ)
    assert str(refused.value).rpartition("config/")[2].startswith(message)
    assert "\n" not in str(refused.value)


def test_a_variable_that_sets_nothing_is_a_warning():
    found = configuration.read({"GPTREPL_TEMPRATURE": "1"})
    assert found.warnings == (
        "GPTREPL_TEMPRATURE sets nothing (did you mean GPTREPL_TEMPERATURE?)",
    )


# --- the real command ---------------------------------------------------------------------------


def test_the_command_reads_them(tmp_path):
    home = tmp_path / "home"
    (home / "gptrepl/profiles").mkdir(parents=True)
    (home / "gptrepl/config.yaml").write_text("profile: mine\nlog: off\ncommands: [':echo first']")
    (home / "gptrepl/profiles/mine.yaml").write_text("top_k: 7\ncommands: [':echo second']")

    def run(**environ):
        return subprocess.run(
            [sys.executable, "-m", "gptrepl", "-c", ":show top_k temperature log"],
            env={"PATH": "", "XDG_CONFIG_HOME": str(home), **environ},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )

    done = run(GPTREPL_TEMPERATURE="0.25", GPTREPL_QQQQQQQQ="1")
    assert (done.returncode, done.stdout) == (0, "")
    assert [" ".join(line.split()) for line in done.stderr.splitlines()] == [
        "GPTREPL_QQQQQQQQ sets nothing",
        "first",
        "second",
        "setting value from",
        "top_k 7 profile mine",
        "temperature 0.25 environment",
        "log off configuration",
    ]
    (home / "gptrepl/config.yaml").write_text("temp: hot")
    done = run()
    assert done.returncode == 2
    assert "config.yaml:1: temperature must be a number" in done.stderr
    assert "Traceback" not in done.stderr
