"""The README is true: its commands run, its tables are the program's, its code works.

`python tests/test_readme.py` writes the tables anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import distribution
from gptrepl import chain
from gptrepl.commands import first_line, known
from gptrepl.plugins import installed
from gptrepl.settings import Settings

PATH = Path(__file__).parents[1] / "README.md"
README = PATH.read_text(encoding="utf-8")


def fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def row(name):
    command = known()[name]
    aliases = "".join(f", `:{alias}`" for alias in command.aliases)
    usage = command.usage.replace("|", "\\|")
    return f"| `{usage}`{aliases} | {first_line(command.help)} |"


def table(names):
    return "\n".join(["| command | what it does |", "| --- | --- |", *map(row, names)])


def tables():
    samplers = chain.arrange(installed("samplers"))
    others = [name for name in known() if name not in samplers]
    return {"commands": table(others), "samplers": table(samplers)}


def between(mark):
    return README.partition(f"<!-- {mark} -->\n")[2].partition(f"<!-- end of {mark} -->")[0]


@pytest.mark.parametrize("mark", ["commands", "samplers"])
def test_the_tables_are_the_programs(mark):
    assert between(mark).strip() == tables()[mark]


def transcripts():
    for block in fenced("console"):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            yield pytest.param(command, output, id=command[:40])


@pytest.mark.parametrize(("command", "output"), list(transcripts()))
def test_the_commands_print_what_they_show(command, output, tmp_path):
    bin = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": bin},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_transcript_is_one_of_the_shell(capsys):
    from gptrepl.cli import run

    (block,) = re.findall(r"^```\n(> .*?)^```$", README, re.DOTALL | re.MULTILINE)
    typed = re.findall(r"^> (.+)$", block, re.MULTILINE)
    flags = [flag for line in [":tokens 60", *typed] for flag in ("-c", line)]
    assert run(["--keep-going", *flags]) == 1
    out, err = capsys.readouterr()
    samples = [text for text in out.split("\n---------------\n") if text]
    assert len(samples) == 2
    for sample in samples:
        assert sample in block
    for line in err.splitlines():
        said = re.sub(r"^-c:\d+: ", "", re.sub(r"[\d.]+ tokens/s", "# tokens/s", line))
        assert said in re.sub(r"\d+ tokens/s", "# tokens/s", block) or said.startswith("max_new")


def test_the_python_of_the_tour_runs():
    code, _ = fenced("python")
    scope: dict[str, object] = {}
    exec(code, scope)
    assert str(scope["text"]).startswith("ROMEO:")
    assert len(scope["three"]) == 3
    assert [text[:6] for text in scope["both"]] == ["ROMEO:", "JULIET"]


def test_the_sampler_of_the_readme_is_one(tmp_path, monkeypatch):
    import torch

    _, code = fenced("python")
    (entry_points,) = fenced("toml")
    section = entry_points.replace('project.entry-points."gptrepl.samplers"', "gptrepl.samplers")
    monkeypatch.syspath_prepend(tmp_path)
    with distribution(tmp_path, "mine", section.replace('"', ""), my_package=code):
        sampler = Settings().but(nudge="0.5").samplers["nudge"]
        assert sampler(torch.zeros(3), [0]).tolist() == [0.5, 1.0, 1.5]


def test_the_profile_of_the_readme_is_one():
    from gptrepl.profiles import parse

    (text,) = fenced("yaml")
    assert parse(text, Path("mine.yaml")).changes.keys() == {
        "temperature",
        "top_p",
        "repetition_penalty",
        "max_new_tokens",
    }


def write():
    text = README
    for mark, rows in tables().items():
        old = f"<!-- {mark} -->\n{between(mark)}<!-- end of {mark} -->"
        text = text.replace(old, f"<!-- {mark} -->\n{rows}\n<!-- end of {mark} -->")
    PATH.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
