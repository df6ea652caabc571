"""One parser for every value: what it takes, and the words in which it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from gptrepl.api import GptreplError, Knob
from gptrepl.values import convert, format_value, near, spelled, unquoted

WINDOW = int | Literal["off", "all"]


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("0.7", float, 0.7),
        (".5", float, 0.5),
        ("5.", float, 5.0),
        ("1e-3", float, 0.001),
        ("1", float, 1.0),
        (1, float, 1.0),
        ("40", int, 40),
        ("40.0", int, 40),
        ("1e3", int, 1000),
        ("0123", int, 123),
        ("64", WINDOW, 64),
        ("All", WINDOW, "all"),
        ("off", WINDOW, "off"),
        ("on", bool, True),
        ("No", bool, False),
        ("42", str, "42"),
        (np.int64(40), int, 40),
        (np.float32(0.5), float, 0.5),
        (Fraction(1, 4), float, 0.25),
    ],
)
def test_a_value_becomes_its_type(value, annotation, expected):
    result = convert(value, annotation, "knob", Knob(ge=0))
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "annotation", "limits", "message"),
    [
        ("hot", float, Knob(ge=0), "k must be a number, 0 or more, not 'hot'"),
        ("-1", int, Knob(ge=0), "k must be a whole number, 0 or more, not '-1'"),
        ("40.5", int, Knob(ge=0), "k must be a whole number, 0 or more, not '40.5'"),
        (40.5, int, Knob(), "k must be a whole number, not 40.5"),
        ("nan", float, Knob(ge=0, le=1), "k must be a number from 0 to 1, not 'nan'"),
        ("2", float, Knob(gt=0, le=1), "k must be a number above 0, at most 1, not '2'"),
        ("inf", float, Knob(gt=0), "k must be a number above 0, not 'inf'"),
        ("1e400", float, Knob(), "k must be a number, not '1e400'"),
        ("1_0", int, Knob(), "k must be a whole number, not '1_0'"),
        (True, int, Knob(), "k must be a whole number, not on"),
        (None, int, Knob(), "k must be a whole number, not nothing"),
        ([1], float, Knob(), "k must be a number, not [1]"),
        ((), float, Knob(), "k must be a number, not []"),
        (["a", 0.5], float, Knob(), "k must be a number, not ['a', 0.5]"),
        (1.0000001, float, Knob(le=1), "k must be a number up to 1, not 1.0000001"),
        (Fraction(10**400), float, Knob(), f"k must be a number, not {'1' + 56 * '0'}..."),
        (np.int64(-3), int, Knob(ge=0), "k must be a whole number, 0 or more, not -3"),
        ("x", WINDOW, Knob(ge=1), "k must be a whole number, 1 or more, off or all, not 'x'"),
        ("maybe", bool, Knob(), "k must be on or off, not 'maybe'"),
        ("gpu", str, Knob(pattern="cpu", form="cpu or cuda"), "k must be cpu or cuda, not 'gpu'"),
        ("cpux", str, Knob(pattern="cpu"), "k must be text, not 'cpux'"),
    ],
)
def test_a_refusal_names_the_thing_the_value_and_the_way_out(value, annotation, limits, message):
    with pytest.raises(GptreplError) as refused:
        convert(value, annotation, "k", limits)
    assert str(refused.value) == message


@pytest.mark.parametrize("value", [0.1, 40.0, 1e30, 0.123456789, 1 / 3, 1.0000001])
def test_a_number_is_written_with_all_the_digits_that_make_it(value):
    assert convert(format_value(value), float, "knob") == value


@pytest.mark.parametrize("annotation", [int, float, bool, WINDOW])
def test_bytes_that_are_no_text_are_refused(annotation):
    with pytest.raises(GptreplError, match=r"x must be .*, not '\\udcff'"):
        convert("\udcff", annotation, "x")


def test_half_a_pair_is_no_escape():
    assert unquoted('"\\ud83d\\ude00"') == "\U0001f600"
    assert unquoted('"\\ud83d"') == '"\\ud83d"'


def test_names_are_spelled_in_many_ways():
    assert spelled("top-k") == spelled("TOP_K") == spelled("topk")
    assert near("tmep", ["temp", "top_k"], ":") == " (did you mean :temp?)"
    assert near("zzz", ["temp"]) == ""
