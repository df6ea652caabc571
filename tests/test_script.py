"""The piped front end: stdout is samples, stderr is the rest."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import Interrupted, Speller, session_of
from gptrepl.api import GptreplError, Table
from gptrepl.script import Script, plain
from gptrepl.scripting import read

SESSIONS = sorted((Path(__file__).parent / "sessions").glob("*.txt"))


def run(text, model=None, *, keep_going=False, **changes):
    """Run a script's bytes in a session with a fake model: status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    session = session_of(model or Speller("!"), max_new_tokens=2, **changes)
    script = Script(session, out, err)
    status = script.run(read(io.BytesIO(text)), "s.txt", keep_going=keep_going)
    return status, out.getvalue(), err.getvalue()


def test_stdout_is_samples_and_stderr_the_rest():
    status, out, err = run(b":temp 0.5\nx\n")
    assert status == 0
    assert out == "x!!\n---------------\n"
    assert err.splitlines()[0] == "temperature 0.5"
    assert err.splitlines()[1].startswith("2 tokens, ")
    assert err.splitlines()[1].endswith(" tokens/s, seed 1337, context 3")


@pytest.mark.parametrize(
    "text",
    [
        b":temp 0.5\nx\n",
        b":temp 0.5\r\nx\r\n",
        b"\xef\xbb\xbf:temp 0.5\nx",
        b"\n:temp 0.5\n\n\nx\n\n",
        b":# a comment\n:temp 0.5\nx\n:quit\nnever\n",
    ],
)
def test_the_ends_of_lines_make_no_difference(text):
    assert run(text)[:2] == (0, "x!!\n---------------\n")


def test_the_first_error_stops_with_file_and_line():
    status, out, err = run(b"x\n:nope\nx\n")
    assert (status, out) == (1, "x!!\n---------------\n")
    assert err.splitlines()[-1] == "s.txt:2: no command :nope, see :help"


def test_keep_going_goes_on_and_still_fails():
    status, out, err = run(b":nope\nx\n:temp hot\n", keep_going=True)
    assert (status, out) == (1, "x!!\n---------------\n")
    assert "s.txt:1: no command :nope" in err
    assert "s.txt:3: temperature must be" in err


def test_an_error_in_mid_stream_ends_the_sample_first():
    status, out, err = run(b"x\n", Interrupted("!", 1, GptreplError))
    assert (status, out) == (1, "x!\n---------------\n")
    assert "failed, 1 tokens" in err


def test_a_fault_of_ours_is_one_line_too():
    status, _, err = run(b"x\n", Interrupted("!", 1, ZeroDivisionError))
    assert status == 1
    assert err.splitlines()[-1] == "s.txt:1: internal error: ZeroDivisionError:"


def test_bytes_that_are_no_text_are_refused_with_their_line():
    status, out, err = run(b"x\na\xff\nx\n")
    assert (status, out) == (1, "x!!\n---------------\n")
    assert err.splitlines()[-1] == "s.txt:2: byte 2 of the line is no UTF-8"


def test_keep_going_goes_on_behind_bytes_that_are_no_text():
    status, out, err = run(b"x\na\xff\nx\n:nope\n", keep_going=True)
    assert (status, out) == (1, "x!!\n---------------\n" * 2)
    assert "s.txt:2: byte 2 of the line is no UTF-8" in err
    assert "s.txt:4: no command :nope" in err


def test_what_the_model_says_is_written_as_it_is():
    assert run(b"x\n", Speller("\x1b["))[1] == "x\x1b[\n---------------\n"


def test_a_table_is_columns():
    table = Table(("a", "bb"), (("1", "2"), ("333", "")))
    assert plain(table) == "a    bb\n1    2\n333"


# --- the real command ---------------------------------------------------------------------------


def gptrepl(*args, **options):
    command = [sys.executable, "-m", "gptrepl", *args]
    options = {"capture_output": True, "timeout": 120, **options}
    return subprocess.run(command, **options)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_session_gives_its_transcript(path, tmp_path):
    with path.open("rb") as stream:
        done = gptrepl(stdin=stream, cwd=path.parent)
    assert done.stdout.decode() == path.with_suffix(".out").read_text()
    assert b"\x1b" not in done.stdout + done.stderr
    expected = path.with_suffix(".err")
    if expected.exists():
        assert expected.read_text() in done.stderr.decode()
        assert done.returncode == 1
    else:
        assert done.returncode == 0, done.stderr


def test_a_pipe_a_file_a_script_and_lines_do_the_same(tmp_path):
    text = ":tokens 10\nROMEO:"
    path = tmp_path / "s.txt"
    path.write_text(text)
    with path.open("rb") as stream:
        redirected = gptrepl(stdin=stream).stdout
    lines = [flag for line in text.split("\n") for flag in ("-c", line)]
    assert redirected == gptrepl(input=text.encode()).stdout
    assert redirected == gptrepl("--script", str(path), stdin=subprocess.DEVNULL).stdout
    assert redirected == gptrepl(*lines, stdin=subprocess.DEVNULL).stdout
    assert redirected.startswith(b"ROMEO:")


def test_no_input_is_no_error():
    assert gptrepl(stdin=subprocess.DEVNULL).returncode == 0
    closed = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m gptrepl <&-"], capture_output=True, timeout=60
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["nowhere/"], 3, "gptrepl: nothing here can load 'nowhere/'"),
        (["--temperature", "hot"], 2, "Error: temperature must be a number"),
        (["--profile", "nothing"], 2, "Error: no profile named 'nothing'"),
        (["--script", "gone.txt"], 2, "Error: cannot read the script 'gone.txt'"),
        (["--script", "a.txt", "-c", ":temp"], 2, "Error: lines come from --script or from -c"),
        (["--nonsense"], 2, "Error: No such option"),
        (["-c", ":load nowhere/"], 3, "-c:1: nothing here can load 'nowhere/'"),
        (["-c", ":temp hot"], 1, "-c:1: temperature must be a number"),
        (["-c", ":temp 1", "-c", ":echo \udcff"], 1, "-c:2: byte 7 of the line is no UTF-8"),
        (["--stop", "\udcff"], 2, "Error: stop must be text, not '\\udcff'"),
        (["--temperature", "\udcff"], 2, "Error: temperature must be a number"),
    ],
)
def test_the_exit_status_tells_what_went_wrong(args, status, message):
    done = gptrepl(*args, stdin=subprocess.DEVNULL)
    assert done.returncode == status
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_options_are_settings_and_samplers():
    options = ("--temperature=0.3", "--top-p", "0.9", "--repetition_penalty", "1.2 64")
    shown = gptrepl(*options, "--num_samples=2", "-c", ":show").stderr.decode()
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert rows["temperature"] == ["0.3", "command", "line"]
    assert rows["top_p"] == ["0.9", "command", "line"]
    assert rows["repetition_penalty"] == ["1.2", "window=64", "command", "line"]
    assert rows["num_samples"] == ["2", "command", "line"]
    assert rows["top_k"] == ["200", "default"]


def test_a_closed_pipe_ends_quietly():
    shell = f"{sys.executable} -m gptrepl -c ':tokens 3000' -c 'ROMEO:' | head -c 5"
    done = subprocess.run(["bash", "-c", f"{shell}; exit ${{PIPESTATUS[0]}}"], capture_output=True)
    assert done.stdout == b"ROMEO"
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "words", ["--version", "--help", "plugins", "-c ':tokens 2' -c O", "sample --no-such"]
)
def test_what_cannot_be_written_is_one_line(words):
    reasons = {">/dev/full": "No space left on device", ">&-": "Bad file descriptor"}
    for place, reason in reasons.items():
        shell = f"exec {sys.executable} -m gptrepl {words} {place}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
        usage = "no-such" in words
        assert done.returncode == (2 if usage else 1)
        assert usage or done.stderr.endswith(f": {reason}\n")
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr


def test_a_closed_stderr_hinders_nothing():
    shell = f"exec {sys.executable} -m gptrepl -c ':tokens 2' -c 'O my' 2>&- <&-"
    done = subprocess.run(["bash", "-c", shell], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"O myse\n---------------\n")


def test_sigint_ends_with_130_and_keeps_the_text():
    command = [sys.executable, "-m", "gptrepl", "-c", ":tokens 100000", "-c", "ROMEO:"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.read(20)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out.endswith(b"\n---------------\n")
    assert b"interrupted, " in err
    assert b"Traceback" not in err


def test_any_encoding_of_stdout_is_survived(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("x")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = gptrepl("-c", ":# é", "-c", "caf\u00e9", env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert b"outside the alphabet" in done.stderr
    assert b"Traceback" not in done.stderr
