"""Commands that are none, and that fail when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gptrepl.api import Notice

if TYPE_CHECKING:
    from fractions import Fraction

NUMBER = 65


def speaks(session):
    """Say a word."""
    yield Notice("a word follows")
    yield "word"


def divides(session, by: int = 0):
    """Divide BY something."""
    yield Notice(f"{1 / by}")


def ends(session):
    """Read what is not there."""
    raise EOFError("the file ends here")


def lonely():
    """Take no session."""


def keyword(session, *, word: str):
    """Want a word by name."""


def unreadable(session, share: Fraction):
    """Take a SHARE."""


def streams(session, prompt: str = "x"):
    """Sample from PROMPT."""
    yield from session.stream(prompt)
