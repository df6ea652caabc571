"""The profile `model`: what the makers of a model recommend, where they recommend anything."""

from __future__ import annotations

import pytest

from fakes import Speller, session_of
from gptrepl.api import GptreplError, Notice, Table
from gptrepl.commands import evaluate
from gptrepl.profiles import read


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    session = session_of(Speller("!"), max_new_tokens=2)
    session.model.recommended = {"temperature": 0.6, "top_p": 0.9, "top_k": 0}
    return session


def said(session, line):
    return [event.text for event in evaluate(session, line) if isinstance(event, Notice)]


def test_it_is_listed_and_not_applied(session):
    (table,) = [e for e in evaluate(session, ":profile") if isinstance(e, Table)]
    assert ("", "model", "what the makers of fake recommend") in table.rows
    assert session.settings.value("temperature") == "0.8"


def test_it_is_a_profile_like_any_other(session):
    lines = said(session, ":profile model")
    assert lines[0] == "profile model"
    assert {"temperature 0.8 -> 0.6", "top_k 200 -> off", "top_p off -> 0.9"} <= set(lines)
    assert session.settings.origin("top_p") == "profile model"
    assert "what the makers of fake recommend" in said(session, ":profile show")[0]
    said(session, ":profile default")
    assert session.settings.value("temperature") == "0.8"


def test_it_can_be_compared_and_saved(session, tmp_path):
    (table,) = evaluate(session, ":profile diff model")
    assert ("top_p", "0.9", "off") in table.rows
    said(session, ":profile model")
    said(session, ":profile save mine")
    assert session.settings.profile == "mine"
    saved = read("mine")
    assert saved.extends == ()
    assert saved.changes["temperature"].temperature == 0.6


def test_a_file_of_that_name_comes_first(session, tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "model.yaml").write_text("temperature: 0.3")
    assert "temperature 0.8 -> 0.3" in said(session, ":profile model")


def test_a_model_without_advice_has_none(session):
    session.model.recommended = {}
    with pytest.raises(GptreplError, match="the files of fake recommend no sampling"):
        said(session, ":profile model")
    (table,) = [e for e in evaluate(session, ":profile") if isinstance(e, Table)]
    assert "model" not in {row[1] for row in table.rows}
