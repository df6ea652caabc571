"""The line below the prompt: which model, under which settings. It never waits for anything."""

from __future__ import annotations

from . import chain
from .screen import harmless
from .session import Session

GAP = "  "


def status(session: Session) -> str:
    """Return the model or what is being loaded, the profile, the samplers that are on, the seed.

    A profile has a star where something was typed besides.
    """
    settings = session.settings
    parts = [f"loading {session.source} ..." if session.is_loading else session.source]
    changed = "*" if settings.layers.get("typed") else ""
    if settings.profile != "default":
        parts.append(settings.profile + changed)
    parts += [f"{name} {chain.written(sampler)}" for name, sampler in settings.active]
    parts.append(f"seed {settings.seed}")
    return harmless(GAP.join(parts))
