"""The lines that were typed: private, and never in the way."""

from __future__ import annotations

from gptrepl.history import open_history
from shells import CTRL_D, Terminal, closing, spelling


def test_history_is_private_and_comes_back(tmp_path):
    path = tmp_path / "state" / "history"
    history, trouble = open_history(path)
    Terminal(spelling("x"), history=history).type(f"abc\r:temp 0.6\r\udcff\r{CTRL_D}")
    assert trouble == ""
    assert path.stat().st_mode & 0o777 == 0o600
    again, _ = open_history(path)
    assert list(again.load_history_strings()) == ["?", ":temp 0.6", "abc"]


def test_history_that_cannot_be_written_is_kept_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    history, trouble = open_history(tmp_path / "file" / "history")
    assert trouble.startswith("no history is kept: cannot write ")
    shell = Terminal(spelling("x"), history=history).type(f"abc\r{CTRL_D}")
    assert "abcx" in shell.lines
    assert list(history.get_strings()) == ["abc"]


def test_a_history_whose_folder_goes_away_disturbs_nothing(tmp_path):
    path = tmp_path / "state" / "history"
    history, _ = open_history(path)
    path.unlink()
    path.parent.rmdir()
    shell = Terminal(spelling("x"), history=history).type(f"abc\r{CTRL_D}")
    assert closing(shell.lines) == ["> abc", "abcx", "1", ">"]


def test_as_many_entries_come_back_as_are_wanted(tmp_path):
    path = tmp_path / "history"
    history, _ = open_history(path)
    for line in ("one", "two", "three"):
        history.append_string(line)
    again, _ = open_history(path, 2)
    assert list(again.load_history_strings()) == ["three", "two"]
    none, trouble = open_history(tmp_path / "other", 0)
    none.append_string("one")
    assert trouble == ""
    assert not (tmp_path / "other").exists()
