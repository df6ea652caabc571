"""What is known of a prompt while it is typed, found out without delaying a key."""

from __future__ import annotations

from threading import Event, Thread

from prompt_toolkit.document import Document

from fakes import Bytes, Speller, session_of
from gptrepl.api import GptreplError
from gptrepl.appearance import StrangeLexer
from gptrepl.draft import Draft, Finding
from gptrepl.session import Session
from gptrepl.settings import Settings
from gptrepl.toolbar import status


class Letters(Bytes):
    """Knows small letters alone; waits for *free* before it answers."""

    def __init__(self):
        self.free = Event()
        self.free.set()

    def encode(self, text):
        self.free.wait()
        for character in text:
            if not ("a" <= character <= "z" or character == " "):
                raise GptreplError(f"no {character}")
        return super().encode(text)


def draft_of(tokenizer, **changes):
    session = session_of(Speller("x", block_size=8), tokenizer, **changes)
    known = Event()
    return Draft(session, known.set), known


def find(text, tokenizer=None):
    draft, known = draft_of(tokenizer or Letters())
    draft.follow(text)
    assert known.wait(10)
    return draft


def test_the_tokens_are_counted():
    assert find("abc").finding == Finding("abc", 3)


def test_the_characters_outside_the_alphabet_are_known():
    assert find("aÉbc漢É").finding == Finding("aÉbc漢É", None, frozenset("É漢"))


def test_a_key_never_waits_and_only_the_last_text_counts():
    tokenizer = Letters()
    tokenizer.free.clear()
    draft, known = draft_of(tokenizer)
    for text in ("a", "ab", "abc"):
        draft.follow(text)
    assert draft.finding == Finding()
    tokenizer.free.set()
    while draft.finding.text != "abc":
        assert known.wait(10)
    assert draft.finding == Finding("abc", 3)


def test_nothing_is_known_without_a_model(monkeypatch):
    monkeypatch.setattr(Thread, "start", lambda self: 1 / 0)
    draft = Draft(Session(), lambda: None)
    draft.follow("abc")
    assert draft.finding == Finding()


def test_a_tokenizer_that_fails_disturbs_nothing():
    class Broken(Bytes):
        def encode(self, text):
            raise RuntimeError(text)

    assert find("abc", Broken()).finding == Finding("abc")


def test_the_toolbar_shows_what_is_known_of_the_text_as_it_is_now():
    draft = find("abc")
    session = draft.session
    assert status(session, draft.finding, "abc").startswith("fake  context 3/8  temperature")
    assert status(session, draft.finding, "abcd").startswith("fake  temperature")
    session.generate("abc", max_new_tokens=2)
    assert status(session, draft.finding, "").startswith("fake  context 5/8  temperature")
    assert status(session, find("abcdefghijk").finding, "abcdefghijk").startswith(
        "fake  context 8/8"
    )
    strange = find("É\x1b").finding
    assert "not in its alphabet: ^[É  " in status(session, strange, "É\x1b")


def test_strange_characters_are_marked():
    lexer = StrangeLexer(find("aÉ\nb"), str)
    pieces = lexer.lex_document(Document("aÉ\nb"))
    assert pieces(0) == [("", "a"), ("class:strange", "É")]
    assert pieces(1) == [("", "b")]
    lexer = StrangeLexer(find("ab"), lambda: "class:user")
    assert lexer.lex_document(Document("ab"))(0) == [("class:user", "ab")]


def test_the_toolbar_says_how_a_load_goes():
    session = Session(Settings().but(model="no-such-model"))
    assert status(session, Finding(), "").startswith("no-such-model  ")
    session.load_behind()
    while session.is_loading:
        pass
    assert status(session, Finding(), "").startswith("no-such-model does not load  ")
