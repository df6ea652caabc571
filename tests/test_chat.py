"""A chat: turns, the text the model sees of them, and all that can be done with a conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from fakes import Bytes, Interrupted, session_of
from gptrepl.api import GptreplError, Notice, SampleEnded, SampleStarted, Table, Token
from gptrepl.chat import conversation, plain, said
from gptrepl.commands import evaluate
from gptrepl.settings import Settings

END = 0


class Templated(Bytes):
    """Writes each turn in brackets; its texts begin with an id and end with another."""

    start = (1,)
    end = END

    def render(self, messages):
        if any(m["content"] == "refused" for m in messages):
            raise GptreplError("the template refuses this")
        text = "".join(f"[{m['role'][0]}|{m['content']}]" for m in messages)
        return text if messages[-1]["role"] == "assistant" else text + "[a|"


class Replier:
    """Says *replies* in turn: the one for as many turns as the text has, then the end."""

    vocab_size = 256
    block_size = None

    def __init__(self, *replies: str, opening: str = "[a|") -> None:
        self.replies = replies
        self.opening = opening
        self.seen: list[str] = []

    def logits(self, rows: Sequence[Sequence[int]]):
        out = torch.full((len(rows), self.vocab_size), -20.0)
        for place, row in enumerate(rows):
            text = bytes(row).decode()
            self.seen.append(text)
            reply = self.replies[text.count(self.opening) - 1].encode() + bytes([END])
            done = len(text.rpartition(self.opening)[2].encode())
            out[place, reply[min(done, len(reply) - 1)]] = 20.0
        return out


@pytest.fixture
def session():
    model = Replier("Hello.", "Fine!", "Bye", "More")
    return session_of(model, Templated(), mode="chat", temperature=0, max_new_tokens=20)


def say(session, *lines):
    return [event for line in lines for event in evaluate(session, line)]


def roles(session):
    return [(m["role"], m["content"]) for m in conversation(session)]


# --- turns --------------------------------------------------------------------------------------


def test_each_line_is_a_turn_and_only_the_reply_is_new(session):
    events = say(session, "Hi", "How are you?")
    started = [event for event in events if isinstance(event, SampleStarted)]
    assert [event.role for event in started] == ["assistant", "assistant"]
    assert started[1].prompt == "[u|Hi][a|Hello.][u|How are you?][a|"
    assert started[1].known == len(started[1].prompt)
    ended = [event for event in events if isinstance(event, SampleEnded)]
    assert [event.ending for event in ended] == ["stop", "stop"]
    assert ended[1].text == "[u|Hi][a|Hello.][u|How are you?][a|Fine!"
    assert roles(session) == [
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "How are you?"),
        ("assistant", "Fine!"),
    ]


def test_a_turn_ends_at_its_end_whatever_the_settings_say(session):
    assert session.settings.stop_at_end is False
    say(session, "Hi")
    assert session.samples[0].text.endswith("[a|Hello.")
    session.set(max_new_tokens=3)
    assert say(session, "And?")[-1].ending == "length"


def test_what_the_system_says_stands_first_and_is_no_turn(session):
    say(session, ":system Be brief", "Hi")
    assert session.samples[0].text == "[s|Be brief][u|Hi][a|Hello."
    assert roles(session)[0] == ("user", "Hi")
    say(session, ":system Be kind", "You?")
    assert session.samples[0].prompt == "[s|Be kind][u|Hi][a|Hello.][u|You?][a|"


def test_the_text_is_a_function_of_the_conversation(session):
    say(session, "Hi", "You?")
    first = session.samples[0].text
    say(session, ":new", "Hi", "something else", ":undo", "You?")
    assert session.samples[0].text == first


def test_what_begins_every_text_stands_there_once(session):
    say(session, "Hi", "You?")
    assert all(text.count("\x01") == 1 for text in session.model.seen)


def test_a_conversation_has_one_reply(session):
    session.set(num_samples=3)
    notices = [event.text for event in say(session, "Hi") if isinstance(event, Notice)]
    assert "num_samples 3 has no effect: a conversation has one reply" in notices
    assert len(session.samples) == 1


def test_a_reply_that_failed_with_nothing_to_say_can_be_asked_for_again():
    model = Interrupted("abc", 0, GptreplError)
    session = session_of(model, Templated(), mode="chat", max_new_tokens=3)
    with pytest.raises(GptreplError):
        say(session, "Hi")
    assert conversation(session) == ()
    say(session, "Hi")
    assert [role for role, _ in roles(session)] == ["user", "assistant"]


def test_a_text_that_is_no_chat_is_no_turn(session):
    session.set(mode="complete")
    session.generate("[a|")
    assert said(session.samples[0]) == ()
    session.set(mode="chat")
    say(session, "Hi")
    assert session.samples[0].prompt == "[u|Hi][a|"


# --- going on, taking back ----------------------------------------------------------------------


def test_a_turn_is_taken_back(session):
    say(session, "Hi", "You?", ":undo")
    assert roles(session)[-1] == ("assistant", "Hello.")
    say(session, ":undo")
    assert roles(session) == []


def test_tokens_of_a_reply_are_taken_back_and_written_again(session):
    say(session, "Hi", ":undo 3")
    assert roles(session)[-1] == ("assistant", "Hell")
    events = say(session, ":more")
    assert [e.text for e in events if isinstance(e, Token)] == ["o", ".", ""]
    assert roles(session)[-1] == ("assistant", "Hello.")
    assert conversation(session)[0]["content"] == "Hi"


def test_another_reply_answers_the_same_turns(session):
    say(session, "Hi", "You?", ":retry")
    assert len(roles(session)) == 4
    assert session.samples[0].seed == 1338


def test_a_turn_is_said_anew_and_the_chat_goes_on_from_there(session):
    say(session, "Hi", "You?", "Well", ":edit 2 And you?")
    assert roles(session) == [
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "And you?"),
        ("assistant", "Fine!"),
    ]
    say(session, ":undo")
    assert len(roles(session)) == 6


def test_a_turn_is_edited_in_the_editor(session, monkeypatch):
    asked = []

    def edited(text, lent):
        asked.append(text)
        return "Hey"

    monkeypatch.setattr("gptrepl.editing.edited_text", edited)
    say(session, "Hi")
    with pytest.raises(GptreplError, match="an editor needs a terminal: `:edit 1 TEXT` needs none"):
        say(session, ":edit 1")
    session.console = SimpleNamespace(lent=nullcontext)
    say(session, ":edit 1")
    assert asked == ["Hi"]
    assert roles(session)[0] == ("user", "Hey")
    assert say(session, ":edit 1")[-1] == Notice("nothing is said anew")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (":edit 3", "there is no turn 3: the conversation has 1"),
        (":edit 0", "there is no turn 0"),
        (":edit", ":edit takes the number of a turn"),
        (":edit x", ":edit takes the number of a turn"),
        ("refused", "the template refuses this"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(session, line, message):
    say(session, "Hi")
    before = conversation(session)
    with pytest.raises(GptreplError, match=message):
        say(session, line)
    assert conversation(session) == before


# --- looking, keeping ---------------------------------------------------------------------------


def test_the_text_that_the_model_sees_is_shown_exactly(session):
    with pytest.raises(GptreplError, match="no conversation yet"):
        say(session, ":chat show")
    say(session, ":system S", "Hi")
    assert [e.text for e in say(session, ":chat show")] == ["[s|S][u|Hi][a|Hello."]
    assert [e.text for e in say(session, ":text")] == ["[s|S][u|Hi][a|Hello."]


def test_the_turns_are_listed_with_the_users_numbers(session):
    say(session, ":system S", "Hi", "You?")
    (table,) = say(session, ":chat")
    assert isinstance(table, Table)
    assert table.rows == (
        ("", "system", "S"),
        ("1", "user", "Hi"),
        ("", "assistant", "Hello."),
        ("2", "user", "You?"),
        ("", "assistant", "Fine!"),
    )


def test_a_conversation_is_kept_and_taken_up(session, tmp_path):
    file = tmp_path / "talk.jsonl"
    with pytest.raises(GptreplError, match="no conversation to save"):
        say(session, f":chat save {file}")
    say(session, ":system S", "Hi", "Häh?", f":chat save {file}")
    assert json.loads(file.read_text(encoding="utf-8"))["messages"][0] == {
        "role": "system",
        "content": "S",
    }
    before = roles(session)
    say(session, ":new", ":system off", f":chat load {file}")
    assert roles(session) == before
    assert session.settings.system == "S"
    assert session.samples[0].text == "[s|S][u|Hi][a|Hello.][u|Häh?][a|Fine!"
    say(session, "So?")
    assert session.samples[0].prompt.endswith("[u|Häh?][a|Fine!][u|So?][a|")
    say(session, ":undo")
    assert roles(session) == before


def test_a_file_may_hold_a_message_a_line(session, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text('\ufeff{"role": "user", "content": "Hi"}\n\n', encoding="utf-8")
    session.set(mode="complete")
    say(session, f":chat load {file}")
    assert (roles(session), session.settings.mode) == ([("user", "Hi")], "chat")
    say(session, ":retry")
    assert roles(session)[-1] == ("assistant", "Hello.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no conversation"),
        (b'{"role": "system", "content": "S"}', "holds no conversation"),
        (b"{", r"talk\.jsonl:1: no JSON"),
        (b'\n{"role": "tool", "content": "x"}', r"talk\.jsonl:2: a message has a role"),
        (b'{"messages": [{"role": "user", "content": []}]}', "a text as its content"),
        (b'{"role": "user", "content": "\\ud800"}', "a text as its content"),
        (b'{"role": {}, "content": "x"}', "a message has a role"),
        (b"[" * 100_000, r"talk\.jsonl:1: no JSON"),
        (b"3", "a message has a role"),
        (b"\xff", "is not UTF-8 text"),
        (b'{"role": "user", "content": "refused"}', "the template refuses this"),
    ],
)
def test_a_file_that_is_no_conversation_changes_nothing(session, tmp_path, content, message):
    file = tmp_path / "talk.jsonl"
    file.write_bytes(content)
    say(session, "Hi")
    before, settings = conversation(session), session.settings
    with pytest.raises(GptreplError, match=message):
        say(session, f":chat load {file}")
    assert conversation(session) == before
    assert session.settings == settings
    with pytest.raises(GptreplError, match="cannot read '/gone'"):
        say(session, ":chat load /gone")


def test_nothing_is_written_over_without_a_word(session, tmp_path):
    file = tmp_path / "talk.jsonl"
    file.write_text("mine")
    say(session, "Hi")
    session.confirm = lambda _question: False
    assert say(session, f":chat save {file}") == [Notice("nothing is written")]
    assert file.read_text() == "mine"


# --- a model without a template -----------------------------------------------------------------


def test_a_base_model_needs_a_plain_template():
    session = session_of(Replier("Hi", opening="Assistant:"), mode="chat", max_new_tokens=9)
    with pytest.raises(GptreplError, match="fake has no template for a chat: `:profile chat`"):
        say(session, "Hello")


def test_the_profile_chat_gives_one_with_its_stops():
    model = Replier(" Hello.\nUser: And", " Well\nUser:", opening="Assistant:")
    session = session_of(model, temperature=0, max_new_tokens=30)
    events = say(session, ":profile chat", "Hi", "You?")
    assert not [one for one in events if isinstance(one, Notice) and "no effect" in one.text]
    assert session.samples[0].prompt == "User: Hi\nAssistant: Hello.\nUser: You?\nAssistant:"
    assert session.samples[0].text.endswith("You?\nAssistant: Well")
    assert roles(session)[1] == ("assistant", " Hello.")


def test_turns_are_written_as_the_setting_says():
    turns = "Q: {user}\nA: {assistant}\n\n"
    messages = [
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": " two"},
        {"role": "user", "content": "three\n"},
    ]
    assert plain(turns, messages) == "Be brief.\n\nQ: one\nA: two\n\nQ: three\nA:"
    for value in ("auto", turns):
        assert Settings().but(turns=value).turns == value
    with pytest.raises(
        GptreplError, match=r"turns must be auto or a text with {user} and {assistant}"
    ):
        Settings().but(turns="{assistant} {user}")
    assert Settings().but(turns=turns).value("turns") == json.dumps(turns)


# --- a server -----------------------------------------------------------------------------------


def test_a_server_is_sent_the_turns_and_writes_them_its_own_way():
    from test_writing import Dictator

    model = Dictator("Hel", "lo", ending="stop")
    session = session_of(model, model.tokenizer, mode="chat", system="S", max_new_tokens=9)
    say(session, "Hi", "You?")
    assert [dict(m) for m in model.asked[1].messages] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "You?"},
    ]
    assert (
        say(session, ":chat show")[0].text
        == "system: S\nuser: Hi\nassistant: Hello\nuser: You?\nHello"
    )
    with pytest.raises(GptreplError, match="a server begins a turn anew"):
        say(session, ":more")
    say(session, ":retry")
    assert model.asked[2].messages == model.asked[1].messages
    say(session, ':turns "U: {user}\\nA: {assistant}\\n"', "So?")
    assert model.asked[3].messages == ()
    assert model.asked[3].prompt.endswith("U: So?\nA:")


def test_a_server_that_can_goes_on_with_a_turn():
    from test_writing import Dictator

    model = Dictator("Hel", "lo", ending="length")
    model.continues = True
    session = session_of(model, model.tokenizer, mode="chat", max_new_tokens=9)
    say(session, "Hi", ":more 3")
    assert [dict(m) for m in model.asked[1].messages] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]
    assert model.asked[1].max_new_tokens == 3
    assert roles(session) == [("user", "Hi"), ("assistant", "HelloHello")]
    say(session, ":retry")  # of the rest alone
    assert model.asked[2].messages == model.asked[1].messages
    say(session, "You?")
    assert [m["content"] for m in model.asked[3].messages] == ["Hi", "HelloHello", "You?"]


# --- the front ends -----------------------------------------------------------------------------


def test_a_script_prints_the_replies_alone(session):
    import io

    from gptrepl.script import Script

    out, err = io.StringIO(), io.StringIO()
    assert Script(session, out, err).run(["Hi", "You?"], "-c") == 0
    assert out.getvalue() == "Hello.\n---------------\nFine!\n---------------\n"


def test_a_terminal_shows_who_speaks_in_colour(session):
    import io

    from gptrepl.looks import THEMES
    from gptrepl.screen import Screen

    out = io.StringIO()
    screen = Screen(out, lambda: 80, looks=THEMES["quiet"])
    for event in say(session, "Hi"):
        screen.show(event)
    assert "[u|" not in out.getvalue()
    assert f"\x1b[{THEMES['quiet']['assistant']}mH\x1b[0m" in out.getvalue()
