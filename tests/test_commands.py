"""One line in, events out."""

from __future__ import annotations

import pytest

from fakes import Speller, distribution, session_of
from gptrepl.api import GptreplError, Notice, SampleEnded, SampleStarted, Table
from gptrepl.commands import candidates, drive, evaluate, find, known


@pytest.fixture
def session():
    return session_of(Speller("!"), max_new_tokens=2)


def say(session, line):
    """The notices of a line, as one text."""
    return "\n".join(e.text for e in evaluate(session, line) if isinstance(e, Notice))


def table(session, line):
    (found,) = [event for event in evaluate(session, line) if isinstance(event, Table)]
    return found


def prompt(session, line):
    events = list(evaluate(session, line))
    return events[0].prompt if events and isinstance(events[0], SampleStarted) else None


# --- what a line is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ROMEO:", "ROMEO:"),
        ("  two spaces  ", "  two spaces  "),
        (" :temp 1", " :temp 1"),
        ("::root {", ":root {"),
        (":::", "::"),
        (":a\n:quit", ":a\n:quit"),
        ("   ", "   "),
        ("FILE:x", "FILE:x"),
    ],
)
def test_a_prompt_is_never_stripped(session, line, expected):
    assert prompt(session, line) == expected


@pytest.mark.parametrize("line", ["", ":#", ":# a comment", ":#temp 1", ":#:quit"])
def test_nothing_happens(session, line):
    before = session.settings
    assert list(evaluate(session, line)) == []
    assert session.settings is before


@pytest.mark.parametrize(
    "line",
    [":temp 0.7", ":temp=0.7", ":temp = 0.7", ":TEMP 0.7", ":temperature  0.7 ", ":Temp\t0.7"],
)
def test_a_setting_is_set_in_many_spellings(session, line):
    assert say(session, line) == "temperature 0.7"
    assert session.settings.origin("temperature") == "typed"


@pytest.mark.parametrize("line", [":topk 40", ":top-k 40", ":top_k 40", ":TopK=40", ":top_k 40.0"])
def test_dashes_and_underscores_are_the_same(session, line):
    assert say(session, line) == "top_k 40"


def test_without_a_value_it_is_shown_with_its_origin(session):
    assert say(session, ":temp") == "temperature 0.8 (default)"
    assert say(session, ":tokens") == "max_new_tokens 2 (command line)"
    assert say(session, ":start") == 'start "\\n" (default)'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (":tmep 0.7", "no command :tmep (did you mean :temp?)"),
        (":tempp", "no command :tempp (did you mean :temp?)"),
        (":xyzzy", "no command :xyzzy, see :help"),
        (":) he said", "no command :); a prompt that begins with a colon is written with two"),
        (": x", "no command :; a prompt that begins with a colon is written with two"),
        (":temp hot", "temperature must be a number, 0 or more, not 'hot'"),
        (":penalty 1 2 3", "repetition_penalty takes at most 2 values: penalty, window"),
        (":penalty 1 penalty=2", "repetition_penalty penalty is given twice"),
        (":penalty windo=2", "repetition_penalty has no 'windo' (did you mean window?)"),
        (":file", ":file needs a value: :file PATH"),
        (":file /gone.txt", "cannot read '/gone.txt': No such file or directory"),
        (":quit now", ":quit has no use for 'now': :quit"),
        (":profile nothing", "no profile named 'nothing'"),
        (":set nothing 3", "no setting named 'nothing'"),
        (":help xyzzy", "no command :xyzzy, see :help"),
    ],
)
def test_a_fault_is_one_line_and_changes_nothing(session, line, message):
    before = session.settings
    with pytest.raises(GptreplError) as refused:
        list(evaluate(session, line))
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert session.settings is before


# --- the commands of the session ----------------------------------------------------------------


def test_every_command_has_help(session):
    assert {"chain", "device", "dtype", "file", "help", "load", "models", "plugins"} <= set(known())
    for name in known():
        assert say(session, f":help {name}").startswith(f":{name}")
        assert say(session, f":help :{name}")
    listed = [row[0].split()[0] for row in table(session, ":help").rows]
    assert listed == [f":{name}" for name in known()]


def test_quit_ends_the_input(session):
    for line in (":quit", ":q", ":exit"):
        with pytest.raises(EOFError):
            list(evaluate(session, line))


def test_sample_draws_from_the_start(session):
    list(evaluate(session, ':start "a\\nb"'))
    assert prompt(session, ":sample") == "a\nb"
    list(evaluate(session, ":start  two spaces "))
    assert prompt(session, ":sample") == " two spaces "


def test_a_file_is_a_prompt_and_never_commands(session, tmp_path):
    path = tmp_path / "my prompt.txt"
    path.write_bytes(b":quit\r\n:temp 0.1\n")
    assert prompt(session, f":file {path}") == ":quit\n:temp 0.1\n"
    assert prompt(session, f':file "{path}"') == ":quit\n:temp 0.1\n"
    path.write_bytes(b"\xff")
    with pytest.raises(GptreplError, match="is not UTF-8 text"):
        list(evaluate(session, f":file {path}"))


def test_set_is_the_same_as_the_command(session):
    assert say(session, ":set temp 0.3") == "temperature 0.3"
    assert say(session, ":set temp=0.4") == "temperature 0.4"
    assert say(session, ":set temp") == "temperature 0.4 (typed)"
    assert say(session, ":set penalty 1.2 window=9") == "repetition_penalty 1.2 window=9"
    assert table(session, ":set").columns == ("setting", "value", "from")


def test_show_tells_every_value_and_its_origin(session):
    list(evaluate(session, ":profile creative"))
    list(evaluate(session, ":topp 0.9"))
    rows = {name: (value, origin) for name, value, origin in table(session, ":show").rows}
    assert rows["profile"][0] == "creative"
    assert rows["temperature"] == ("0.9", "profile creative")
    assert rows["top_p"] == ("0.9", "typed")
    assert rows["max_new_tokens"] == ("2", "command line")
    assert rows["seed"] == ("1337", "default")
    assert rows["device"] == ("auto (cpu)", "default")
    assert rows["model"] == ("fake", "default")
    assert table(session, ":show temp").rows == (("temperature", "0.9", "profile creative"),)


def test_reset_forgets_what_was_typed(session):
    for line in (":temp 0.1", ":topk 3", ":tokens 9"):
        list(evaluate(session, line))
    assert say(session, ":reset temp") == "temperature 0.1 -> 0.8"
    said = say(session, ":reset").splitlines()
    assert said == ["max_new_tokens 9 -> 2", "top_k 3 -> 200"]
    assert say(session, ":reset") == "nothing changed"


def test_a_profile_says_what_changed(session):
    said = say(session, ":profile creative").splitlines()
    assert said[0] == "profile creative"
    assert sorted(said[1:]) == ["temperature 0.8 -> 0.9", "top_k 200 -> 40"]
    marks = {name: mark for mark, name, _ in table(session, ":profile").rows}
    assert marks["creative"] == "*"
    assert marks["greedy"] == ""


def test_a_bad_profile_changes_nothing(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/bad.yaml").write_text("temp: 0.1\ntop_k: many\n")
    before = session.settings
    with pytest.raises(GptreplError, match=r"bad.yaml:2: top_k must be a whole number"):
        list(evaluate(session, ":profile bad"))
    assert session.settings is before
    listed = {name: text for _, name, text in table(session, ":profile").rows}
    assert "top_k must be" in listed["bad"]


def test_the_chain_is_shown_and_changed(session):
    def on():
        rows = table(session, ":chain").rows
        return [name for _, name, _, value in rows if value != "off"]

    assert on() == ["temperature", "top_k"]
    for order in ("top_k temperature", "top_k, temp"):
        list(evaluate(session, f":chain {order}"))
        assert on() == ["top_k", "temperature"]
        list(evaluate(session, ":chain default"))
    list(evaluate(session, ":chain top_k temperature"))
    list(evaluate(session, ":chain default"))
    assert on() == ["temperature", "top_k"]


def test_models_and_plugins_are_listed(session):
    assert ("", "shakespeare", "by name") in table(session, ":models").rows
    rows = table(session, ":plugins").rows
    assert {kind for kind, *_ in rows} == {"sampler", "tokenizer", "model", "command"}
    assert ("sampler", "top_k") in [row[:2] for row in rows]


def test_load_without_a_source_says_what_is_there(session):
    assert say(session, ":load") == "fake on cpu in float32"


# --- completion ---------------------------------------------------------------------------------


def complete(session, line):
    return [candidate.text for candidate in candidates(session, line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (":tem", ["temperature", "temp"]),
        (":profile cr", ["creative"]),
        (":profile d", ["default", "deterministic", "diff"]),
        (":profile show cr", ["creative"]),
        (":profile diff creative cr", ["creative"]),
        (":dtype bf", ["bfloat16"]),
        (":seed r", ["random"]),
        (":top_k o", ["off"]),
        (":penalty ", ["off", "window="]),
        (":penalty 1.1 w", ["window="]),
        (":set tempe", ["temperature"]),
        (":chain top_k tempe", ["temperature"]),
        (":load shake", ["shakespeare"]),
        (":help prof", ["profile"]),
        (":nothing x", []),
        ("::te", []),
        ("te", []),
        (":quit ", []),
    ],
)
def test_tab_offers_what_fits(session, line, expected, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert complete(session, line) == expected


def test_tab_offers_paths(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out big").mkdir()
    (tmp_path / "out big/prompt.txt").touch()
    (tmp_path / ".hidden").touch()
    assert complete(session, ":file o") == ["out big/"]
    assert complete(session, ":file ") == ["out big/"]
    assert complete(session, ":file out big/p") == ["prompt.txt"]
    assert complete(session, ":file .h") == [".hidden"]
    assert complete(session, ":file /gone/x") == []


def test_every_candidate_says_what_it_does(session):
    helps = {c.text: c.help for c in candidates(session, ":temp")}
    assert helps["temperature"].startswith("Flatten")
    assert all(c.help for c in candidates(session, ":"))


# --- commands of strangers ----------------------------------------------------------------------

SHOUT = '''
from typing import Literal
from gptrepl.api import Notice, command

@command("yell")
def shout(session, times: int, how: Literal["high", "low"] = "high"):
    """Shout TIMES times."""
    for _ in range(times):
        yield Notice(how)

def silent(session):
    """Say nothing."""
'''


@pytest.fixture
def shout(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    points = (
        "[gptrepl.commands]\nshout = shouting:shout\nsilent = shouting:silent\n"
        "broken = nowhere:x\nquit = shouting:shout\n"
    )
    with distribution(tmp_path, "shouting", points, shouting=SHOUT):
        yield


def test_a_strangers_command_is_a_function(session, shout):
    assert say(session, ":shout 2") == "high\nhigh"
    assert say(session, ":yell 1 low") == "low"
    assert find("shout").usage == ":shout TIMES [HOW]"
    assert complete(session, ":shout 1 l") == ["low"]
    assert say(session, ":silent") == ""
    with pytest.raises(GptreplError, match="times must be a whole number, not 'x'"):
        list(evaluate(session, ":shout x"))
    with pytest.raises(GptreplError, match="how must be high or low, not 'mid'"):
        list(evaluate(session, ":shout 1 mid"))


def test_ours_win_a_clash_and_a_broken_one_is_one_line(session, shout):
    with pytest.raises(EOFError):
        list(evaluate(session, ":quit"))
    with pytest.raises(GptreplError, match=r"command 'broken' of shouting 1.0 .* does not load"):
        list(evaluate(session, ":broken"))
    assert "broken" not in known()


# --- driving ------------------------------------------------------------------------------------


def test_an_interrupt_while_showing_is_handed_to_the_events(session):
    shown = []

    def show(event):
        shown.append(event)
        if len(shown) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(evaluate(session, "x"), show)
    assert isinstance(shown[-1], SampleEnded)
    assert shown[-1].ending == "interrupted"
