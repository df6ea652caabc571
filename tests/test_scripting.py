"""Scripts that test: variables, loops, expectations, other scripts, and what an error does."""

from __future__ import annotations

import io
import math

import pytest

from fakes import Interrupted, Speller, Uniform, session_of
from gptrepl.api import Failure, GptreplError, LoadError, Notice, SampleStarted
from gptrepl.commands import evaluate
from gptrepl.script import Script
from gptrepl.scripting import Scope, read


@pytest.fixture
def session():
    return session_of(Speller("!"), max_new_tokens=2)


def run(text, session, name="s.txt", **options):
    """Run a script: status, the lines of stdout without separators, the lines of stderr."""
    out, err = io.StringIO(), io.StringIO()
    script = Script(session, out, err)
    status = script.run(read(io.BytesIO(text.encode())), name, **options)
    texts = [line for line in out.getvalue().splitlines() if not line.startswith("---")]
    return status, texts, err.getvalue().splitlines()


def prompts(session, *lines):
    events = [event for line in lines for event in evaluate(session, line)]
    return [event.prompt for event in events if isinstance(event, SampleStarted)]


def say(session, line):
    return "\n".join(event.text for event in evaluate(session, line) if isinstance(event, Notice))


# --- variables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [":let x = 0.7", ":let x=0.7", ":let x 0.7", ':let x = "0.7"'])
def test_a_variable_is_replaced_in_commands_and_prompts(session, line):
    assert say(session, line) == "x = 0.7"
    assert say(session, ":temp {x}") == "temperature 0.7"
    assert prompts(session, "a {x} b") == ["a 0.7 b"]
    assert say(session, ":let x") == "x = 0.7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {x}, "b": [{}]}', '{"a": 1, "b": [{}]}'),
        ("{y} {x}{x}", "{y} 11"),
        ("{{x}} {{y}}", "{x} {{y}}"),
        ("{ x } {x y} {0}", "{ x } {x y} {0}"),
        ("{{{x}}}", "{{x}}"),
    ],
)
def test_what_is_no_variable_passes_as_it_is(session, text, expected):
    assert prompts(session, text) == [text]
    list(evaluate(session, ":let x = 1"))
    assert prompts(session, text) == [expected]


def test_a_value_is_not_looked_into(session):
    for line in (":let x = {y}", ":let y = 1", ':let z = " a\\nb"'):
        list(evaluate(session, line))
    assert prompts(session, "{x}", "{z}") == ["{y}", " a\nb"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (":let 1 = 2", "there is no variable '1 = 2'"),
        (":let x", "there is no variable 'x': one is made by `:let x = 0.7`"),
        (":for", "a loop begins with `:for NAME in VALUE ...`, not ':for'"),
        (":for x 1 2", "a loop begins with `:for NAME in VALUE ...`, not ':for x 1 2'"),
        (":for x in", "a loop begins with"),
        (":for x in 1..9999999", "'1..9999999' is more than 1000000 values"),
        (":on-error perhaps", "what must be stop or continue, not 'perhaps'"),
        (":source gone.txt", "cannot read the script gone.txt: No such file or directory"),
    ],
)
def test_a_fault_is_one_line_and_nothing_is_left_open(session, line, message):
    with pytest.raises(GptreplError) as refused:
        list(evaluate(session, line))
    assert str(refused.value).startswith(message)
    assert not session.scope.is_open


# --- loops --------------------------------------------------------------------------------------


def test_a_loop_runs_its_lines_for_each_value(session):
    lines = (":for t in 0.2 0.5 1", ":temp {t}", "at {t}", ":end")
    assert prompts(session, *lines) == ["at 0.2", "at 0.5", "at 1"]
    assert session.settings.value("temperature") == "off"
    assert session.scope.variables == {}


def test_loops_stand_within_loops_and_see_what_is_set_within(session):
    lines = [":let n = 0", ":for a in x y", ":for b in {a}1 {a}2", "{b}{n}", ":let n = {b}"]
    assert prompts(session, *lines, ":end", ":end") == ["x10", "x2x1", "y1x2", "y2y1"]


def test_a_range_is_its_numbers_and_quotes_keep_spaces(session):
    line = ':for v in 1..3 2..1 "a b" "1..2"'
    values = ["1", "2", "3", "2", "1", "a b", "1..2"]
    assert prompts(session, line, "{v}", ":end") == values


def test_a_block_of_text_within_a_loop_is_a_prompt(session):
    lines = (":for v in 1 2", ":multi", ":for {v}", ":quit", ":end", ":end")
    assert prompts(session, *lines) == [":for 1\n:quit", ":for 2\n:quit"]


def test_a_variable_is_what_it_was_after_the_loop(session):
    lines = (":let v = before", ":for v in 1", "{v}", ":end", "{v}")
    assert prompts(session, *lines) == ["1", "before"]


def test_a_loop_that_is_interrupted_leaves_no_trace():
    session = session_of(Interrupted("!", 1, KeyboardInterrupt), max_new_tokens=2)
    for line in (":for v in 1 2", "{v}"):
        list(evaluate(session, line))
    with pytest.raises(KeyboardInterrupt):
        list(evaluate(session, ":end"))
    assert not session.scope.is_open
    assert session.scope.variables == {}


def test_an_end_without_a_beginning_is_said(session):
    with pytest.raises(GptreplError, match="there is no :multi"):
        list(evaluate(session, ":end"))


def test_lines_that_end_within_a_loop_are_said_and_not_run(session):
    status, out, err = run("x\n:for v in 1\n{v}\n", session)
    assert (status, out, err[-1]) == (1, ["x!!"], "s.txt:2: :for has no :end")
    status, _, err = run(":multi\nx\n", session)
    assert (status, err[-1]) == (1, ":multi has no :end")
    assert session.block is None


# --- errors -------------------------------------------------------------------------------------


def test_an_error_ends_a_loop_and_names_its_line(session):
    status, out, err = run(":for v in 1 2\n{v}\n:nope\n:end\nx\n", session)
    assert (status, out, err[-1]) == (1, ["1!!"], "s.txt:3: no command :nope, see :help")


def test_continue_goes_on_and_the_first_error_is_the_status(session):
    text = ":on-error continue\n:for v in 1 2\n:temp {v}x\n{v}\n:end\n:load nowhere/\nx\n"
    status, out, err = run(text, session)
    assert (status, out) == (1, ["1!!", "2!!", "x!!"])
    assert [line.split(":")[1] for line in err if line.startswith("s.txt:")] == ["3", "3", "6"]


def test_stop_stops_again(session):
    status, out, _ = run(":on-error continue\n:nope\n:on-error stop\n:nope\nx\n", session)
    assert (status, out) == (1, [])


def test_a_failure_that_is_passed_over_is_an_event(session):
    session.scope.keeps_going = True
    (failure,) = evaluate(session, ":temp hot", "a.txt:7")
    assert isinstance(failure, Failure)
    assert failure.text.startswith("a.txt:7: temperature must be a number")
    assert (failure.warning, failure.status) == (True, 1)
    *_, failure = evaluate(session, ":load nowhere/")
    assert failure.status == LoadError.status == 3


@pytest.mark.parametrize(
    ("text", "status"), [("x", 0), (":nope", 1), (":load nowhere/", 3), ("x\n:expect /y/", 4)]
)
def test_the_exit_status_tells_what_went_wrong(session, text, status):
    assert run(text, session)[0] == status


# --- expectations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "/x!/",
        "/^A.X!+$/is",
        "/a.x/s",
        "text ~ /^x/m",
        "text !~ /y/",
        'text == "a\\nx!!"',
        "text != x",
        'new == "!!"',
        "new == !!",
        "tokens 2",
        "tokens == 2",
        "tokens >= 2",
        "logprob > -40",
        "logprob <= 0",
        "seed 1337",
        "ending == length",
    ],
)
def test_what_comes_true_is_said(session, condition):
    list(evaluate(session, ':prompt "a\\nx"'))
    assert say(session, f":expect {condition}").startswith("as expected: ")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("/y/", "expected text ~ /y/, not 'x!!'"),
        ('text == "x!"', "expected text == \"x!\", not 'x!!'"),
        ("tokens 20", "expected tokens == 20, not 2"),
        ("logprob > 1", "expected logprob > 1, not "),
        ("ending stop", "expected ending == stop, not 'length'"),
        ("model abc", "expected the model abc, but the hash of its weights is unknown"),
    ],
)
def test_what_does_not_come_true_ends_with_status_4(session, condition, message):
    status, out, err = run(f"x\n:expect {condition}\nx\n", session)
    assert (status, out) == (4, ["x!!"])
    assert err[-1].startswith(f"s.txt:2: {message}")


def test_every_sample_is_held_to_it(session):
    session.set(num_samples=2)
    list(evaluate(session, "x"))
    assert say(session, ":expect seed >= 1337")
    with pytest.raises(GptreplError, match="sample 2: expected seed == 1337, not 1338"):
        list(evaluate(session, ":expect seed 1337"))


def test_the_log_probability_is_the_sum(session):
    session = session_of(Uniform(), max_new_tokens=3)
    list(evaluate(session, "x"))
    expected = -3 * math.log(256)
    assert say(session, f":expect logprob > {expected - 1e-4}")
    assert say(session, f":expect logprob < {expected + 1e-4}")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("tokens 2", "nothing was sampled yet"),
        ("", ":expect needs a value"),
        ("tokns 2", "'tokns 2' is no expectation (did you mean tokens?): one is /regex/"),
        ("42", "'42' is no expectation: one is"),
        ("tokens", "nothing is expected of tokens"),
        ("tokens two", "tokens is a number, not 'two'"),
        ("tokens ~ /2/", "tokens is a number: it is compared by"),
        ("tokens =< 2", "tokens is compared by ==, !=, <, <=, >, >=, not by '=<'"),
        ("text < 2", "text is compared by ==, !=, ~, !~, not by '<'"),
        ("/(/", "/(/ is no regular expression: "),
        ("/x", "a regular expression stands between slashes, not '/x'"),
    ],
)
def test_what_is_no_expectation_is_an_error_of_the_script(session, condition, message):
    with pytest.raises(GptreplError) as refused:
        list(evaluate(session, f":expect {condition}"))
    assert str(refused.value).startswith(message)
    assert refused.value.status == 1


# --- other scripts ------------------------------------------------------------------------------


def test_a_script_is_relative_to_the_one_that_names_it(session, tmp_path, monkeypatch):
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/a.txt").write_bytes(b"\xef\xbb\xbf:let v = 1\r\n:source er/b.txt\r\na{v}")
    (tmp_path / "deep/er/b.txt").write_text("b{v}\n:source ../c.txt\n:let v = 2")
    (tmp_path / "deep/c.txt").write_text("c{v}")
    monkeypatch.chdir(tmp_path)
    assert run(":source deep/a.txt\n", session)[1] == ["b1!!", "c1!!", "a2!!"]
    text = (tmp_path / "deep/a.txt").read_text(encoding="utf-8-sig")
    assert run(text, session, path=tmp_path / "deep/a.txt")[1] == ["b1!!", "c1!!", "a2!!"]


def test_an_error_names_the_script_it_is_in(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x\n:source b.txt\nx\n")
    (tmp_path / "b.txt").write_text("y\n\n:nope\ny\n")
    status, out, err = run(":source a.txt\nz\n", session)
    assert (status, out) == (1, ["x!!", "y!!"])
    assert err[-1] == "b.txt:3: no command :nope, see :help"
    status, out, err = run(":source a.txt\nz\n", session, keep_going=True)
    assert (status, out) == (1, ["x!!", "y!!", "y!!", "x!!", "z!!"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":source a.txt", "a.txt:1: a.txt is being run already: a script cannot run itself"),
        (":source ./../x/a.txt", "a.txt:1: ../x/a.txt is being run already"),
        ("x\n:for v in 1\nx", "a.txt:2: :for has no :end"),
        (":multi\nx", "s.txt:1: :multi has no :end"),
        ("x\n\xff", "a.txt:2: byte 1 of the line is no UTF-8"),
    ],
)
def test_what_a_script_must_not_do_is_said(session, tmp_path, monkeypatch, text, message):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    (tmp_path / "x/a.txt").write_bytes(text.encode("latin-1"))
    status, _, err = run(":source a.txt\nx\n", session)
    assert status == 1
    assert err[-1].startswith(message)
    assert not session.scope.is_open
    assert session.block is None


def test_quit_in_a_script_ends_all_of_them(session, tmp_path):
    (tmp_path / "a.txt").write_text("x\n:quit\nx\n")
    assert run(f":source {tmp_path}/a.txt\nz\n", session)[:2] == (0, ["x!!"])


# --- small ones ---------------------------------------------------------------------------------


def test_echo_says_a_text(session):
    list(evaluate(session, ":let x = 1"))
    assert say(session, ":echo x is {x}") == "x is 1"
    assert say(session, ":echo") == ""


def test_defaults_leave_only_the_model():
    session = session_of(Speller("!"), device="cpu", max_new_tokens=2)
    for line in (":profile creative", ":temp 0.1"):
        list(evaluate(session, line))
    list(evaluate(session, ":defaults"))
    assert session.settings.value("temperature") == "0.8"
    assert session.settings.max_new_tokens == 200
    assert session.settings.device == "cpu"
    assert session.settings.profile == "default"
    assert session.settings.origin("dtype") == "default"


def test_defaults_leave_the_settings_of_the_model_where_they_came_from():
    session = session_of(Speller("!"))
    of_profile = {"dtype": "float32", "device": "cpu", "temperature": 0.1}
    settings = session.settings.under("p", of_profile).but("command line", device="auto")
    list(session.apply(settings.but("typed", compile=False)))
    list(evaluate(session, ":defaults"))
    found = {name: session.settings.origin(name) for name in ("dtype", "device", "compile")}
    assert found == {"dtype": "typed", "device": "command line", "compile": "typed"}
    assert (session.settings.dtype, session.settings.device) == ("float32", "auto")


def test_ids_are_a_prompt(session):
    assert prompts(session, ":ids 120 33") == ["x!"]
    assert prompts(session, ':ids 120 as "another text"') == ["another text"]
    assert list(session.samples[0].ids) == [120]
    for line in (":ids 256", ":ids -1", ":ids x", ":ids 1.5"):
        with pytest.raises(GptreplError, match="an id is a whole number from 0 to 255, not"):
            list(evaluate(session, line))


def test_nothing_is_replaced_while_there_are_no_variables():
    text = "{x} {{x}}"
    assert Scope().filled(text) is text
