"""The interactive front end."""

from __future__ import annotations

from .session import Session


def run(session: Session) -> int:
    """Read, evaluate and show until the input ends; return the exit status."""
    raise NotImplementedError(session)
