"""A stranger's distribution, really installed by pip: no line of the core knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
ASK = """
import json
from gptrepl.commands import candidates
from gptrepl.session import Session
from gptrepl.cli import run
session = Session()
lines = (":only", ":evens ", ":tokenizer up", ":set only", ":chain top_k only")
print(json.dumps([[c.text for c in candidates(session, line)] for line in lines]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment variables under which the stranger is installed."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *options, str(ROOT / "stranger")], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def gptrepl(environment, *args, cwd=None):
    command = [sys.executable, "-m", "gptrepl", *args]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=cwd, timeout=120
    )


def test_its_commands_help_and_profile_key(environment, tmp_path):
    (tmp_path / "p.yaml").write_text("only-even: 3\ntokens: 20\n")
    lines = [":help only_even", ":Only-Even=2", ":evens", ":profile p.yaml", ":chain", ":plugins"]
    flags = [flag for line in lines for flag in ("-c", line)]
    done = gptrepl(environment, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stderr
    assert ":only_even [N]  (also :evens)" in said
    assert "the number; 1 removes nothing (a whole number from 1 to 9; off: 1)" in said
    assert "only_even 2\nonly_even 2 (typed)\n" in said
    assert "only_even 2 -> 3" in said
    assert "sampler" in said
    assert "gptrepl-stranger  2.1" in said


def test_its_flag_and_its_tokenizer_sample(environment):
    options = ("--only-even", "2", "--tokenizer", "upper", "--temperature=1", "--top_k=0")
    done = gptrepl(environment, *options, "-c", ":tokens 60", "-c", "A")
    assert done.returncode == 0, done.stderr
    text = done.stdout.splitlines()[0]
    assert len(text) == 61
    assert set(text) <= set("ACEGIKMOQSUWY")


def test_its_range_is_kept(environment):
    done = gptrepl(environment, "-c", ":only_even 10")
    assert done.returncode == 1
    assert done.stderr == "-c:1: only_even must be a whole number from 1 to 9, not '10'\n"


def test_tab_offers_it(environment):
    asked = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(asked.stdout) == [
        ["only_even"],
        ["off"],
        ["upper"],
        ["only_even"],
        ["only_even"],
    ]
