"""The conformance kit: ours pass it, and each fault is found."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from gptrepl import plugins
from gptrepl.api import GptreplError, Notice, knob
from gptrepl.cli import run
from gptrepl.conformance import check, faults, speed

GIVEN = {"logit_bias": "0=-inf, 3=2"}


# --- ours ---------------------------------------------------------------------------------------


def own(kind):
    return [name for name, entry in plugins.installed(kind).items() if plugins.is_own(entry)]


@pytest.mark.parametrize("name", own("samplers"))
def test_our_samplers_pass(name):
    results = check("samplers", plugins.load("samplers", name), GIVEN.get(name))
    assert [result for result in results if result.state != "ok"] == []


@pytest.mark.parametrize(
    ("name", "path"), [("char", "nanogpt_char/data/shakespeare_char/meta.pkl"), ("gpt2", "")]
)
def test_our_tokenizers_pass(golden, name, path):
    made = plugins.load("tokenizers", name)
    results = check("tokenizers", made, str(golden / path) if path else "")
    assert [result for result in results if result.state != "ok"] == []
    assert len(results) > 8


@pytest.mark.parametrize(("name", "source"), [("nanogpt", "shakespeare"), ("gpt2", "")])
def test_our_loaders_pass(name, source):
    loader = plugins.load("models", name)
    assert faults("models", loader, source) == []
    assert ("rows longer" in str(check("models", loader, source))) == bool(source)


@pytest.mark.parametrize("name", own("commands"))
def test_our_commands_pass(name):
    assert faults("commands", plugins.load("commands", name)) == []


@pytest.mark.parametrize(("name", "words"), [("chain", ""), ("show", "temp"), ("set", "temp 0.3")])
def test_a_command_is_run_with_the_words_it_is_given(name, words):
    *_, last = check("commands", plugins.load("commands", name), words)
    assert (last.what, last.state) == ("it yields events", "ok")


# --- faults of samplers -------------------------------------------------------------------------


@dataclass(frozen=True)
class Sound:
    """Change nothing."""

    share: float = knob(0.0, ge=0, le=1, help="any share; 0 is off")

    def __call__(self, logits, ids):
        return logits


def sampler(call, **members):
    """A sound sampler but for its call and these members."""
    return dataclass(frozen=True)(
        type("Odd", (Sound,), {"__doc__": Sound.__doc__, "__call__": call, **members})
    )


def edit(self, logits, ids):
    return logits.sub_(1) if self.share else logits


def lengthen(self, logits, ids):
    if self.share:
        ids.append(0)
    return logits


def empty(self, logits, ids):
    return logits - float("inf") if self.share == 1 else logits


def explode(self, logits, ids):
    return logits * float("nan") if self.share else logits


def shorten(self, logits, ids):
    return logits[:1] if self.share else logits


def widen(self, logits, ids):
    return logits.double() if self.share else logits


def revive(self, logits, ids):
    return logits.nan_to_num(neginf=-50.0) if self.share else logits


def crash(self, logits, ids):
    return logits if len(logits) > 2 else logits[5]


def noise(self, logits, ids):
    return logits + torch.rand(()) if self.share else logits


def chance(self, logits, ids):
    return logits + random.random() if self.share else logits


def shift(self, logits, ids):
    return logits + 0.0 if self.share else logits - logits.max()


def level(self, logits, ids):
    return logits - logits.max() * self.share


def remember(self, logits, ids):
    self.calls.append(1)
    return logits + len(self.calls) if self.share else logits


@pytest.mark.parametrize(
    ("found", "what", "detail"),
    [
        (sampler(edit), "the logits and ids given are not edited", "it edits the logits with"),
        (sampler(lengthen), "the logits and ids given are not edited", "it edits the ids with"),
        (sampler(empty), "a token is always left, and no nan", "the largest is -inf with 1"),
        (sampler(explode), "a token is always left, and no nan", "the largest is nan"),
        (sampler(shorten), "shape and dtype are kept", "it returns float32 of shape (1,)"),
        (sampler(widen), "shape and dtype are kept", "it returns float64 of shape (65,)"),
        (sampler(revive), "removed tokens stay removed", "logits of which"),
        (sampler(crash), "it runs", "IndexError"),
        (sampler(noise), "no generator but its own is used", "own generator moved"),
        (sampler(noise), "same in, same out", "it differs from run to run"),
        (sampler(chance), "no generator but its own is used", "own generator moved"),
        (sampler(shift), "off changes no bit", "it changes usual logits"),
        (sampler(level, rowwise=True), "rows together are as each alone", "a row is another with"),
        (sampler(remember, calls=[]), "same in, same out", "it differs from run to run"),
        (sampler(Sound.__call__, __doc__="x"), "it is documented", "which is no sentence"),
        (sampler(Sound.__call__, begin=lambda self, generator: 3), "it runs", "not callable"),
    ],
)
def test_each_fault_of_a_sampler_is_found(found, what, detail):
    (fault,) = [text for text in faults("samplers", found) if text.startswith(what)]
    assert detail in fault


def test_a_sound_sampler_has_no_fault():
    assert faults("samplers", Sound) == []


def test_a_sampler_that_draws_from_its_own_generator_passes():
    class Draws:
        def __init__(self, share, generator):
            self.share, self.generator = share, generator

        def __call__(self, logits, ids):
            return logits + torch.rand((), generator=self.generator) if self.share else logits

    found = sampler(Sound.__call__, begin=lambda self, own: Draws(self.share, own))
    assert faults("samplers", found) == []


def test_what_is_missing_is_said():
    @dataclass
    class Bare:
        """Do nothing."""

        switch: str = ""
        stage: ClassVar[str] = "penalty"

        def __call__(self, logits, ids):
            return logits

        def __post_init__(self):
            if self.switch not in ("", "on"):
                raise GptreplError("on is the only word")

    assert faults("samplers", Bare) == [
        "it is documented, and so is each field: switch has no line of help: declare it with knob",
        "it is frozen: it is not declared frozen=True",
        "it can be switched on: no value was found that switches it on: give one by --with",
    ]
    assert len(faults("samplers", Bare, "on")) == 2
    assert faults("samplers", 3) == ["it is what its kind has to be: it is no dataclass but an int"]


def test_the_time_of_a_sampler_is_a_share_of_a_token(monkeypatch):
    monkeypatch.setattr(speed, "token_seconds", lambda: 0.02)

    def sleep(self, logits, ids):
        time.sleep(0.002 * (self.share == 1))
        return logits

    monkeypatch.setattr(speed, "CALLS", 3)
    (slow,) = [r for r in check("samplers", sampler(sleep), timed=True) if r.what == "it is quick"]
    assert slow.state == "slow"
    assert "ms at 50,257 ids, 1" in slow.detail
    assert slow.detail.endswith("% of a token of GPT-2 (20 ms here), slowest with 1")


# --- faults of the others -----------------------------------------------------------------------


class Ascii:
    """One id for each byte of ASCII text."""

    vocab_size = 128

    def __init__(self, path=""):
        self.path = path

    def encode(self, text):
        if not text.isascii():
            raise GptreplError("ASCII alone")
        return list(text.encode())

    def token_bytes(self, token):
        return bytes([token])


def tokenizer(**members):
    return type("Odd", (Ascii,), {"__doc__": Ascii.__doc__, **members})


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (Ascii, None),
        (tokenizer(vocab_size=0), "it has a size: vocab_size is 0"),
        (tokenizer(token_bytes=lambda self, token: chr(token)), "AttributeError"),
        (
            tokenizer(token_bytes=lambda self, token: bytes([token]) if token < 127 else ""),
            "each id has its bytes: token_bytes(127) is str",
        ),
        (
            tokenizer(encode=lambda self, text: [token + 1 for token in text.encode()]),
            "a text comes back from its ids",
        ),
        (
            tokenizer(encode=lambda self, text: list(text.encode())),
            "what it cannot write is refused in one line: encode gives 195",
        ),
        (
            tokenizer(encode=lambda self, text: list(text.encode("ascii"))),
            "what it cannot write is refused in one line: it raises UnicodeEncodeError",
        ),
        (tokenizer(end=128), "the end of a text is one of its ids: encode gives 128"),
        (tokenizer(__doc__="Letters"), "it is documented: its docstring begins 'Letters'"),
    ],
)
def test_each_fault_of_a_tokenizer_is_found(made, fault):
    found = faults("tokenizers", made, "x")
    assert found == [] if fault is None else any(fault in text for text in found)


class Even:
    """Every id is equally likely."""

    vocab_size = 128
    block_size = 4

    def logits(self, rows):
        return torch.zeros(len(rows), 128)


def loader(model=Even, **members):
    """A loader of one model, but for these members."""
    made = {
        "__doc__": "Loads one model.",
        "sources": lambda: ["one"],
        "accepts": lambda source: source == "one",
        "load": lambda source, options: load(source, model),
        **members,
    }
    return SimpleNamespace(**made)


def load(source, model):
    if source != "one":
        raise GptreplError("one alone")
    return model(), Ascii()


class Narrow(Even):
    def logits(self, rows):
        return torch.zeros(len(rows), 127)


class Drifting(Even):
    calls = 0

    def logits(self, rows):
        self.calls += 1
        return torch.full((len(rows), 128), float(self.calls))


class Broken(Even):
    def logits(self, rows):
        return torch.full((len(rows), 128), float("nan"))


class Bounded(Even):
    def logits(self, rows):
        if max(map(len, rows)) > 10:
            raise IndexError("index out of range")
        return torch.zeros(len(rows), 128)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (loader(), None),
        (loader(sources=lambda: ["two"]), "it does not accept 'two'"),
        (loader(accepts=lambda source: True), "it accepts 'no/such/source'"),
        (loader(load=lambda source, options: 1 / 0), "it raises ZeroDivisionError"),
        (loader(object), "it gives an object without vocab_size"),
        (loader(Narrow), "float32 of shape (4, 127) where float32 of shape (4, 128) is due"),
        (loader(Drifting), "calls do not influence each other: they are"),
        (loader(Broken), "logits are numbers: some are nan or infinite"),
        (loader(Bounded), None),
        (loader(type("Small", (Even,), {"vocab_size": 5})), "the tokenizer has 128 ids"),
    ],
)
def test_each_fault_of_a_loader_is_found(found, fault):
    said = faults("models", found, "one")
    assert said == [] if fault is None else any(fault in text for text in said)


def count(session, times: int = 1):
    """Count up to TIMES."""
    yield from (Notice(str(number)) for number in range(times))


def speak(session):
    """Say a word."""
    yield "word"


def strange(session, share: complex):
    """Take a SHARE."""


def divide(session):
    """Divide."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("function", "words", "fault"),
    [
        (count, "2", None),
        (count, "", None),
        (count, None, None),
        (speak, "", "it yields 'word', which is none"),
        (strange, None, "share is a complex"),
        (divide, "", "it raises ZeroDivisionError"),
    ],
)
def test_each_fault_of_a_command_is_found(function, words, fault):
    said = faults("commands", function, words)
    assert said == [] if fault is None else any(fault in text for text in said)


# --- the command line ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A plugin of each kind as `gptrepl plugin new` writes it, installed by pip."""
    folder, site = tmp_path_factory.mktemp("new"), tmp_path_factory.mktemp("site")
    for kind in ("sampler", "tokenizer", "model", "command"):
        assert run(["plugin", "new", f"new_{kind}", "--kind", kind, "--into", str(folder)]) == 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([*pip, *options, *map(str, folder.iterdir())], check=True)
    return folder, site


def python(site, *words, cwd=None):
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=environment,
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def test_what_is_written_passes_its_own_test(written):
    folder, site = written
    assert len(list(folder.glob("*/tests/test_*.py"))) == 4
    done = python(site, "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_what_is_written_works_in_the_shell(written):
    _, site = written
    lines = (":new_sampler 2", ":tokens 9", ":temp 0", ":load new_model", "the ", ":new_command 1")
    flags = [flag for text in lines for flag in ("-c", text)]
    done = python(site, "gptrepl", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the ")
    assert "new_sampler 2" in done.stderr
    assert "word" in done.stderr


def test_check_says_what_was_tried(written):
    _, site = written
    done = python(site, "gptrepl", "plugin", "check", "new_sampler", "new_tokenizer", "--with", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(
        "sampler new_sampler of gptrepl-new-sampler 0.1.0 (gptrepl_new_sampler:NewSampler)\n"
    )
    assert "% of a token of GPT-2" in done.stdout
    assert done.stdout.count("\nok ") == 22


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["check", "nothing"], 2, "no plugin named 'nothing' is installed"),
        (["check", "model:top_k"], 2, "no plugin named 'model:top_k' is installed"),
        (["check", "gpt2"], 2, "several plugins are named gpt2: say tokenizer:gpt2 or model:gpt2"),
        (["new", "9lives"], 2, "a plugin cannot be called '9lives'"),
        (["new", "import"], 2, "a plugin cannot be called 'import'"),
        (["new", "Top"], 2, "a plugin cannot be called 'Top'"),
        (["new", "top_k"], 2, "the name top_k is taken"),
        (["new", "seed"], 2, "the name seed is taken"),
        (["new", "quit", "--kind", "command"], 2, "the name quit is taken"),
        (["check", "tokenizer:char"], 0, "give PATH by --with"),
        (["check", "logit_bias", "--with", "2=-1"], 0, "it is quick"),
        (["check", "sampler:top_k"], 0, "it is quick"),
    ],
)
def test_the_command_line_of_plugin(capsys, monkeypatch, words, status, said):
    monkeypatch.setattr(speed, "CALLS", 1)
    assert run(["plugin", *words]) == status
    out, err = capsys.readouterr()
    assert said in out + err


def test_new_overwrites_nothing(tmp_path, capsys):
    assert run(["plugin", "new", "fresh", "--into", str(tmp_path)]) == 0
    path = tmp_path / "gptrepl-fresh/gptrepl_fresh/__init__.py"
    path.write_text("mine")
    assert run(["plugin", "new", "fresh", "--into", str(tmp_path)]) == 2
    assert path.read_text() == "mine"
    assert "is there already" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run(["plugin", "new", "fresh", "--into", str(Path(tmp_path / "file"))]) == 2
