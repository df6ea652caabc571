"""The samplers that have to know what the tokens say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gptrepl.api import GptreplError
from gptrepl_plugins.samplers.banned import Banned
from gptrepl_plugins.samplers.bias import LogitBias
from gptrepl_plugins.samplers.dry import DRY
from gptrepl_plugins.samplers.length import MinNewTokens
from gptrepl_plugins.samplers.phrases import phrases

GONE = float("-inf")
FLAT = torch.zeros(5)


class Pieces:
    """A tokenizer of a few pieces; a text is split into the longest that fit."""

    def __init__(self, *pieces: str):
        self.pieces = pieces
        self.vocab_size = len(pieces)

    def encode(self, text: str) -> list[int]:
        ids = []
        while text:
            fitting = [piece for piece in self.pieces if text.startswith(piece)]
            if not fitting:
                raise GptreplError(f"{text[0]!r} is outside the alphabet")
            ids.append(self.pieces.index(max(fitting, key=len)))
            text = text[len(max(fitting, key=len)) :]
        return ids

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token].encode()


ABC = Pieces("a", "b", "c", "ab", "<|endoftext|>")


def apply(sampler: Any, ids: list[int], prompt_length: int = 1) -> Tensor:
    left: Tensor = sampler.bind(ABC, prompt_length)(FLAT, ids)
    return left


def gone(left: Tensor) -> list[int]:
    return (left == GONE).nonzero().flatten().tolist()


# --- lists --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("a", [("a", False, None)]),
        (" two words , b,", [("two words", False, None), ("b", False, None)]),
        ('" a","b, c"', [(" a", True, None), ("b, c", True, None)]),
        (r'"\n\"é"=-1', [('\n"é', True, "-1")]),
        ("50256=-inf, the = 2.5", [("50256", False, "-inf"), ("the", False, "2.5")]),
    ],
)
def test_lists(line, expected):
    found = phrases(line, "banned")
    assert [(phrase.text, phrase.quoted, phrase.value) for phrase in found] == expected


@pytest.mark.parametrize("line", [",", "a,,b", '"a', '"a"b', "=1", "a=", '""', r'"\q"', "a=1=2"])
def test_what_is_no_list_is_refused(line):
    for kind in (Banned, LogitBias):
        with pytest.raises(GptreplError, match=r"^(banned|logit_bias) "):
            kind(line)


# --- logit bias ---------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [f"{'9' * 5000}=1", "9" * 5000, f"a={'x' * 5000}"])
def test_what_is_too_long_is_refused_in_one_short_line(line):
    with pytest.raises(GptreplError, match=r"^logit_bias [^\n]{1,80}$"):
        LogitBias(line)


def test_bias_by_id_and_by_text():
    left = apply(LogitBias('0=-inf, "b"=2.5, ab=-1'), [0])
    assert left.tolist() == [GONE, 2.5, 0.0, -1.0, 0.0]


def test_bias_by_id_needs_no_tokenizer():
    assert LogitBias("1=2, b=5, 99=1")(FLAT, [0]).tolist() == [0.0, 2.0, 0.0, 0.0, 0.0]


def test_bias_leaves_something():
    assert LogitBias("0=-inf")(torch.zeros(1), [0]).tolist() == [0.0]


@pytest.mark.parametrize("line", ["1", "1=x", "1=inf", "1=nan", "1=1e39"])
def test_bias_is_a_number(line):
    with pytest.raises(GptreplError, match="'1' must be a number or -inf, not"):
        LogitBias(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("5=1", "no token 5: the vocabulary has 5"),
        ("abc=1", "'abc' is 2"),
        ("d=1", "outside the alphabet"),
        ("b=1, 0=3, b=2", "lists token 1 twice, also as 'b'"),
        ("1=1, b=2", "lists token 1 twice, also as 'b'"),
    ],
)
def test_bias_is_checked_against_the_tokenizer(line, reason):
    with pytest.raises(GptreplError, match=reason):
        LogitBias(line).bind(ABC, 1)


# --- banned texts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "ids", "expected"),
    [
        ("b", [0], [1, 3]),  # alone and within ab
        ("ab", [2], [3]),
        ("ab", [0], [1, 3]),  # a, then b
        ("abc", [0, 1], [2]),
        ("abc", [3], [2]),  # the same text in other tokens
        ("bab", [1], [3]),
        ("bab", [1, 0], [1]),
        ("bab", [0, 1], [3]),
        ("cc, a", [2], [0, 2, 3]),
        ("", [0], []),
    ],
)
def test_a_banned_text_is_never_completed(texts, ids, expected):
    assert gone(apply(Banned(texts), ids)) == expected


def test_banned_texts_have_no_values_and_fit_the_alphabet():
    with pytest.raises(GptreplError, match="without values; quote the equals sign of 'a'"):
        Banned("a=1")
    assert Banned('"a=1"')(FLAT, [0]) is FLAT
    with pytest.raises(GptreplError, match="outside the alphabet"):
        Banned("ad").bind(ABC, 1)


def test_banning_everything_bans_nothing():
    assert gone(apply(Banned("a, b, c, <|endoftext|>"), [0])) == []


# --- length -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "expected"), [([0, 1], [4]), ([0, 1, 2, 2], [4]), ([0, 1, 2, 2, 2], [])]
)
def test_the_end_waits_for_new_tokens(ids, expected):
    assert gone(apply(MinNewTokens(3), ids, prompt_length=2)) == expected


def test_another_end():
    assert gone(apply(MinNewTokens(3, "ab"), [0])) == [3]
    with pytest.raises(GptreplError, match="'abc' is not one token of this tokenizer"):
        MinNewTokens(3, "abc").bind(ABC, 1)
    with pytest.raises(GptreplError, match="name the token with end=TEXT"):
        MinNewTokens(3, "xyz").bind(ABC, 1)
    assert gone(apply(MinNewTokens(0, "xyz"), [0])) == []


# --- DRY ----------------------------------------------------------------------------------------

LINES = Pieces("a", "b", "c", ".\n", " ")


@pytest.mark.parametrize(
    ("ids", "breakers", "lost"),
    [
        ([0, 1, 2, 0, 1], r"\n", [0.0, 0.0, 1.0, 0.0, 0.0]),  # ab repeats before c
        ([0, 3, 2, 0, 3], r"\n", [0.0] * 5),  # a breaker ends it
        ([0, 3, 2, 0, 3], "", [0.0, 0.0, 1.0, 0.0, 0.0]),
        ([0, 3, 1, 2, 0, 3, 1], r"\n", [0.0] * 5),  # one token since the breaker
        ([0, 1, 3, 0, 1], r"\n", [0.0] * 5),  # the breaker itself
        ([0, 1, 4, 0, 1], r"\s", [0.0] * 5),  # a space
        ([0, 1, 4, 0, 1], "x", [0.0, 0.0, 0.0, 0.0, 1.0]),
    ],
)
def test_dry_stops_at_breakers(ids, breakers, lost):
    left = DRY(1.0, breakers=breakers).bind(LINES, 1)(FLAT, ids)
    assert (-left).tolist() == pytest.approx(lost)


def test_dry_breaks_at_its_usual_characters():
    pieces = Pieces("a", "b", "c", ":", '"', "*", "\n", ".")
    broken = []
    for token in range(3, 8):
        left = DRY(1.0).bind(pieces, 1)(torch.zeros(8), [0, token, 2, 0, token])
        broken.append(bool((left == 0).all()))
    assert broken == [True, True, True, True, False]
