"""Replay: a receipt is drawn again, and the first difference is told."""

from __future__ import annotations

import msgspec
import pytest
import torch

from fakes import Bytes, Interrupted, Learned, Speller, Uniform, session_of
from gptrepl import receipts
from gptrepl.api import ExpectationError, GptreplError, LoadError, Notice, Table, Token
from gptrepl.commands import drive, evaluate
from gptrepl.log import Log


@pytest.fixture
def log(tmp_path):
    kept = Log(tmp_path / "receipts.db")
    yield kept
    kept.close()


@pytest.fixture
def session(log):
    session = session_of(Learned(), max_new_tokens=12)
    session.recorders.append(log)
    return session


def say(session, line):
    return [event.text for event in evaluate(session, line) if isinstance(event, Notice)]


def changed(log, **changes):
    """Store the newest receipt once more, with changes of it or of its first sample."""
    receipt = log.find()[0]
    own = {
        name: changes.pop(name)
        for name in list(changes)
        if name in receipts.Drawn.__struct_fields__
    }
    sample = msgspec.structs.replace(receipt.samples[0], **own)
    changes["samples"] = [sample, *receipt.samples[1:]]
    log._disk.write(msgspec.structs.replace(receipt, **changes))


@pytest.mark.parametrize(
    "lines",
    [
        ["x"],
        [":temp 0", "x"],
        [":seed random", ":samples 3", ':start "a\\nb"', ":sample"],
        [":top_k 0", ":top_p 0.31415926535", ":xtc 0.5 0.05", ":chain top_p temperature", "x"],
        [":samples 40", ":tokens 2", "x"],
        ["x", ":more 5"],
        [":mode story", "x", "y"],
        [':stop "a" "b"', "x"],
    ],
)
def test_what_was_drawn_is_drawn_again(session, log, lines):
    for line in lines:
        list(evaluate(session, line))
    before = session.settings, session.samples, session.loaded
    for line in (":temp 0.123", ":seed 5", ":mode complete"):
        list(evaluate(session, line))
    for receipt in log.find():
        (said,) = say(session, f":replay {receipt.id}")
        assert said.startswith(f"identical: {receipt.tokens} tokens in ")
    assert session.samples == before[1]
    assert session.loaded is before[2]
    assert len(log.find()) == sum(
        not line.startswith(":") or line in (":sample", ":more 5") for line in lines
    )


# --- one stream of draws ------------------------------------------------------------------------


class Built(Learned):
    """A model whose build draws numbers, as sample.py's does."""

    def replay_build(self, generator):
        torch.rand(100, generator=generator)


def interrupted_after(session, tokens, **changes):
    """Sample from one stream, with Ctrl-C while a token is shown."""
    left = iter(range(tokens - 1, -1, -1))

    def show(event):
        if isinstance(event, Token) and next(left, None) == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(session.stream("x", one_stream=True, **changes), show)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n": 33},
        {"n": 3, "seed": "random"},
        {"n": 3, "seed": 2**64 - 1},
        {"n": 3, "temperature": 0},
        {"n": 3, "max_new_tokens": 0},
        {"n": 3, "stop": ["a", "e"]},
        {"n": 3, "xtc": 0.5},
        {"prompt": ["x", "yz"], "n": 2},
    ],
)
@pytest.mark.parametrize("model", [Learned, Built])
def test_one_stream_is_drawn_again(log, model, changes):
    session = session_of(model(), max_new_tokens=5)
    session.recorders.append(log)
    list(session.stream(**{"prompt": "x", "one_stream": True, **changes}))
    (receipt,) = log.find()
    assert [one.text for one in receipt.samples] == [one.text for one in session.samples]
    assert len({one.seed for one in receipt.samples}) == 1
    for line in (":tokens 3", ":seed 5", ":temp 0.1"):
        list(evaluate(session, line))
    assert say(session, ":replay 1")[-1].startswith(f"identical: {receipt.tokens} tokens in ")
    (again,) = receipts.from_json([receipts.to_json(receipt)], "r")
    assert again == receipt


def test_a_stream_runs_through_all_samples_and_begins_behind_the_build(log):
    session = session_of(Built(), max_new_tokens=4, top_k=0)
    session.recorders.append(log)
    list(session.stream("x", n=3, one_stream=True))
    generator = torch.Generator().manual_seed(1337)
    torch.rand(100, generator=generator)
    for sample in session.samples:
        ids = [ord("x")]
        for _ in range(4):
            odds = (session.model.logits([ids]) / 0.8).softmax(-1)
            ids.append(int(torch.multinomial(odds, 1, generator=generator)))
        assert [*sample.ids, *sample.tokens] == ids
    assert [one.stream for one in log.find()[0].samples] == [0, 4, 8]
    assert (
        "sample 3: seed 1337 after 8 draws of one stream, 4 tokens"
        in say(session, ":log show 1")[-1]
    )


@pytest.mark.parametrize(
    ("tokens", "samples", "begun", "ending"),
    [
        (1, 3, 3, "interrupted"),
        (3, 3, 3, "interrupted"),
        (5, 3, 3, "length"),  # all of them are drawn when the second one is shown
        (97, 33, 32, "length"),  # and 32 of them, but not the last
        (129, 33, 33, "interrupted"),
    ],
)
def test_a_stream_that_was_cut_short_keeps_its_places(log, tokens, samples, begun, ending):
    session = session_of(Built(), max_new_tokens=4)
    session.recorders.append(log)
    interrupted_after(session, tokens, n=samples)
    (receipt,) = log.find()
    assert receipt.ending == ending
    assert len(receipt.samples) == begun
    assert [one.stream for one in receipt.samples] == [4 * place for place in range(begun)]
    assert say(session, ":replay 1") == [f"identical: {receipt.tokens} tokens in {begun} samples"]


def test_another_place_in_the_stream_is_another_text(session, log):
    list(session.stream("x", one_stream=True))
    changed(log, stream=1)
    changed(log, stream=None, seed=4)
    for number in (2, 3):
        with pytest.raises(ExpectationError, match="has another token"):
            list(evaluate(session, f":replay {number}"))
    line = receipts.to_json(log.get(2)).replace(b'"stream":1', b'"stream":-1')
    with pytest.raises(GptreplError, match=r"r:1 is no receipt: .*samples\[0\].stream"):
        receipts.from_json([line], "r")


class Sure(Uniform):
    """Is nearly sure of A, so that only a sampler that strikes gives B."""

    def logits(self, rows):
        odds = torch.full((len(rows), self.vocab_size), -torch.inf)
        odds[:, ord("A")], odds[:, ord("B")] = 8.0, 0.0
        return odds


def test_the_draws_of_samplers_are_others_for_each_sample_of_a_stream():
    session = session_of(Sure(), max_new_tokens=20, temperature="off")
    list(session.stream("x", n=8, one_stream=True, xtc=[0.5, 0]))
    texts = [sample.text for sample in session.samples]
    assert len(set(texts)) == 8
    list(session.stream("x", n=1, one_stream=True, xtc=[0.5, 0]))
    assert session.samples[0].text == texts[0]


def test_a_session_goes_on_from_one_stream_with_seeds_of_their_own(session, log):
    list(session.stream("x", n=3, one_stream=True))
    for line in (":undo 2", ":undo 1", ":more 5", ":retry"):
        list(evaluate(session, line))
        assert len({one.text for one in session.samples}) == 3
    assert [(one.seed, one.stream) for one in session.samples] == [
        (1341, None),
        (1342, None),
        (1343, None),
    ]
    assert [len(one.ids) for one in session.samples] == [1 + 12 - 3] * 3
    for receipt in log.find():
        assert say(session, f":replay {receipt.id}")[0].startswith("identical: ")
    assert say(session, ":undo")[0].startswith("the text ends: ")
    assert len(session.samples) == 3


# --- drift --------------------------------------------------------------------------------------


def test_the_first_other_token_is_told_with_both_probabilities(session, log):
    list(evaluate(session, "x"))
    ids = log.find()[0].samples[0].ids
    changed(log, ids=[*ids[:4], 7, *ids[5:]], versions={"torch": "1.0"}, device="cpu")
    with pytest.raises(ExpectationError) as drift:
        list(evaluate(session, ":replay 2"))
    assert str(drift.value).startswith(
        'not identical: sample 1 has another token 5: it was "\\u0007" with probability '
    )
    assert drift.value.status == 4
    events = evaluate(session, ":replay 2")
    said = []
    with pytest.raises(ExpectationError):
        said.extend(event.text for event in events if isinstance(event, Notice))
    assert f"torch 1.0 -> {torch.__version__}" in said
    assert not any(line.startswith(("device", "dtype", "tokenizer")) for line in said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": [1], "logprobs": [-1.0]}, "has another token 1"),
        ({"text": "another"}, "has the same tokens, but they spell another text"),
        ({"seed": 1}, "has another token"),
        ({"prompt_ids": [121]}, "has another token"),
    ],
)
def test_other_differences_are_told(session, log, change, message):
    list(evaluate(session, "x"))
    changed(log, **change)
    with pytest.raises(ExpectationError, match=message):
        list(evaluate(session, ":replay 2"))


def test_one_that_ends_elsewhere_is_told(session, log):
    list(evaluate(session, "x"))
    sample = log.find()[0].samples[0]
    changed(log, ids=sample.ids[:5], logprobs=sample.logprobs[:5])
    with pytest.raises(ExpectationError, match="goes on after its 5 tokens"):
        list(evaluate(session, ":replay 2"))
    changed(log, ids=[*sample.ids, 3], logprobs=[*sample.logprobs, -1.0])
    with pytest.raises(ExpectationError, match="ends after 12 tokens, and had 13"):
        list(evaluate(session, ":replay 3"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, GptreplError, ZeroDivisionError])
def test_one_that_was_cut_short_is_identical_as_far_as_it_goes(log, error):
    session = session_of(Interrupted("hello", 3, error), max_new_tokens=9)
    session.recorders.append(log)
    with pytest.raises(error):
        list(session.stream("x"))
    assert say(session, ":replay 1") == ["identical: 3 tokens in 1 sample"]


def test_numbers_that_are_off_are_told_where_the_text_is_the_same(session, log):
    list(evaluate(session, "x"))
    logprobs = log.find()[0].samples[0].logprobs
    changed(log, logprobs=[logprobs[0] + 0.0001, *logprobs[1:]])
    assert say(session, ":replay 2") == [
        "identical: 12 tokens in 1 sample; the log-probabilities are 0.0001 off at most"
    ]


def test_a_tokenizer_that_spells_otherwise_is_told(session, log, monkeypatch):
    list(evaluate(session, "x"))
    monkeypatch.setattr(Bytes, "token_bytes", lambda _self, token: bytes([token ^ 1]))
    with pytest.raises(ExpectationError, match="they spell another text"):
        list(evaluate(session, ":replay 1"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, GptreplError])
def test_what_cuts_a_replay_short_is_no_drift(log, error):
    session = session_of(Speller("hello"), max_new_tokens=9)
    session.recorders.append(log)
    list(session.stream("x"))
    broken = session_of(Interrupted("hello", 3, error))
    broken.recorders.append(log)
    with pytest.raises(error) as raised:
        list(evaluate(broken, ":replay 1"))
    assert not isinstance(raised.value, ExpectationError)
    assert say(broken, ":replay 1") == ["identical: 9 tokens in 1 sample"]


def test_what_cannot_be_drawn_is_an_error_and_no_drift(session, log):
    list(evaluate(session, "x"))
    receipt = log.find()[0]
    changed(log, model="nowhere/")
    with pytest.raises(LoadError, match="nothing here can load 'nowhere/'"):
        list(evaluate(session, ":replay 2"))
    changed(log, model="fake", settings={**receipt.settings, "gone_sampler": 0.5})
    with pytest.raises(GptreplError, match="no sampler named 'gone_sampler'") as error:
        list(evaluate(session, ":replay 3"))
    assert error.value.status == 1


# --- files --------------------------------------------------------------------------------------


def test_a_file_of_receipts_is_replayed(session, log, tmp_path):
    for line in ("x", ":temp 0.5", "y"):
        list(evaluate(session, line))
    path = tmp_path / "my receipts.jsonl"
    assert say(session, f':log export "{path}"') == [f"2 receipts written to {path}"]
    assert len(path.read_bytes().splitlines()) == 2
    assert len(say(session, f":replay {path}")) == 2
    with pytest.raises(GptreplError, match="is there already: `:log export! "):
        list(evaluate(session, f':log export "{path}"'))
    assert say(session, f':log export! "{path}" y') == [f"1 receipt written to {path}"]
    (only,) = receipts.from_json(path.read_bytes().splitlines(), "p")
    assert only.samples[0].prompt == "y"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"bad.jsonl:1 is no receipt: "),
        (b"\n{}\n", r"bad.jsonl:2 is no receipt: .*missing required field"),
        (b"\xff\n", r"bad.jsonl:1 is no receipt: "),
        (b"[1]", r"bad.jsonl:1 is no receipt: Expected `object`"),
    ],
)
def test_a_file_of_other_things_is_refused(session, tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_bytes(content)
    with pytest.raises(GptreplError, match=message):
        list(evaluate(session, ":replay bad.jsonl"))


# --- the command :log ---------------------------------------------------------------------------


def table(session, line):
    (found,) = [event for event in evaluate(session, line) if isinstance(event, Table)]
    return found


def test_the_log_is_listed_with_the_newest_last(session):
    for line in (":log", ":log 5"):
        assert say(session, line) == ["there are no receipts yet"]
    for line in ("one", "two", "three"):
        list(evaluate(session, line))
    assert [row[0] for row in table(session, ":log").rows] == ["1", "2", "3"]
    assert [row[5] for row in table(session, ":log 2").rows] == ["two", "three"]
    assert [row[5] for row in table(session, ":log hree").rows] == ["three"]
    for words in ("42 42", "0"):
        assert say(session, f":log {words}") == [f"no receipt holds '{words}'"]


def test_a_receipt_is_shown_whole(session):
    list(evaluate(session, "x"))
    facts = dict(table(session, ":log show 1").rows)
    assert (facts["model"], facts["chain"], facts["temperature"]) == (
        "fake",
        "temperature top_k",
        "0.8",
    )
    assert say(session, ":log show 1")[0].endswith(session.samples[0].text)
    with pytest.raises(GptreplError, match="there is no receipt 9, see :log"):
        list(evaluate(session, ":log show 9"))


def test_receipts_are_removed_and_the_log_is_switched(session, log):
    list(evaluate(session, "x"))
    with pytest.raises(GptreplError, match=":log rm needs the numbers of receipts"):
        list(evaluate(session, ":log rm"))
    with pytest.raises(GptreplError, match="there is no receipt 7, see :log"):
        list(evaluate(session, ":log rm 1 7"))
    assert say(session, ":log rm 1") == ["1 receipt removed"]
    assert say(session, ":log off") == ["log off"]
    list(evaluate(session, "x"))
    assert say(session, ":set log on") == ["log on"]
    assert log.find() == []
