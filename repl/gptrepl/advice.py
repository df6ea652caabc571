"""The profile `model`: the sampling that the makers of the model in memory advise.

It is offered beside the profiles that are files, and never applied unasked. A file of that name
comes first.
"""

from __future__ import annotations

from pathlib import Path

from . import profiles
from .api import GptreplError
from .profiles import Profile
from .session import Session
from .settings import Settings

NAME = "model"


def is_advice(name: str) -> bool:
    """Return whether *name* means the advice, not a file."""
    return name == NAME and NAME not in profiles.found()


def given(session: Session) -> Profile | None:
    """Return the advice as a profile; None where there is none, or no model in memory yet."""
    loaded = session.loaded
    advised = getattr(loaded.model, "recommended", None) if loaded is not None else None
    if loaded is None or not advised:
        return None
    changes = {name: Settings().check(name, value) for name, value in advised.items()}
    description = f"what the makers of {loaded.source} recommend"
    return Profile(NAME, Path(NAME), changes, changes, description=description)


def read(session: Session, name: str) -> Profile:
    """Return the profile *name*, which may be the advice; raise GptreplError if there is none."""
    if not is_advice(name):
        return profiles.read(name)
    found = given(session)
    if found is None:
        raise GptreplError(f"the files of {session.source} recommend no sampling")
    return found


def rows(session: Session) -> dict[str, str]:
    """Return the advice by name with its description, for a list of profiles."""
    found = given(session) if is_advice(NAME) else None
    return {} if found is None else {NAME: found.description}
