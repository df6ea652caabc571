"""Stop strings: they end a sample, are no part of it and are never half shown."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import Bytes, Interrupted, Speller, Uniform, session_of
from gptrepl.api import GptreplError, Notice, SampleEnded, Token
from gptrepl.commands import evaluate
from gptrepl.report import summary
from gptrepl.settings import Settings
from gptrepl.stops import Watch, check, read, written

# --- how they are written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("JULIET:", ("JULIET:",)),
        ("two words, and a comma", ("two words, and a comma",)),
        (r'"\n\n"', ("\n\n",)),
        (r'"\n\n" "JULIET:"', ("\n\n", "JULIET:")),
        (r'"a", "b","a"', ("a", "b")),
        ('"off"', ("off",)),
        ("off", ()),
        ("", ()),
        (None, ()),
        (False, ()),
        ("\n\n", ("\n\n",)),
        ('"', ('"',)),
        ('"half', ('"half',)),
        ('say "no"', ('say "no"',)),
        (["\n\n", '"quoted"'], ("\n\n", '"quoted"')),
        ([], ()),
    ],
)
def test_a_value_is_one_text_or_several_in_quotes(value, expected):
    assert check(value) == expected
    assert Settings().but(stop=value).stop == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "stop must be a text or a list of texts, not 3"),
        (["a", 3], "stop must be a text or a list of texts"),
        ('""', "stop has an empty text"),
        (["a", ""], "stop has an empty text"),
        (r'"\q"', r'stop has an unknown escape in "\\q"'),
    ],
)
def test_a_fault_is_one_line(value, message):
    with pytest.raises(GptreplError, match=message):
        check(value)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True))
def test_what_is_written_is_read_again(stops):
    assert read(written(stops)) == stops


def test_the_command_a_profile_and_the_command_line_say_the_same(tmp_path):
    from gptrepl.profiles import parse

    session = session_of(Speller("!"), max_new_tokens=2)
    (said,) = evaluate(session, r':stop "\n\n" "B:"')
    assert said == Notice(r'stop "\n\n" "B:"')
    typed = session.settings.stop
    profile = parse('stop: ["\\n\\n", "B:"]\nstop-at-end: on\n', tmp_path / "p.yaml")
    assert typed == ("\n\n", "B:") == profile.changes["stop"]
    assert profile.changes["stop_at_end"] is True
    assert Settings().but("command line", stop=r'"\n\n" "B:"').stop == typed
    assert [e.text for e in evaluate(session, ":stop off")] == ["stop off"]


# --- in a sample --------------------------------------------------------------------------------


def say(text, tokens=None, **changes):
    """What a model that says *text* prints after `x`: the pieces and the end."""
    session = session_of(Speller(text), max_new_tokens=tokens or len(text), **changes)
    events = list(session.stream("x", temperature=0))
    pieces = [event.text for event in events if isinstance(event, Token)]
    ended = events[-1]
    assert ended.text == "x" + "".join(pieces) + ended.tail
    return pieces, ended


def test_a_stop_string_over_many_tokens_is_never_half_shown():
    pieces, ended = say("one\n\ntwo", stop="\n\n")
    assert pieces == ["o", "n", "e", "", ""]
    assert (ended.text, ended.tail, ended.ending, ended.tokens) == ("xone", "", "stop", 5)
    assert summary(ended).startswith("stopped, 5 tokens")


def test_what_only_began_like_one_is_shown_in_full():
    pieces, ended = say("a\nb", stop="\n\n")
    assert pieces == ["a", "", "\nb"]
    assert ended.ending == "length"


def test_what_is_held_when_the_sample_is_long_enough_is_its_tail():
    pieces, ended = say("a\n", stop="\n\n")
    assert (pieces, ended.tail, ended.text) == (["a", ""], "\n", "xa\n")


def test_what_follows_within_the_token_is_not_part_of_it():
    class Pairs(Bytes):
        def token_bytes(self, token):
            return b"END of it" if token == 1 else bytes([token])

    session = session_of(Speller("a\x01b"), Pairs(), max_new_tokens=9, stop="END", temperature=0)
    assert session.generate("x") == "xa"


def test_the_first_that_is_complete_counts_and_then_the_longest():
    assert say("abcd", stop=["abcd", "bc"])[1].text == "xa"
    assert say("abcd", stop=["b", "ab"])[1].text == "x"


def test_the_prompt_holds_no_stop_string():
    session = session_of(Speller("b", prompt=1), max_new_tokens=2, stop=["x", "xb"], temperature=0)
    assert session.generate("x") == "xbb"


def test_a_character_split_over_tokens_can_be_a_stop():
    pieces, ended = say("a€b", 5, stop="€")
    assert (pieces, ended.text, ended.tokens) == (["a", "", "", ""], "xa", 4)
    assert say("a€", 3, stop="€")[1].text == "xa\ufffd"


def test_the_end_of_the_text_is_a_token_and_only_where_it_is_asked_for():
    class Ended(Bytes):
        end = ord("E")

    session = session_of(Speller("a\nE b"), Ended(), max_new_tokens=5, temperature=0)
    assert session.generate("x") == "xa\nE b"
    events = list(session.stream("x", stop_at_end=True, stop="\n\n"))
    pieces = [event.text for event in events if isinstance(event, Token)]
    assert (pieces, events[-1].tail) == (["a", "", ""], "\n")
    assert (events[-1].text, events[-1].ending) == ("xa\n", "stop")


def test_several_tokens_can_end_a_text():
    class Ended(Bytes):
        end = (ord("E"), ord("F"))

    session = session_of(Speller("aF E"), Ended(), max_new_tokens=4, temperature=0)
    assert session.generate("x") == "xaF E"
    assert session.generate("x", stop_at_end=True) == "xa"


def test_one_row_stops_and_the_others_go_on():
    model = Uniform()
    session = session_of(model, max_new_tokens=40, num_samples=6)
    free = [event for event in session.stream("x") if isinstance(event, SampleEnded)]
    stop = free[2].text[5:7]
    ended = [event for event in session.stream("x", stop=stop) if isinstance(event, SampleEnded)]
    assert [event.index for event in ended] == list(range(6))
    for before, after in zip(free, ended, strict=True):
        assert after.text == "x" + before.text[1:].partition(stop)[0]
        assert (after.ending == "stop") == (stop in before.text[1:])
    assert ended[2].tokens < 40


def test_a_batch_grows_smaller_as_its_rows_stop():
    class Counting(Uniform):
        def logits(self, rows):
            sizes.append(len(rows))
            return super().logits(rows)

    sizes: list[int] = []
    session = session_of(Counting(), max_new_tokens=60, stop=[*"aeiou", *"\n ."])
    session.generate("x", n=4)
    assert sizes[0] == 4
    assert all(before >= after for before, after in pairwise(sizes))
    assert sizes[-1] < 4


def test_an_interrupt_leaves_what_had_stopped_as_it_was():
    model = Interrupted("ab", 1, KeyboardInterrupt)
    session = session_of(model, max_new_tokens=9, stop="a", temperature=0, num_samples=1)
    stream = session.stream("x")
    kinds = [next(stream), next(stream)]
    ended = stream.throw(KeyboardInterrupt)
    assert isinstance(kinds[1], Token)
    assert (ended.ending, ended.text) == ("stop", "x")


def test_a_stop_that_can_never_come_is_said_once():
    class Letters(Bytes):
        def encode(self, text):
            if not text.isalpha():
                raise GptreplError("letters only")
            return super().encode(text)

    session = session_of(Speller("a"), Letters(), max_new_tokens=1, stop=["a", "?"])
    session.set(stop_at_end=True, temperature=0)
    said = [event.text for event in session.stream("x") if isinstance(event, Notice)]
    assert said == [
        'stop "?" has no effect: the tokenizer cannot write it',
        "stop_at_end has no effect: the tokenizer has no token that ends a text",
    ]
    assert not [event for event in session.stream("x") if isinstance(event, Notice)]


# --- the watch ----------------------------------------------------------------------------------

texts = st.text("ab\n", max_size=30)


@given(texts, st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3), st.data())
def test_how_the_text_is_split_makes_no_difference(text, stops, data):
    def through(pieces):
        watch, shown = Watch(stops), ""
        for piece in pieces:
            shown += watch.add(piece)
            if watch.found:
                break
        assert not any(stop in shown + watch.held for stop in stops)
        return shown + watch.held, watch.found

    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    edges = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert through(pieces) == through(text) == through([text])


def test_nothing_is_held_without_need():
    watch = Watch(["\n\n", "bat"])
    assert [watch.add(piece) for piece in "a ba\nbx"] == ["a", " ", "", "", "ba", "\n", "bx"]
