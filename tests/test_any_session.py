"""Whatever is typed: the session recorded gives the same texts, and each receipt is identical."""

from __future__ import annotations

import io
import itertools
import tempfile
from pathlib import Path
from unittest import mock

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import Bytes, Learned, session_of
from gptrepl import loading
from gptrepl.api import GptreplError, LoadError, Notice
from gptrepl.commands import evaluate
from gptrepl.loading import Loaded
from gptrepl.log import Log
from gptrepl.recording import Recording
from gptrepl.script import Script
from gptrepl.scripting import read


class Ending(Bytes):
    """Bytes of which one ends a text."""

    end = 10


class Few(Learned):
    """Likes a few bytes, those that stop a text among them, and sees no more than the last 24."""

    def __init__(self):
        super().__init__(block_size=24)

    def logits(self, rows):
        odds = super().logits([row[-24:] for row in rows])
        odds[:, list(b"abne\n\xc3\xa9")] += 6
        return odds


class Built(Learned):
    """Was built with random numbers."""

    def replay_build(self, generator):
        torch.rand(5, generator=generator)


MODELS = {"fake": Learned, "few": Few, "built": Built}


def opened(wanted, _progress, _notes):
    """Load one of the models by name, as a loader would."""
    if wanted.model not in MODELS:
        raise LoadError(f"nothing here can load {wanted.model!r}")
    tokenizer = Ending() if wanted.model == "few" else Bytes()
    return Loaded(wanted.model, None, MODELS[wanted.model](), tokenizer, "cpu", "float32")


class Keeper:
    """Keeps the texts of all samples that were begun."""

    def __init__(self):
        self.texts = []

    def started(self, generation): ...

    def drawn(self, generation): ...

    def ended(self, generation):
        self.texts += [one.text for one in generation.samples if one.ending or one.tokens]

    def said(self):
        return ()


def begun(*recorders, **changes):
    session = session_of(Learned(), **changes)
    session.recorders += recorders
    return session


def say(session, line):
    """Say a line; return its notices, also where it fails."""
    said = []
    try:
        said.extend(event.text for event in evaluate(session, line) if isinstance(event, Notice))
    except GptreplError as error:
        session.scope.drop()
        said.append(str(error))
    return said


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=8).map(
    lambda text: f":{text}" if text.startswith(":") else text
)
SAMPLERS = {
    "temp": st.sampled_from(["0", "off", "0.5", "1.25", "0.30000000000000004", "1e-3", "hot"]),
    "top_k": st.sampled_from(["0", "3", "200"]),
    "top_p": st.floats(0, 1).map(repr),
    "min_p": st.floats(0, 1).map(repr),
    "penalty": st.tuples(st.floats(0.5, 2), st.sampled_from(["off", "all", "4"])).map(
        lambda pair: f"{pair[0]!r} window={pair[1]}"
    ),
    "xtc": st.tuples(st.floats(0, 1), st.floats(0, 0.5)).map(
        lambda pair: f"{pair[0]!r} {pair[1]!r}"
    ),
    "mirostat2": st.sampled_from(["5", "off", "3 eta=0.2"]),
    "dry": st.sampled_from(["0.8", "off", '0.5 breakers=" a\\n"', "1 2 3"]),
    "banned": st.sampled_from(["off", 'a, "b c"', "é"]),
    "min_new_tokens": st.sampled_from(["off", '3 end="\\n"', "2"]),
    "chain": st.sampled_from(["default", "top_k temperature", "min_p top_p top_k"]),
    "profile": st.sampled_from(["creative", "precise", "greedy", "deterministic", "sample"]),
    "reset": st.sampled_from(["", "temp", "seed", "tokens top_k"]),
}
SETTINGS = {
    "stop": st.sampled_from(["off", '"a" "\\u0000"', '"b" "n" "e"']),
    "stop_at_end": st.sampled_from(["on", "off"]),
    "draft": st.sampled_from(["auto", "off", "3"]),
    "seed": st.one_of(st.just("random"), st.integers(0, 2**64 - 1).map(str)),
    "samples": st.sampled_from(["1", "2", "3", "33"]),
    "tokens": st.integers(0, 5).map(str),
    "start": TEXT,
    "let": st.sampled_from(["x = 1", "y = {x}"]),
    "system": st.sampled_from(["Be brief.", '""']),
}
MODES = {
    "mode": st.sampled_from(["story", "complete", "chat"]),
    "load": st.sampled_from(["fake", "few", "built", "nowhere"]),
}
ACTIONS = {
    "more": st.sampled_from(["", "1", "3"]),
    "retry": st.just(""),
    "undo": st.sampled_from(["", "1", "2"]),
    "edit": st.sampled_from(["1", "2"]),
    "prompt": st.sampled_from(['"a\\nb"', "{x}"]),
    "ids": st.sampled_from(["97 98", "0", '195 as "?"', "256"]),
    "source": st.sampled_from(["s.txt", "gone.txt"]),
    "sample": st.just(""),
    "new": st.just(""),
    "nope": st.just(""),
}


def commands(values):
    """Any of these commands with one of its values."""
    return st.sampled_from(sorted(values)).flatmap(
        lambda name: values[name].map(lambda value: f":{name} {value}".rstrip(" "))
    )


LINE = st.one_of(TEXT, *map(commands, (SAMPLERS, SETTINGS, MODES, ACTIONS)))
LOOP = st.lists(LINE, max_size=3).map(lambda body: [":for x in 0.3 1", *body, "at {x}", ":end"])
BLOCK = st.lists(TEXT, max_size=2).map(lambda body: [":multi", *body, ":end"])
PART = st.one_of(LINE.map(lambda line: [line]), LINE.map(lambda line: [line, "go"]), LOOP, BLOCK)
LINES = st.lists(PART, min_size=3, max_size=9).map(
    lambda parts: [*itertools.chain.from_iterable(parts)]
)
TURNS = "U: {user}\nA: {assistant}\n"
SCRIPT = b"a\n:more 1\n:samples 2\n"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=st.sampled_from(sorted(MODELS)), lines=LINES)
def test_whatever_is_typed_is_recorded_and_replayed(model, lines):
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(loading, "open_source", opened),
    ):
        folder = Path(name)
        (folder / "s.txt").write_bytes(SCRIPT)
        keeper, log, recording = Keeper(), Log(folder / "r.db"), Recording(folder / "r.txt")
        session = begun(keeper, log, recording, max_new_tokens=6, turns=TURNS)
        for line in [f":load {model}", *lines, ":end", "x"]:
            say(session, line.replace(":source ", f":source {folder}/"))
        recording.close()
        for receipt in log.find():
            assert say(session, f":replay {receipt.id}")[-1].startswith("identical: "), receipt
        log.close()
        assert given_by(folder / "r.txt") == keeper.texts


def given_by(path):
    """The texts that a recorded script gives in a session that was under other settings."""
    keeper, out, err = Keeper(), io.StringIO(), io.StringIO()
    session = begun(keeper, temperature=0.1, num_samples=2)
    status = Script(session, out, err).run(read(io.BytesIO(path.read_bytes())), path.name)
    assert status == 0, err.getvalue()
    return keeper.texts
