"""Tab in the terminal: what it offers, and that it never disturbs."""

from __future__ import annotations

import sys

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from fakes import Speller, distribution, session_of
from gptrepl import completion
from gptrepl.completion import LineCompleter, is_command


def offered(line, **changes):
    completer = LineCompleter(session_of(Speller("x"), **changes))
    return list(completer.get_completions(Document(line), CompleteEvent()))


def texts(line):
    return [found.text for found in offered(line)]


def test_command_names_come_with_a_line_of_help():
    (found,) = offered(":temperatu")
    assert found.text == "temperature"
    assert found.start_position == -9
    assert found.display_meta_text.startswith("Flatten")


def test_values_are_offered():
    assert texts(":dtype bf") == ["bfloat16"]
    assert "creative" in texts(":profile ")


def test_a_prompt_is_left_alone():
    for line in ("tem", "::tem", " :tem", "a\n:tem", ":tem\n", ""):
        assert texts(line) == []
        assert not is_command(line)


def test_only_what_stands_before_the_cursor_counts():
    completer = LineCompleter(session_of(Speller("x")))
    found = completer.get_completions(Document(":dty bf", cursor_position=4), CompleteEvent())
    assert [one.text for one in found] == ["dtype"]


def test_a_failing_plugin_offers_nothing(monkeypatch):
    def fail(session, line):
        raise RuntimeError(line)

    monkeypatch.setattr(completion, "candidates", fail)
    assert texts(":te") == []


def test_a_third_party_sampler_completes_by_itself(tmp_path, monkeypatch):
    source = (
        "from dataclasses import dataclass\n"
        "from gptrepl.api import knob\n"
        "@dataclass(frozen=True)\n"
        "class Zigzag:\n"
        '    """Go left,\x1b then right."""\n'
        '    width: float = knob(0.0, help="how far")\n'
        "    def __call__(self, logits, ids):\n"
        "        return logits\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    table = "[gptrepl.samplers]\nzigzag = zigzag_sampler:Zigzag\n"
    with distribution(tmp_path, "zigzag", table, zigzag_sampler=source):
        (found,) = offered(":zig")
        assert found.text == "zigzag"
        assert found.display_meta_text == "Go left,^[ then right."
        assert "off" in texts(":zigzag ")
    sys.modules.pop("zigzag_sampler", None)
