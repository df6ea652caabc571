"""Plugins that are broken in every way, really installed by pip: each is one line, none is more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import Uniform, session_of
from gptrepl import catalogue, plugins
from gptrepl.api import GptreplError, LoadError, Notice
from gptrepl.commands import evaluate, find, known
from gptrepl.session import Session
from gptrepl.settings import Settings

BROKEN = Path(__file__).parent / "broken"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that the broken distribution is installed into."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *options, str(BROKEN)], check=True)
    return target


@pytest.fixture
def broken(site, monkeypatch):
    """The broken plugins among those of this process."""
    monkeypatch.syspath_prepend(site)
    plugins.forget()
    yield site
    monkeypatch.undo()
    plugins._disabled.clear()
    plugins.forget()


def gptrepl(site, *args):
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "gptrepl", *args]
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def line(kind, name, target, said):
    return f"{kind} '{name}' of gptrepl-broken 0.3 (gptrepl_broken.{target}) {said}"


LISTED = [
    line("sampler", "raises", "raises:Fine", "does not load: RuntimeError: the table is missing"),
    line("sampler", "exits", "exits:Fine", "does not load: it exits with 3"),
    line("sampler", "prints", "prints:Fine", "prints when it is imported: 'hello from a plugin'"),
    line(
        "sampler",
        "lacks",
        "samplers:Nothing",
        "does not load: AttributeError: "
        "module 'gptrepl_broken.samplers' has no attribute 'Nothing'",
    ),
    (
        "sampler 'gone' of gptrepl-broken 0.3 (gptrepl_gone:Fine) does not load: "
        "ModuleNotFoundError: No module named 'gptrepl_gone'"
    ),
    line(
        "sampler",
        "twice",
        "samplers:Fine",
        "is not used: the sampler Twice of gptrepl-broken 0.3 is used",
    ),
    line(
        "sampler",
        "temperature",
        "samplers:Fine",
        "is not used: the sampler temperature of gptrepl 0.1.0 is used",
    ),
    line(
        "sampler",
        "not-a-word",
        "samplers:Fine",
        "is not used: 'not-a-word' is no name: letters, digits and _ make one",
    ),
    line("sampler", "seed", "samplers:Fine", "is not used: seed is a setting"),
    line("sampler", "plain", "samplers:plain", "does not load: it is no dataclass but a function"),
    line(
        "sampler", "bare", "samplers:Bare", "does not load: it is no dataclass but the class Bare"
    ),
    line(
        "sampler",
        "uncallable",
        "samplers:Uncallable",
        "does not load: it cannot be called: it has no method __call__(logits, ids)",
    ),
    line(
        "sampler",
        "needy",
        "samplers:Needy",
        "does not load: its field needy has no default that means off",
    ),
    line(
        "sampler",
        "misplaced",
        "samplers:Misplaced",
        "does not load: its stage is 'afterwards', none of penalty, temperature, truncation, "
        "selection",
    ),
    line(
        "sampler",
        "unreadable",
        "samplers:Unreadable",
        "does not load: its annotations cannot be read when it runs: "
        "name 'Fraction' is not defined",
    ),
    line(
        "tokenizer",
        "number",
        "tokenizers:NUMBER",
        "does not load: it is no function or class but an int",
    ),
    line("model", "lacking", "models:lacking", "does not load: it has no function load"),
    line(
        "model",
        "whole",
        "models:Odd",
        "does not load: it is the class Odd: name a module or an object",
    ),
    line(
        "command",
        "quit",
        "commands:speaks",
        "is not used: the command quit of gptrepl 0.1.0 is used",
    ),
    line(
        "command",
        "temp",
        "commands:speaks",
        "is not used: :temp is the setting or sampler temperature",
    ),
    line(
        "command",
        "lonely",
        "commands:lonely",
        "does not load: it takes no session as its first argument",
    ),
    line(
        "command",
        "keyword",
        "commands:keyword",
        "does not load: its argument word cannot be typed: only places count",
    ),
    line(
        "command",
        "unreadable_too",
        "commands:unreadable",
        "does not load: its annotations cannot be read when it runs: "
        "name 'Fraction' is not defined",
    ),
]


def test_each_is_one_line_and_none_stops_the_rest(site):
    done = gptrepl(site, "plugins")
    assert done.returncode == 0
    faults = done.stderr.splitlines()
    for expected in LISTED:
        assert expected in faults
    assert [fault for fault in faults if "gptrepl-broken" not in fault] == []
    rows = {tuple(row.split()[:2]): row for row in done.stdout.splitlines()}
    assert "gptrepl-broken  0.3      ready" in rows["sampler", "fine"]
    assert "Change nothing, and break nothing." in rows["sampler", "fine"]
    assert " prints " in rows["sampler", "prints"]
    assert " ready " in rows["model", "nanogpt"]
    assert "hello" not in done.stdout
    assert "Turn the terminal ^[[31mred." in rows["sampler", "crash"]


def test_the_shell_works_beside_them_and_prints_nothing_of_theirs(site):
    lines = (":help", ":plugins", ":chain", ":fine 1", ":prints 1", ":tokens 5", ":profile greedy")
    flags = [flag for text in (*lines, "ROMEO") for flag in ("-c", text)]
    done = gptrepl(site, "--temperature", "0.5", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ROMEO")
    assert done.stdout.count("\n") == done.stdout.rstrip("\n").count("\n") + 1
    assert "hello" not in done.stdout
    for expected in LISTED:
        assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_of_the_command_line_lists_them(site):
    done = gptrepl(site, "--help")
    assert done.returncode == 0
    assert "--fine" in done.stdout
    assert "Change nothing, and break nothing." in " ".join(done.stdout.split())
    assert gptrepl(site, "sample", "--help").returncode == 0


def test_one_can_be_left_out(site):
    done = gptrepl(site, "plugins", "--disable", "fine", "--disable=sampler:twice")
    rows = {tuple(row.split()[:2]): row.split() for row in done.stdout.splitlines()}
    assert rows["sampler", "fine"][4] == "disabled"
    assert rows["sampler", "Twice"][4] == "disabled"
    assert rows["sampler", "prints"][4] == "prints"
    done = gptrepl(site, "--disable", "fine", "-c", ":fine 1")
    assert (done.returncode, done.stderr) == (1, "-c:1: no command :fine (did you mean :file?)\n")
    done = gptrepl(site, "plugins", "--disable")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no plugin named '' to disable" in done.stderr
    done = gptrepl(site, "--disable", "fien")
    assert done.returncode == 2
    assert "no plugin named 'fien' to disable (did you mean fine?)" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("crash", "Crash) fails: ZeroDivisionError: by zero"),
        ("leave", "Leave) fails: it exits with bye"),
        ("shape", "Shape) fails: it returned float32 of shape (3,) where float32 of shape (256,)"),
        ("precision", "Precision) fails: it returned float64 of shape (256,) where float32"),
        ("nothing", "ReturnsNothing) fails: it returned NoneType where float32 of shape (256,)"),
        ("nan", "Nan) turned the logits into nan: set it off"),
        ("later", "Later) turned the logits into nan: set it off"),
        ("empty", "Empty) left no token to draw from: set it less strictly, or off"),
        ("unbegun", "Unbegun) fails: TypeError: no generator"),
    ],
)
def test_one_that_fails_while_sampling_is_named(broken, name, said):
    session = session_of(Uniform(), max_new_tokens=5)
    session.set(**{name: 1})
    with pytest.raises(GptreplError) as failed:
        session.generate("x")
    start = f"sampler '{name}' of gptrepl-broken 0.3 (gptrepl_broken.samplers:"
    assert str(failed.value).startswith(start + said)
    session.set(**{name: "off"})
    assert len(session.generate("x")) == 6
    (fault,) = [text for text in catalogue.faults() if f"'{name}'" in text]
    assert "fails: it" in fault or "fails: " in fault


def test_what_was_said_before_a_failure_is_kept(broken):
    session = session_of(Uniform(), max_new_tokens=5, later=1)
    events = []
    with pytest.raises(GptreplError):
        events.extend(session.stream("x"))
    assert (events[-1].ending, events[-1].tokens) == ("failed", 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"refuses": 3}, "Refuses) fails: ValueError: 3 is no good"),
        ({"unbound": 1}, "Unbound) fails: KeyError: 'no such text'"),
    ],
)
def test_one_that_cannot_be_set_changes_nothing(broken, change, said):
    session = session_of(Uniform(), max_new_tokens=1)
    before = session.settings
    with pytest.raises(GptreplError) as failed:
        session.set(**change)
    assert str(failed.value).endswith(said)
    assert session.settings is before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer": "absent:x"}, "Absent) fails: FileNotFoundError: [Errno 2]"),
        ({"tokenizer": "half"}, "Half) fails: it gives a Half without token_bytes"),
        ({"tokenizer": "number"}, "NUMBER) does not load: it is no function or class but an int"),
        ({"model": "odd:thing"}, "odd) fails: it gives an object without vocab_size"),
        ({"model": "odd:crash"}, "odd) fails: ZeroDivisionError: by zero"),
        ({"model": "odd:exit"}, "odd) fails: it exits with bye"),
    ],
)
def test_a_tokenizer_or_loader_that_fails_is_named(broken, changes, said):
    session = Session(Settings().but(**changes))
    with pytest.raises(LoadError) as failed:
        list(session.ready())
    assert "of gptrepl-broken 0.3 (gptrepl_broken." in str(failed.value)
    assert said in str(failed.value)


@pytest.mark.parametrize(
    ("source", "said", "tokens"),
    [("odd:late", "fails: TypeError: ", 2), ("odd:mute", "fails: KeyError: ", 1)],
)
def test_a_model_that_fails_while_sampling_is_named(broken, source, said, tokens):
    session = Session(Settings().but(model=source, max_new_tokens=5))
    events = []
    with pytest.raises(GptreplError) as failed:
        events.extend(session.stream("x"))
    assert (events[-1].ending, events[-1].tokens) == ("failed", tokens)
    start = "model 'odd' of gptrepl-broken 0.3 (gptrepl_broken.models:odd) "
    assert str(failed.value).startswith(start + said)


def test_a_loader_that_fails_does_not_stand_before_the_others(broken):
    session = Session(Settings().but(model="odd:nothing"))
    with pytest.raises(LoadError):
        list(session.ready())
    assert "shakespeare" in [row[1] for row in next(evaluate(session, ":models")).rows]


def run(text):
    session = session_of(Uniform(), max_new_tokens=4)
    return list(evaluate(session, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (":speaks", "speaks) fails: it yields 'word', which is no event"),
        (":divides", "divides) fails: ZeroDivisionError: division by zero"),
        (":ends", "ends) fails: EOFError: the file ends here"),
        (":lonely", "lonely) does not load: it takes no session as its first argument"),
        (":number", "NUMBER) does not load: it is no function or class but an int"),
    ],
)
def test_a_command_that_fails_is_named_and_the_shell_goes_on(broken, text, said):
    with pytest.raises(GptreplError) as failed:
        run(text)
    assert str(failed.value) == (
        f"command '{text[1:]}' of gptrepl-broken 0.3 (gptrepl_broken.commands:{said}"
    )


def test_ours_keep_their_names(broken):
    with pytest.raises(EOFError):
        run(":quit")
    assert run(":temp 0.5") == [Notice("temperature 0.5")]
    assert run(":seed 3") == [Notice("seed 3")]
    assert find("Twice").name == "Twice"
    assert {"fine", "prints", "divides", "streams"} <= set(known())
    assert not {"raises", "exits", "lacks", "lonely"} & set(known())


def test_an_interrupt_reaches_the_sample_of_a_strangers_command(broken):
    session = session_of(Uniform(), max_new_tokens=50)
    events = evaluate(session, ":streams x")
    next(events), next(events)
    ended = events.throw(KeyboardInterrupt)
    assert (ended.ending, ended.tokens) == ("interrupted", 1)
    with pytest.raises(KeyboardInterrupt):
        next(events)


def test_a_plugin_is_imported_once_even_if_it_fails(broken, monkeypatch):
    loads = []
    real = plugins.EntryPoint.load
    monkeypatch.setattr(
        plugins.EntryPoint, "load", lambda entry: loads.append(entry.name) or real(entry)
    )
    for _ in range(3):
        with pytest.raises(GptreplError):
            plugins.load("samplers", "raises")
    assert loads == ["raises"]
