"""`gptrepl sample` prints what nanoGPT's sample.py printed, and answers where that failed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gptrepl.cli import run
from gptrepl.settings import Settings
from gptrepl.streams import advance

GOLDEN = Path(__file__).parent / "golden/nanogpt_char"
CASES = sorted((GOLDEN / "sample_py").glob("*.json"))
RUNS = [path for path in CASES if json.loads(path.read_text())["rc"] == 0]
FAILURES = [path for path in CASES if path not in RUNS]
CONFIG = 'start = "ROMEO:"\nnum_samples = 2\nmax_new_tokens = 20\ntop_k = 10\n'
META = "Loading meta from data/shakespeare_char/meta.pkl...\n"
SHORT = ["--num_samples=1", "--max_new_tokens=5"]


@pytest.fixture
def here(monkeypatch, tmp_path):
    """A folder that holds `out/`, `data/` and the prompts, as sample.py's users have it."""
    for path in GOLDEN.iterdir():
        if path.name in ("out", "data") or path.suffix == ".txt":
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sample(capsys, *args):
    status = run(["sample", *args])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def expected(path):
    case = json.loads(path.read_text())
    return case["args"], case["stdout"].partition(META)[2]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_the_text_is_sample_pys_to_the_byte(path, here, capsys):
    (here / "my_sample_config.py").write_text(CONFIG)
    args, text = expected(path)
    status, out, _ = sample(capsys, *args)
    assert status == 0
    assert out == text


def test_the_installed_command_does_the_same(here):
    args, text = expected(RUNS[0])
    done = subprocess.run(
        [sys.executable, "-m", "gptrepl", "sample", *args], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, text)


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["--start=caf\u00e9"], 1, "outside the alphabet of 65: '\u00e9' at position 4"),
        (["--start=FILE:gone.txt"], 1, "cannot read 'gone.txt': No such file or directory"),
        (["--out_dir=gone"], 3, "nothing here can load 'gone/'"),
        (["--temperature=hot"], 2, "temperature must be a number, 0 or more, not 'hot'"),
        (["--tempature=1"], 2, "no option --tempature (did you mean --temperature?)"),
        (["gone.py"], 2, "cannot read the configuration 'gone.py': No such file"),
        (["bad.py"], 2, "bad.py:2: 'open(1)' is no literal, and nothing in the file is executed"),
        (["worse.py"], 2, "worse.py:1: only `name = value` lines are read"),
        (["no.py"], 2, "no.py:1: it is not Python: invalid"),
        (["chat.yaml"], 2, "chat.yaml: system has no place here: sample.py has no such option"),
        (["bad.yaml"], 2, "bad.yaml:1: unknown key 'tmep'"),
        (["runs.yaml"], 2, "runs.yaml has commands, which only the shell runs"),
    ],
)
def test_a_fault_is_one_line_and_a_status(args, status, said, here, capsys):
    (here / "bad.py").write_text("top_k = 3\nstart = open(1)\n")
    (here / "worse.py").write_text("import os\n")
    (here / "no.py").write_text("a = = 1\n")
    (here / "bad.yaml").write_text("tmep: 1\n")
    (here / "runs.yaml").write_text("commands: [':temp 0']\n")
    (here / "chat.yaml").write_text("temperature: 1\nsystem: be nice\n")
    done, out, err = sample(capsys, *args)
    assert (done, out) == (status, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "same"),
    [
        (["--temperature=1"], ["--temperature=1.0"]),
        (["--top_k=None"], ["--top_k=65"]),
        (["--top_k=0"], ["--top-k", "65"]),
        (["--TOP-K=7"], ["--top_k=7"]),
        (["--start='ROMEO:'"], ["--start", "ROMEO:"]),
        (["--start="], ["--start=\n"]),
        (["config.py", "--top_k=65"], ["--start=ROMEO:", "--top_k=65"]),
        (["--top_k=65", "config.py"], ["--start=ROMEO:", "--top_k=3"]),
        (["mine.yaml"], ["--start=ROMEO:", "--top_k=3", "--min_p=0.05"]),
    ],
)
def test_a_value_means_what_it_says(args, same, here, capsys):
    (here / "config.py").write_text(
        '"""Mine."""\nstart = "ROMEO:"\ntop_k = 3\neval_iters = 5 * 8  # of train.py\n'
    )
    (here / "mine.yaml").write_text("start: 'ROMEO:'\ntop_k: 3\nmin_p: 0.05\n")
    short = ["--num_samples=2", "--max_new_tokens=30"]
    status, out, _ = sample(capsys, *args, *short)
    assert (status, out) == sample(capsys, *same, *short)[:2]
    assert status == 0


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("q.py", "start = \"'O'\"\n", {"start": "'O'"}),
        ("q.yaml", "start: \"'O'\"\n", {"start": "'O'"}),
        ("q.yaml", "chain: [top_p, temperature]\n", {"chain": "top_p temperature"}),
        (
            "q.yaml",
            'dry: {multiplier: 1, breakers: "a b"}\n',
            {"dry": {"multiplier": 1, "breakers": "a b"}},
        ),
        ("q.yaml", "temperature: 0.123456789\n", {"temperature": 0.123456789}),
    ],
)
def test_a_file_is_taken_exactly(file, text, same, here, monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr("gptrepl.cli.sample.draw", lambda session, *_, **__: drawn.append(session))
    (here / file).write_text(text)
    sample(capsys, file)
    settings, wanted = drawn[0].settings, Settings().but(**same)
    assert [settings.data(name) for name in same] == [wanted.data(name) for name in same]


def test_a_start_with_an_equals_sign_is_text(here, capsys):
    status, _, err = sample(capsys, "--start=a=b", *SHORT)
    assert status == 1  # its alphabet has no '='
    assert "'=' at position 2" in err


def test_a_start_that_is_a_number_is_text(here, capsys):
    status, out, _ = sample(capsys, "--start=3", *SHORT)
    assert (status, out[0], len(out)) == (0, "3", 6 + len("\n---------------\n"))


def test_temperature_zero_is_greedy(here, capsys):
    status, out, _ = sample(capsys, "--temperature=0", "--start=ROMEO:", "--max_new_tokens=30")
    texts = out.split("\n---------------\n")[:-1]
    assert status == 0
    assert len(texts) == 10
    assert len(set(texts)) == 1


def test_independent_samples_have_seeds_that_follow(here, capsys):
    _, together, _ = sample(capsys, "--independent", "--num_samples=3", "--max_new_tokens=30")
    alone = ["--independent", "--num_samples=1", "--max_new_tokens=30", "--seed=1339"]
    assert together.split("---------------\n")[2] == sample(capsys, *alone)[1].split("-----")[0]


def test_what_is_no_sample_goes_to_stderr(here, capsys, monkeypatch):
    def refuse(_step):
        raise RuntimeError("not here")

    monkeypatch.setattr("torch.compile", refuse)
    _, plain, _ = sample(capsys, "--compile=False", *SHORT)
    _, out, err = sample(capsys, "--compile=True", *SHORT)
    assert out == plain
    assert out.endswith("\n---------------\n")
    assert "compile = True\n" in err
    assert "compile is off: not here\n" in err


def test_help_names_every_option(capsys):
    assert run(["sample", "--help"]) == 0
    text = capsys.readouterr().out
    for name in ("init_from", "out_dir", "start", "num_samples", "seed", "min_p", "independent"):
        assert f"--{name}" in text


@pytest.mark.parametrize("draws_are_uniforms", [True, False])
def test_a_stream_is_advanced_exactly(draws_are_uniforms, monkeypatch):
    import torch

    from gptrepl import streams

    if not draws_are_uniforms:
        monkeypatch.setattr(streams, "draws_are_uniforms", lambda: False)
    for draws, vocab_size in [(0, 65), (1, 1), (7, 65), (3, 50257), (11, 100)]:
        advanced, drawn = (torch.Generator().manual_seed(draws) for _ in range(2))
        advance(advanced, draws, vocab_size)
        for _ in range(draws):
            torch.multinomial(torch.rand(1, vocab_size) + 0.1, 1, generator=drawn)
        assert torch.equal(advanced.get_state(), drawn.get_state())
