"""A live session recorded as a script gives the same text again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fakes import Interrupted, Learned, Speller, session_of
from gptrepl.api import GptreplError, Notice
from gptrepl.commands import evaluate
from gptrepl.recording import Recording
from gptrepl.script import Script
from gptrepl.scripting import read


def replayed(path, model=None, **changes):
    """The texts that a recorded script gives in a new session under other settings."""
    session = session_of(model or Learned(), **{"temperature": 0.1, "num_samples": 2, **changes})
    texts = []
    session.recorders.append(Keeper(texts))
    out, err = io.StringIO(), io.StringIO()
    found = read(io.BytesIO(path.read_bytes()))
    lines = [line for line in found if not line.startswith(":load ")]
    status = Script(session, out, err).run(lines, path.name)
    assert status == 0, err.getvalue()
    return texts


class Keeper:
    """Keeps the texts of all samples that were begun."""

    def __init__(self, texts):
        self.texts = texts

    def started(self, generation): ...

    def drawn(self, generation): ...

    def ended(self, generation):
        self.texts += [one.text for one in generation.samples if one.ending or one.tokens]

    def said(self):
        return ()


def recorded(path, lines, model=None, **changes):
    """Run *lines*, those that fail too, and return the texts they gave."""
    session = session_of(model or Learned(), max_new_tokens=6, **changes)
    recording = Recording(path)
    texts = []
    session.recorders += [recording, Keeper(texts)]
    for line in lines:
        try:
            list(evaluate(session, line))
        except (GptreplError, KeyboardInterrupt):
            session.scope.drop()
    recording.close()
    return texts


def test_a_script_says_what_took_effect(tmp_path):
    path = tmp_path / "r.txt"
    lines = (
        ":temp 0.5",
        ":temp hot",
        ":nope",
        ":temp 0.7",
        ":show",
        "x",
        ":seed 4",
        ":samples 2",
        "y",
    )
    texts = recorded(path, lines)
    first, *others = path.read_text().splitlines()
    assert first.startswith(":# gptrepl ")
    assert first.endswith(", cpu float32")
    assert others == [
        ":load fake",
        ":defaults",
        ":temperature 0.7",
        ":max_new_tokens 6",
        "x",
        ":seed 4",
        ":num_samples 2",
        "y",
    ]
    assert replayed(path) == texts


def test_a_model_is_named_with_the_tokenizer_that_was_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my meta").mkdir()
    (tmp_path / "meta.pkl").touch()
    for tokenizer, line in {
        "auto": ":load fake",
        "gpt2": ":load fake gpt2",
        "char:meta.pkl": f":load fake char:{tmp_path}/meta.pkl",
    }.items():
        (tmp_path / "r.txt").unlink(missing_ok=True)
        session = session_of(Learned(), max_new_tokens=6)
        session.settings = session.settings.but(tokenizer=tokenizer)
        session.recorders.append(Recording(tmp_path / "r.txt"))
        list(session.stream("x"))
        session.recorders[0].close()
        _, *lines = (tmp_path / "r.txt").read_text().splitlines()
        assert lines[:2] == [line, ":defaults"]
        assert not [line for line in lines if line.startswith(":tokenizer")]


def test_random_seeds_are_pinned(tmp_path):
    texts = recorded(tmp_path / "r.txt", [":seed random", "x", "x", ":samples 3", "x"])
    assert len(set(texts)) == 5
    assert replayed(tmp_path / "r.txt") == texts


@pytest.mark.parametrize(
    "prompt",
    [
        "  two  ",
        "::",
        "::a",
        "a\nb",
        ":a\n:b",
        "\ufeffa",
        "a\r\nb",
        "{x}",
        '"a"',
        "# a",
        "é 🙂 \u2028",
    ],
)
def test_any_prompt_is_written_so_that_it_is_read_again(tmp_path, prompt):
    texts = recorded(tmp_path / "r.txt", [":let y = 1", prompt])
    assert replayed(tmp_path / "r.txt") == texts


def test_loops_variables_and_profiles_leave_what_they_came_to(tmp_path):
    lines = [
        ":profile creative",
        ":for t in 0.5 1",
        ":temp {t}",
        "at {t}",
        ":end",
        ":let s = x",
        "{s}",
    ]
    texts = recorded(tmp_path / "r.txt", lines)
    content = (tmp_path / "r.txt").read_text()
    assert "at 0.5\n" in content
    assert "{" not in content
    assert not [word for word in (":for", ":let", ":profile") if word in content]
    assert replayed(tmp_path / "r.txt") == texts


def test_a_text_that_grew_is_written_by_its_ids(tmp_path):
    texts = recorded(tmp_path / "r.txt", ["x", ":more 4", ":mode story", "and", ":retry"])
    assert replayed(tmp_path / "r.txt") == texts


def test_a_seam_in_the_middle_of_a_character_is_kept(tmp_path):
    lines = [":tokens 1", "x", ":mode story", ":more 1"]
    texts = recorded(tmp_path / "r.txt", lines, Speller("é"))
    assert texts == ["x\ufffd", "x\ufffd\ufffd"]
    assert replayed(tmp_path / "r.txt", Speller("é")) == texts


@pytest.mark.parametrize("error", [KeyboardInterrupt, GptreplError])
def test_what_was_cut_short_is_as_short_again(tmp_path, error):
    texts = recorded(tmp_path / "r.txt", ["x", "x"], Interrupted("hello", 3, error))
    assert texts == ["xhel", "xhelloh"]
    assert replayed(tmp_path / "r.txt", Speller("hello")) == texts


def test_samples_of_one_stream_are_said_to_be_missing(tmp_path):
    session = session_of(Learned(), max_new_tokens=2)
    recording = Recording(tmp_path / "r.txt")
    session.recorders.append(recording)
    for one_stream in (True, False):
        events = list(session.stream("x", n=2, one_stream=one_stream))
        said = [event.text for event in events if isinstance(event, Notice) and event.warning]
        why = "no line of a script draws samples from one stream"
        assert said == one_stream * [f"it is not recorded to {tmp_path}/r.txt: {why}"]
    recording.close()
    assert (tmp_path / "r.txt").read_text().startswith(":# samples are missing here: ")
    assert replayed(tmp_path / "r.txt") == [sample.text for sample in session.samples]


def test_a_recording_is_never_written_over(tmp_path):
    (tmp_path / "r.txt").write_text("mine")
    with pytest.raises(GptreplError, match=r"r\.txt is there already: record to another file"):
        Recording(tmp_path / "r.txt")
    with pytest.raises(GptreplError, match=r"cannot record to .*: No such file"):
        Recording(tmp_path / "gone/r.txt")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_said_once_and_the_session_goes_on(monkeypatch):
    full = Path("/dev/full").open("w")  # noqa: SIM115 - the recording closes it
    monkeypatch.setattr(Path, "open", lambda *_, **__: full)
    recording = Recording(Path("/dev/full"))
    session = session_of(Speller("!"), max_new_tokens=2)
    session.recorders.append(recording)
    said = [e.text for _ in range(2) for e in session.stream("x") if isinstance(e, Notice)]
    assert said == ["nothing is recorded any more to /dev/full: No space left on device"]
    recording.close()
