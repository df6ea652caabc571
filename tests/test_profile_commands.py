"""The command :profile: switching, listing, comparing, saving, editing, removing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from fakes import Speller, session_of
from gptrepl import profiles
from gptrepl.api import GptreplError, LoadError, Notice, SampleStarted, Table
from gptrepl.commands import evaluate
from gptrepl.report import failure


@pytest.fixture
def session():
    return session_of(Speller("!"), max_new_tokens=2)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A working folder with profiles, and a folder for the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiles, "user_folder", lambda: tmp_path / "home/profiles")
    (tmp_path / "profiles").mkdir()
    return tmp_path


def lay(**texts):
    for name, text in texts.items():
        Path(f"profiles/{name}.yaml").write_text(text)


def say(session, line):
    """The notices of a line."""
    return [event.text for event in evaluate(session, line) if isinstance(event, Notice)]


def rows(session, line):
    (found,) = [event for event in evaluate(session, line) if isinstance(event, Table)]
    return found.rows


def refused(session, line):
    before = session.settings
    with pytest.raises(GptreplError) as error:
        list(evaluate(session, line))
    assert session.settings is before or session.settings == before
    return failure(error.value)


# --- switching ----------------------------------------------------------------------------------


def test_the_commands_of_a_profile_run_after_its_changes(session):
    lay(base="temp: 0.3\ncommands: [':let x = 1']", mine="extends: base\ncommands: ['at {x}']")
    events = list(evaluate(session, ":profile mine"))
    assert [event.text for event in events if isinstance(event, Notice)][:2] == [
        "profile mine",
        "temperature 0.8 -> 0.3",
    ]
    assert [event.prompt for event in events if isinstance(event, SampleStarted)] == ["at 1"]


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("[':tmep 1']", "profiles/mine.yaml:2: commands: no command :tmep (did you mean :temp?)"),
        ("[':temp hot']", "profiles/mine.yaml:2: temperature must be a number"),
        ("[':profile mine']", "is being run already"),
        ("[':for x in 1', x]", "profiles/mine.yaml:2: :for has no :end"),
        ("[':load nowhere/']", "profiles/mine.yaml:2: nothing here can load 'nowhere/'"),
    ],
)
def test_a_command_that_fails_leaves_all_as_it_was(session, commands, message):
    lay(mine=f"temp: 0.3\ncommands: {commands}")
    assert message in refused(session, ":profile mine")
    assert session.settings.value("temperature") == "0.8"
    assert not session.scope.is_open


def test_a_model_that_does_not_load_leaves_all_as_it_was(session):
    lay(mine="temp: 0.3\nmodel: nowhere/")
    loaded = session.loaded
    with pytest.raises(LoadError):
        list(evaluate(session, ":profile mine"))
    assert session.loaded is loaded
    assert session.settings.profile == "default"


def test_the_model_stays_where_it_is_the_same(session):
    loaded = session.loaded
    list(evaluate(session, ":profile creative+greedy"))
    assert session.loaded is loaded
    assert session.settings.value("temperature") == "0"
    assert session.settings.value("top_k") == "40"


# --- looking ------------------------------------------------------------------------------------


def test_the_list_marks_the_one_in_use_and_what_is_not_saved(session):
    lay(mine="description: my own\ntemp: 0.3")
    list(evaluate(session, ":profile mine"))
    marks = {name: (mark, text) for mark, name, text in rows(session, ":profile")}
    assert marks["mine"] == ("*", "my own")
    assert marks["creative"][0] == ""
    assert say(session, ":profile") == []
    list(evaluate(session, ":temp 0.5"))
    assert say(session, ":profile") == [
        "not saved: temperature 0.3 -> 0.5 (`:profile save NAME` saves it)"
    ]


def test_show_tells_where_each_value_comes_from(session):
    lay(
        base="temp: 0.3\nmin_p: 0.1\ncommands: [x]",
        mine="extends: base\ndescription: my own\nmin_p: 0.2",
    )
    shown = rows(session, ":profile show mine")
    assert sorted(shown) == [("min_p", "0.2", "mine"), ("temperature", "0.3", "base")]
    assert say(session, ":profile show mine") == [
        "mine: my own",
        "extends base",
        "runs x  (profiles/base.yaml:3)",
    ]


def test_diff_compares_two_or_one_with_what_is_in_use(session):
    assert sorted(rows(session, ":profile diff creative precise")) == [
        ("temperature", "0.9", "0.7"),
        ("top_k", "40", "100"),
    ]
    list(evaluate(session, ":profile creative"))
    list(evaluate(session, ":temp 0.1"))
    assert ("temperature", "0.9", "0.1") in rows(session, ":profile diff creative")
    assert say(session, ":profile diff creative creative") == ["nothing is different"]


# --- saving -------------------------------------------------------------------------------------


def test_a_saved_profile_extends_the_one_in_use_and_is_in_use(session, folders):
    for line in (":profile creative", ":temp 0.5", ":profile save mine"):
        list(evaluate(session, line))
    text = (folders / "home/profiles/mine.yaml").read_text()
    assert text == "extends: creative\nmax_new_tokens: 2\ntemperature: 0.5\n"
    assert session.settings.profile == "mine"
    assert session.settings.origin("temperature") == "profile mine"
    assert say(session, ":profile") == []
    list(evaluate(session, ":reset"))
    assert session.settings.value("temperature") == "0.5"


def test_a_profile_saved_under_its_own_name_stays_what_it_was(session, folders):
    lay(base="temp: 0.3", mine="extends: base\ndescription: my own\ncommands: [':seed 4']")
    for line in (":profile mine", ":temp 0.5", ":profile save! mine"):
        list(evaluate(session, line))
    assert Path("profiles/mine.yaml").read_text() == (
        "extends: base\ndescription: my own\nmax_new_tokens: 2\nseed: 4\ntemperature: 0.5\n"
        "commands:\n- :seed 4\n"
    )


def test_one_that_ships_is_never_written_over(session, folders):
    for line in (":profile creative", ":temp 0.5", ":profile save creative"):
        list(evaluate(session, line))
    own = folders / "home/profiles/creative.yaml"
    assert "temperature: 0.5" in own.read_text()
    assert profiles.shipped().joinpath("creative.yaml").read_text().count("0.9") == 1
    list(evaluate(session, ":profile creative"))
    assert session.settings.value("temperature") == "0.5"
    assert session.settings.value("top_k") == "40"


def test_nothing_is_written_over_without_a_word(session, folders):
    list(evaluate(session, ":profile save mine"))
    path = folders / "home/profiles/mine.yaml"
    before = path.read_text()
    list(evaluate(session, ":temp 0.1"))
    assert refused(session, ":profile save mine") == (
        f"{path} is there already: `:profile save! mine` does it all the same"
    )
    asked = []
    session.confirm = lambda question: bool(asked.append(question))
    assert say(session, ":profile save mine") == ["nothing was saved"]
    assert asked == [f"write over {path}?"]
    assert path.read_text() == before
    session.confirm = lambda question: True
    assert say(session, ":profile save mine") == [f"saved {path}"]
    assert "temperature: 0.1" in path.read_text()


@pytest.mark.parametrize("name", ["save", "rm!", "a/b", "a+b", "..", ".hidden", ""])
def test_a_name_that_cannot_be_is_refused(session, name):
    assert "cannot be called" in refused(session, f':profile save "{name}"')


def test_what_cannot_be_written_is_said(session, folders):
    (folders / "home").write_text("a file, no folder")
    assert refused(session, ":profile save mine").startswith("cannot write ")


# --- editing and removing -----------------------------------------------------------------------


class Console:
    def lent(self):
        return contextlib.nullcontext()


@pytest.fixture
def editor(session, folders, monkeypatch):
    """An editor that leaves the given text."""
    session.console = Console()

    def leave(text):
        (folders / "new.txt").write_text(text)
        monkeypatch.setenv("VISUAL", f"cp {folders / 'new.txt'}")

    return leave


def test_edit_makes_a_copy_of_what_ships(session, folders, editor):
    editor("temp: 0.42\n")
    own = folders / "home/profiles/creative.yaml"
    said = f"saved {own}; `:profile creative` switches to it"
    assert say(session, ":profile edit creative") == [said]
    assert own.read_text() == "temp: 0.42\n"


def test_a_faulty_edit_is_kept_and_not_saved(session, folders, editor):
    lay(mine="temp: 0.3\n")
    editor("temp: hot\n")
    message = refused(session, ":profile edit mine")
    assert message.startswith("profiles/mine.yaml:1: temperature must be a number")
    assert message.endswith("`:profile edit mine` goes on with what you wrote")
    assert Path("profiles/mine.yaml").read_text() == "temp: 0.3\n"
    assert Path("profiles/.mine.yaml.draft").read_text() == "temp: hot\n"
    editor("temp: 0.4\n")
    assert say(session, ":profile edit mine")
    assert Path("profiles/mine.yaml").read_text() == "temp: 0.4\n"
    assert not Path("profiles/.mine.yaml.draft").exists()


def test_an_edit_without_a_change_saves_nothing(session, editor):
    lay(mine="temp: 0.3\n")
    editor("temp: 0.3\n")
    assert say(session, ":profile edit mine") == ["nothing was saved"]


def test_an_editor_needs_a_terminal(session):
    assert refused(session, ":profile edit creative") == "an editor needs a terminal"


def test_a_profile_is_removed_when_the_user_says_so(session):
    lay(mine="temp: 0.3", other="temp: 0.3")
    assert refused(session, ":profile rm mine").endswith("`:profile rm! mine` does it all the same")
    session.confirm = lambda question: "no" in question
    assert say(session, ":profile rm mine") == ["nothing was removed"]
    assert say(session, ":profile rm! mine") == ["removed profiles/mine.yaml"]
    assert not Path("profiles/mine.yaml").exists()
    assert refused(session, ":profile rm! creative").startswith("creative ships with gptrepl")
    assert refused(session, ":profile rm! mine").startswith("no profile named 'mine'")
