"""Who says what: texts taken apart, and the colours of a chat on a terminal and nowhere else."""

from __future__ import annotations

import re

import pytest

from fakes import session_of
from gptrepl import cli
from gptrepl.api import GptreplError, Notice, Transcript
from gptrepl.chat import plain
from gptrepl.commands import evaluate
from gptrepl.speakers import parts
from shells import CTRL_D, Terminal
from test_chat import Replier, Templated

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"


def turns(*said):
    return [{"role": role, "content": content} for role, content in said]


def check(messages, render, expected):
    found = parts(render(messages), messages, render)
    assert list(found) == expected
    assert "".join(piece for _, piece in found) == render(messages)


# --- a text taken apart ---------------------------------------------------------------------------


def test_turns_are_told_from_what_the_template_writes():
    messages = turns((SYSTEM, "a"), (USER, "s|"), (ASSISTANT, "][u|"), (USER, "u"))
    expected = [
        *[("", "[s|"), (SYSTEM, "a"), ("", "][u|"), (USER, "s|"), ("", "][a|")],
        *[(ASSISTANT, "][u|"), ("", "][u|"), (USER, "u"), ("", "][a|")],
    ]
    check(messages, Templated().render, expected)


def test_a_plain_template_too():
    messages = turns((SYSTEM, "S"), (USER, " one\ntwo "), (ASSISTANT, "x"), (USER, "three"))
    expected = [
        *[(SYSTEM, "S"), ("", "\n\n"), (USER, "one\ntwo"), ("", "\n"), (ASSISTANT, "x")],
        *[("", "\n"), (USER, "three"), ("", "\n")],
    ]
    check(messages, lambda them: plain("{user}\n{assistant}\n", them), expected)


def test_what_a_template_leaves_out_of_a_turn_is_missed_by_nobody():
    def render(messages):
        said = [m["content"].rpartition("</think>")[2].upper() for m in messages]
        return "".join(f"<{text}>" for text in said)

    messages = turns((USER, "hi"), (ASSISTANT, "<think>hm</think>yes"))
    text = render(messages)
    assert [role for role, _ in parts(text, messages, render)] == [""]  # its marks are lost

    def shorten(messages):
        return "".join(f"<{m['content'].rpartition('</think>')[2]}>" for m in messages)

    expected = [("", "<"), (USER, "hi"), ("", "><"), (ASSISTANT, "yes"), ("", ">")]
    check(messages, shorten, expected)


def test_a_text_that_another_template_made_is_nobodys():
    messages = turns((USER, "hi"), (ASSISTANT, "you"))
    other = Templated().render(messages)
    assert parts(other, messages, lambda them: plain("{user}\n{assistant}\n", them))[0] == (
        "",
        other,
    )
    assert parts("[u|other", messages, Templated().render)[-1] == ("", "other")


# --- a chat ---------------------------------------------------------------------------------------


@pytest.fixture
def session():
    model = Replier("Hello.", "Fine!")
    return session_of(model, Templated(), mode="chat", temperature=0, max_new_tokens=20)


def say(session, *lines):
    return [event for line in lines for event in evaluate(session, line)]


@pytest.mark.parametrize("line", [":text", ":chat show"])
def test_the_text_of_a_chat_says_who_says_what(session, line):
    (shown,) = say(session, ":system Be brief", "Hi", "You?", line)[-1:]
    assert isinstance(shown, Transcript)
    assert shown.text == session.samples[-1].text == "".join(piece for _, piece in shown.parts)
    roles = [part for part in shown.parts if part[0]]
    assert roles == [
        *[(SYSTEM, "Be brief"), (USER, "Hi"), (ASSISTANT, "Hello."), (USER, "You?")],
        (ASSISTANT, "Fine!"),
    ]


def test_without_the_template_only_the_reply_is_known(session, monkeypatch):
    say(session, "Hi")

    def refuse(_messages):
        raise GptreplError("no template")

    monkeypatch.setattr(session.tokenizer, "render", refuse, raising=False)
    assert say(session, ":text")[0].parts == (("", "[u|Hi][a|"), (ASSISTANT, "Hello."))


def test_a_text_that_is_no_chat_is_shown_as_it_was(session):
    session.set(mode="complete")
    session.generate("[a|", max_new_tokens=6)
    assert say(session, ":text") == [Notice("[a|Hello.")]


@pytest.mark.parametrize(
    ("theme", "user", "system", "assistant"), [("quiet", 32, 35, 36), ("bright", 36, 35, 32)]
)
def test_each_speaker_has_a_colour(session, monkeypatch, theme, user, system, assistant):
    monkeypatch.delenv("NO_COLOR", raising=False)
    session.set(theme=theme, system="Be brief")
    shell = Terminal(session).type(f"Hi\r:chat show\r{CTRL_D}")
    shown = shell.out.getvalue()
    assert (
        f"[s|\x1b[{system}mBe brief\x1b[0m][u|\x1b[{user}mHi\x1b[0m][a|"
        f"\x1b[{assistant}mHello.\x1b[0m\n"
    ) in shown
    assert re.search(rf"\x1b\[0;{user}m[^\x1b]*Hi", shown)  # what was typed
    assert re.search(rf"\x1b\[0;{user};1m>", shown)  # and the sign before it
    assert not re.search(rf"\x1b\[0;{user}m[^\x1b]*:chat", shown)


def test_outside_of_a_chat_nothing_typed_is_coloured(session, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    session.set(mode="complete")
    assert "\x1b[0;32m" not in Terminal(session).type(f"Hi\r{CTRL_D}").out.getvalue()


@pytest.mark.parametrize("how", [{"colours": "off"}, {"theme": "plain"}])
def test_where_colours_are_unwelcome_there_are_none(session, how):
    session.set(**how)
    shown = Terminal(session).type(f"Hi\r:chat show\r{CTRL_D}").out.getvalue()
    assert "[u|Hi][a|Hello.\n" in shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)


def test_in_a_pipe_stands_the_text_that_the_model_sees(capsys):
    how = ["--turns", "U:{user}\nA:{assistant}\n", "--mode", "chat", "--max_new_tokens", "5"]
    assert cli.run([*how, "-c", "Hi", "-c", ":chat show"]) == 0
    told = capsys.readouterr()
    reply = told.out.partition("\n---")[0]
    assert told.err.endswith(f"\nU:Hi\nA:{reply}\n")
    assert "\x1b" not in told.out + told.err


def test_for_programs_it_is_a_notice(session, capsys):
    from gptrepl.jsonlines import object_of

    (shown,) = say(session, "Hi", ":text")[-1:]
    assert object_of(shown) == {"event": "notice", "text": "[u|Hi][a|Hello.", "warning": False}
