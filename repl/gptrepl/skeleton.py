"""The distribution that `gptrepl plugin new` writes: a plugin that works, and its test."""

from __future__ import annotations

import keyword
from pathlib import Path
from string import Template

from . import plugins
from .api import GptreplError
from .plugins import Kind
from .settings import known_names

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "gptrepl-$dashed"
version = "0.1.0"
description = "A $one for gptrepl."
requires-python = ">=3.11"
dependencies = ["gptrepl"]

[project.entry-points."gptrepl.$kind"]
$name = "gptrepl_$name:$object"

[tool.hatch.build.targets.wheel]
packages = ["gptrepl_$name"]
"""
TEST = """\
\"\"\"The $one keeps what gptrepl requires of one, and does what it says.\"\"\"

from gptrepl.conformance import faults

from gptrepl_$name import $imported


def test_it_is_a_$one():
    assert faults("$kind", $object$given) == []


$own"""

SAMPLER = '''\
"""The sampler $name, for gptrepl."""

from dataclasses import dataclass
from typing import ClassVar

from gptrepl.api import Stage, knob


@dataclass(frozen=True)
class $object:
    """Keep the tokens whose logit is at most so far below the largest.

    A token stays if z >= max(z) - distance. The distance is above 0; off at 0.
    """

    $name: float = knob(0.0, ge=0, help="how far below the largest a logit may be; 0 is off")
    stage: ClassVar[Stage] = "truncation"

    def __call__(self, logits, ids):
        """Return the logits with those far below the largest removed."""
        if self.$name == 0:
            return logits
        return logits.masked_fill(logits < logits.max() - self.$name, float("-inf"))
'''
SAMPLER_TEST = """\
def test_what_is_far_below_the_largest_goes():
    import torch

    left = $object(1.0)(torch.tensor([0.0, 2.0, 2.5, 3.0]), [0])
    assert left.isfinite().tolist() == [False, True, True, True]
"""
TOKENIZER = '''\
"""The tokenizer $name, for gptrepl."""

from gptrepl.api import GptreplError


class $object:
    """One id for each byte of ASCII text."""

    vocab_size = 128
    end = 0

    def __init__(self, path: str):
        """Take the path that stands after the name, as in `$name:PATH`; it is not used."""
        self.path = path

    def encode(self, text: str) -> list[int]:
        """Return the code of each character; raise GptreplError for one beyond ASCII."""
        if not text.isascii():
            strange = next(sign for sign in text if not sign.isascii())
            raise GptreplError(f"$name has no id for {strange!r}: it knows ASCII alone")
        return list(text.encode("ascii"))

    def token_bytes(self, token: int) -> bytes:
        """Return the one byte of an id."""
        return bytes([token])
'''
TOKENIZER_TEST = """\
def test_a_text_comes_back():
    tokenizer = $object("")
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode("a b"))) == b"a b"
"""
MODEL = '''\
"""The loader $name, for gptrepl: `:load $name` brings a model that says one sentence."""

SENTENCE = b"the quick brown fox jumps over the lazy dog. "
SIZE = 128


class Ascii:
    """One id for each byte of ASCII text."""

    vocab_size = SIZE

    def encode(self, text):
        """Return the code of each character; what is beyond ASCII becomes a question mark."""
        return list(text.encode("ascii", "replace"))

    def token_bytes(self, token):
        """Return the one byte of an id."""
        return bytes([token])


class Model:
    """Goes on with its sentence after any letter of it, the likelier the oftener it does."""

    vocab_size = SIZE
    block_size = None

    def logits(self, rows):
        """Return float32 logits, shape (len(rows), vocab_size)."""
        import torch

        out = torch.zeros(len(rows), SIZE)
        for place, row in enumerate(rows):
            for letter, after in zip(SENTENCE, SENTENCE[1:] + SENTENCE[:1]):
                out[place, after] += 3.0 * (letter == row[-1])
        return out


def sources():
    """Return the names it can load."""
    return ["$name"]


def accepts(source):
    """Return whether *source* is its to load."""
    return source == "$name"


def load(source, options):
    """Return the model and its tokenizer."""
    from gptrepl.api import LoadError

    if not accepts(source):
        raise LoadError(f"$name cannot load {source!r}: it knows $name alone")
    options.note("$name knows one sentence")
    return Model(), options.tokenizer or Ascii()
'''
MODEL_TEST = """\
def test_it_goes_on_with_its_sentence():
    assert chr(gptrepl_$name.Model().logits([[ord("q")]]).argmax()) == "u"
"""
COMMAND = '''\
"""The command :$name, for gptrepl."""

from collections import Counter
from collections.abc import Iterator

from gptrepl.api import Event, Notice, Table


def $object(session, count: int = 5) -> Iterator[Event]:
    """List the COUNT words that the last samples use most."""
    words = Counter(word for sample in session.samples for word in sample.text.split())
    if not words:
        yield Notice("nothing was sampled yet")
        return
    rows = [(word, str(times)) for word, times in words.most_common(count)]
    yield Table(("word", "times"), tuple(rows), "words")
'''
COMMAND_TEST = """\
def test_words_are_counted():
    from types import SimpleNamespace

    session = SimpleNamespace(samples=[SimpleNamespace(text="a b a")])
    (table,) = $object(session, 1)
    assert table.rows == (("a", "2"),)
"""
SOURCES: dict[Kind, tuple[str, str]] = {
    "samplers": (SAMPLER, SAMPLER_TEST),
    "tokenizers": (TOKENIZER, TOKENIZER_TEST),
    "models": (MODEL, MODEL_TEST),
    "commands": (COMMAND, COMMAND_TEST),
}


def write(name: str, kind: Kind, into: Path) -> list[Path]:
    """Write a distribution with one plugin called *name*; return its files, the folder first.

    Raises GptreplError if the name cannot be used or something is there already.
    """
    if not name.isidentifier() or not name.islower() or keyword.iskeyword(name):
        raise GptreplError(f"a plugin cannot be called {name!r}: use small letters, digits and _")
    taken = {*plugins.installed(kind)}
    if kind in ("samplers", "commands"):  # they share the colon
        taken |= {*known_names(), *plugins.installed("commands")}
    if name in taken:
        raise GptreplError(f"the name {name} is taken: choose another, see gptrepl plugins")
    folder = into / f"gptrepl-{name.replace('_', '-')}"
    if folder.exists():
        raise GptreplError(f"{folder} is there already: move it away, or choose another name")
    files = {folder / path: text for path, text in contents(name, kind).items()}
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise GptreplError(f"cannot write {str(folder)!r}: {error.strerror}") from None
    return [folder, *files]


def contents(name: str, kind: Kind) -> dict[str, str]:
    """Return the texts of the files of a distribution, by their paths in it."""
    source, test = SOURCES[kind]
    camel = "".join(map(str.capitalize, name.split("_")))
    thing = {"models": f"gptrepl_{name}", "commands": name}.get(kind, camel)
    words = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "kind": kind,
        "one": kind[:-1],
        "object": thing,
        "imported": thing,
        "given": {"models": f', "{name}"', "commands": ', ""', "tokenizers": ', ""'}.get(kind, ""),
    }
    words["own"] = Template(test).substitute(words)
    project = Template(PROJECT).substitute(words)
    written = Template(TEST).substitute(words)
    if kind == "models":  # the module itself is the loader
        project = project.replace(f'"gptrepl_{name}:{thing}"', f'"gptrepl_{name}"')
        written = written.replace(f"from gptrepl_{name} import {thing}", f"import gptrepl_{name}")
    return {
        "pyproject.toml": project,
        f"gptrepl_{name}/__init__.py": Template(source).substitute(words),
        f"tests/test_{name}.py": written,
    }
