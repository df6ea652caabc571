"""A hundred malformed profiles and scripts: each one clear line, nothing changed, no traceback."""

from __future__ import annotations

import io
import random
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fakes import Speller, session_of
from gptrepl import chain, configuration, plugins, profiles, saving
from gptrepl.api import GptreplError
from gptrepl.commands import evaluate
from gptrepl.report import failure
from gptrepl.script import Script
from gptrepl.scripting import read
from gptrepl.settings import FIELDS, NEVER_SAVED, Settings

HUNDRED = range(100)
GOOD = [
    "temperature: 0.7",
    "top_k: 40",
    "seed: random",
    'start: "a\\nb"',
    "repetition_penalty: {penalty: 1.2, window: 64}",
    "chain: [top_k, temperature]",
    "description: words",
    "num_samples: 2",
]
BAD = [
    *("min_p: hot", "min_p: [1, 2]", "min_p: {a: 1}", "min_p: 7", "min_p: -1", "min_p: 1e999"),
    *("max_new_tokens: 1.5", "max_new_tokens:", "max_new_tokens: yes", "max_new_tokens: .nan"),
    *("dtype: int8", "device: gpu", "model:", "tokenizer: ''", "stop: {a: 1}", "chain2: [a]"),
    *("tmeperature: 1", "unknown: x", "12: 3", ": 3", "? [a]\n: b", "[a, b]: c", "{a: b}: c"),
    *("temp: 1\ntemp: 2", "temp: 1\ntemperature: 2", "a: b: c", "a: 'b", 'a: "b', "a: [b", "a: {b"),
    *("\tmin_p: 0.1", "min_p: \t", "- a", "a: *b", "a: &b [*b]", "<<: {min_p: 0.1}", "a: !!int x"),
    *(
        "min_p: !!python/object/apply:os.getcwd []",
        "x: \x00",
        "x: \x1b[2J",
        "x: \ud800",
        "%YAML 9.9",
    ),
    *(
        "extends: nobody",
        "extends: [creative, nobody]",
        "extends: {a: b}",
        "extends: me",
        "extends: 7",
    ),
    *("extends: [[a]]", "extends: ../../gone.yaml", "extends: ''", "commands: {a: b}"),
    *(
        "commands: [[a]]",
        "commands: 7\ncommands: 8",
        "commands: [':tmep 1']",
        "commands: [':temp x']",
    ),
    *("commands: [':for x in 1']", "commands: [':profile me']", "commands: [':end']"),
    *(
        "description: [a]",
        "description: {a: b}",
        "--- a\n--- b",
        "a\nb: c",
        "trust_remote_code: on",
    ),
    *(
        "seed: 18446744073709551616",
        "seed: -7",
        "seed: {a: {b: {c: {d: 1}}}}",
        "log: maybe",
        "@a: 1",
    ),
]
"""Each is wrong by itself, wherever it stands."""


def malformed_profile(number: int) -> bytes:
    """A profile with one fault, or more, somewhere among what is right."""
    chance = random.Random(number)
    bad = BAD[number % len(BAD)]
    keys = {line.split(":")[0] for line in bad.splitlines()} | (
        {"temperature"} if "temp" in bad else set()
    )
    lines = [
        line for line in chance.sample(GOOD, chance.randint(0, 5)) if line.split(":")[0] not in keys
    ]
    lines.insert(chance.randint(0, len(lines)), bad)
    text = chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["", "\n", "\n# end"])
    content = text.encode("utf-8", "surrogatepass")
    if number % 25 == 24:
        content = content[: len(content) // 2] + b"\xff\xfe" + content[len(content) // 2 :]
    return content


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles").mkdir()
    return session_of(Speller("!"), max_new_tokens=2)


def is_one_line(text: str) -> bool:
    return bool(text) and text.isprintable() and len(text) < 400


@pytest.mark.parametrize("number", HUNDRED)
def test_a_malformed_profile_is_one_line_and_changes_nothing(session, number):
    Path("profiles/me.yaml").write_bytes(malformed_profile(number))
    before = session.settings
    with pytest.raises(GptreplError) as refused:
        list(evaluate(session, ":profile me"))
    said = failure(refused.value)
    assert is_one_line(said), said
    assert "me.yaml" in said or "nobody" in said or "trust_remote_code" in said
    assert "internal error" not in said
    assert session.settings == before
    assert not session.scope.is_open


@pytest.mark.parametrize("number", range(0, 100, 7))
def test_a_malformed_configuration_is_one_line(tmp_path, monkeypatch, number):
    (tmp_path / "config.yaml").write_bytes(malformed_profile(number))
    monkeypatch.setattr(configuration, "path", lambda: tmp_path / "config.yaml")
    try:
        configuration.read({}).begin()
    except GptreplError as error:
        said = failure(error)
    else:
        said = "what is wrong in it are the commands, and they did not run"
    assert is_one_line(said)


LINES = [":temp 0.5", "x", ":let v = 1", "{v}", ":#", "", ":show temp", ":samples 1"]
WRONG = [
    *(":tmep 1", ":", ":)", ":42", ":temp hot", ":temp 1 2", ":top_k 1.5", ":seed -7"),
    *(":let 1 = 2", ":let nothing", ":for", ":for x", ":for x in", ":for 1 in 2", ":end"),
    *(":for x in 1", ":for x in 1\nx", ":for x in 1\n:for y in 2\n:end", ":multi", ":multi\n:quit"),
    *(":for x in 1\n:for y\n:end\n:end", ":for x in 1..99999999\n:end", ":for x in 1\n:nope\n:end"),
    *(
        ":expect",
        ":expect /(/",
        ":expect tokens",
        ":expect tokens x",
        ":expect color 1",
        ":expect /",
    ),
    *(
        ":expect text < 1",
        ":expect tokens ~ /a/",
        ":expect tokens =! 1",
        ":expect ending",
        ":expect 1",
    ),
    *(
        ":source",
        ":source gone.txt",
        ":source .",
        ":source s.txt",
        ":source bad.txt",
        ":source \x00",
    ),
    *(
        ":on-error perhaps",
        ":on_error 1",
        ":profile nobody",
        ":profile a+b",
        ":profile save",
        ":log rm",
    ),
    *(
        ":log rm x",
        ":log show",
        ":log show 1.5",
        ":log show 99",
        ":replay",
        ":replay x",
        ":replay 99",
        ":replay --5",
        f":ids {'9' * 5000}",
        f":for t in 1..{'9' * 5000}\n:end",
    ),
    *(
        ":ids",
        ":ids x",
        ":ids 999",
        ":ids -1",
        ":prompt",
        ":load nowhere/",
        ":file gone",
        ":chain a b",
    ),
    *(
        ":set nothing 1",
        ":reset nothing",
        ":help nothing",
        ":penalty a=b",
        ":penalty 1 2 3 4",
        ":defaults 1",
    ),
    *(
        ":banned a=b",
        ":profile rm nobody",
        ":profile show a b",
        ":profile diff",
        ":quit now",
    ),
]


def malformed_script(number: int) -> tuple[bytes, int]:
    """A script with a fault, and the number of the line where it begins."""
    chance = random.Random(number)
    lines = [chance.choice(LINES) for _ in range(chance.randint(0, 4))]
    lines = [line for line in lines if line != "{v}"]
    text = "\n".join(
        [*lines, WRONG[number % len(WRONG)], *(["x"] if chance.random() < 0.5 else [])]
    )
    if number % 25 == 24:
        return text.encode() + b"\n\xff", len(lines) + 1
    return text.encode(), len(lines) + 1


@pytest.mark.parametrize("number", HUNDRED)
def test_a_malformed_script_is_one_line_and_stops_there(session, number, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    content, first = malformed_script(number)
    Path("s.txt").write_bytes(content)
    Path("bad.txt").write_bytes(b"\xff")
    out, err = io.StringIO(), io.StringIO()
    script = Script(session, out, err)
    status = script.run(read(io.BytesIO(content)), "s.txt", path=Path("s.txt"))
    *_, said = err.getvalue().splitlines()
    assert status in (1, 3)
    assert is_one_line(said), said
    where = re.match(r"(s|bad)\.txt:(\d+): ", said) or re.match(r":multi has no :end", said)
    assert where, said
    assert said.startswith((":multi", "bad.txt")) or int(where[2]) >= first
    assert "internal error" not in said
    assert not session.scope.is_open
    assert session.block is None


# --- any profile saved and loaded is the same settings -------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
EXTRA = {
    "model": st.sampled_from(["", "out", "my model/", "#x", "null", "~"]),
    "tokenizer": st.sampled_from(["auto", "char", "char:my meta.pkl"]),
    "start": TEXT,
    "stop": st.lists(TEXT.filter(bool), max_size=3),
    "chain": st.lists(st.sampled_from(["top_k", "temperature", "min_p", "xtc"]), unique=True),
    "device": st.sampled_from(["auto", "cpu", "cuda:1"]),
    "seed": st.one_of(st.just("random"), st.integers(0, 2**64 - 1)),
    "banned": st.sampled_from(["", "a", 'x, "two words", "\\n"', "# a", "no, off"]),
    "logit_bias": st.sampled_from(["", "5=-inf", '" the"=2.5, 3=1e-07']),
    "dry": st.fixed_dictionaries({"multiplier": st.floats(0, 5), "breakers": TEXT}),
}


def values_of(name: str) -> st.SearchStrategy:
    """Values that setting or sampler *name* may take, and some that it may not."""
    if name in EXTRA:
        return EXTRA[name]
    numbers = st.one_of(st.floats(0, 1), st.integers(0, 300), st.just("off"), st.booleans())
    if name in FIELDS:
        return st.one_of(numbers, st.sampled_from(["auto", "on", "vi", "float32", "gelu", "story"]))
    fields = list(chain.knobs(name))
    return st.one_of(numbers, st.dictionaries(st.sampled_from(fields), numbers, min_size=1))


NAMES = [name for name in (*FIELDS, *plugins.installed("samplers")) if name not in NEVER_SAVED]
CHANGES = st.lists(
    st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), values_of(name))),
    max_size=8,
)


def changed(start: Settings, changes: list, origin: str) -> Settings:
    for name, value in changes:
        try:
            start = start.but(origin, **{name: value})
        except GptreplError:
            continue
    return start


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES, CHANGES, CHANGES, TEXT)
def test_any_profile_saved_and_loaded_is_the_same_settings(base, own, configured, description):
    with tempfile.TemporaryDirectory() as place:
        ground = Path(place, "ground.yaml")
        saving.save(
            ground, changed(Settings(), base, "typed"), profiles.Profile("ground", ground, {})
        )
        user = changed(Settings(), configured, "configuration")
        try:
            under = user.under("ground", profiles.read(str(ground)).changes)
        except GptreplError:  # two samplers that select, one of each, make no chain
            assume(False)
        mine = changed(under, own, "typed")
        path = Path(place, "mine.yaml")
        like = profiles.Profile("mine", path, {}, extends=(str(ground),), description=description)
        saving.save(path, mine, like)
        found = profiles.read(str(path))
        assert found.description == description
        for elsewhere in (user, Settings()):
            again = elsewhere.under("mine", found.changes)
            for name in NAMES:
                assert again.data(name) == mine.data(name), name
            assert again.active == mine.active
