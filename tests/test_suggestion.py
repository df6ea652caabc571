"""Grey text behind the cursor: from the history, or from the model."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory

from fakes import Interrupted, Speller, session_of
from gptrepl import suggestion
from gptrepl.session import Session
from gptrepl.suggestion import Suggester


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(suggestion, "REST", 0.0)


def suggest(session, text, *, now=None, history=()):
    """What is suggested for *text* once the line has become *now*."""
    kept = InMemoryHistory(list(history))
    buffer = Buffer(document=Document(text if now is None else now), history=kept)
    list(kept.load_history_strings())
    kept._loaded_strings = list(reversed(history))
    suggester = Suggester(session)
    found = asyncio.run(suggester.get_suggestion_async(buffer, Document(text)))
    suggester.stop()
    return None if found is None else found.text


def spelling(text, prompt=3, **changes):
    return session_of(Speller(text, prompt), **{"suggest": True, **changes})


def test_the_model_goes_on_with_a_prompt():
    assert suggest(spelling("def\x1bg\nhij"), "abc") == "def^[g"


def test_it_is_what_a_sample_would_begin_with():
    session = spelling("defghijklmnopqrstuvwxyz", max_new_tokens=20)
    begun = suggest(session, "abc")
    assert session.generate("abc").startswith(f"abc{begun}")
    assert len(begun) == suggestion.TOKENS


def test_nothing_of_it_is_kept():
    session = spelling("def")
    suggest(session, "abc")
    assert session.samples == []


@pytest.mark.parametrize(
    ("session", "text"),
    [
        (spelling("def", suggest=False), "abc"),
        (spelling("def"), ":tem"),
        (Session(), "abc"),
    ],
)
def test_otherwise_the_history_does(session, text):
    assert suggest(session, text, history=[f"{text}xyz", "other"]) == "xyz"
    assert suggest(session, text) is None


def test_a_text_of_several_lines_is_not_looked_for_in_the_history():
    assert suggest(spelling("x", suggest=False), "a\nb", history=["a\nbc"]) is None
    assert suggest(spelling("x", suggest=False), "a", history=["a\nbc"]) is None
    assert suggest(spelling("x", suggest=False), " ", history=[" a"]) is None


def test_a_line_that_has_changed_gets_no_suggestion():
    assert suggest(spelling("def"), "abc", now="abcd") is None


def test_an_error_suggests_nothing():
    assert suggest(session_of(Interrupted("x", 0, RuntimeError), suggest=True), "abc") is None


class Slow(Speller):
    """Waits before the second token until it is told to go on."""

    def __init__(self, text):
        super().__init__(text, 3)
        self.asked, self.free = Event(), Event()

    def logits(self, rows):
        if len(self.calls) == 1:
            self.asked.set()
            self.free.wait()
        return super().logits(rows)


def test_to_stop_is_to_wait_until_the_model_is_free():
    model = Slow("defghi")
    suggester = Suggester(session_of(model, suggest=True))
    buffer = Buffer(document=Document("abc"))

    async def leave():
        task = asyncio.create_task(suggester.get_suggestion_async(buffer, Document("abc")))
        while not model.asked.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    model.free.set()
    suggester.stop()
    assert len(model.calls) <= 3
    assert not suggester._thread.is_alive()
