"""The line below the prompt: which model, under which settings. It never waits for anything."""

from __future__ import annotations

from . import chain
from .draft import Finding
from .screen import harmless
from .session import Session

GAP = "  "


def status(session: Session, finding: Finding, text: str) -> str:
    """Return the model, what is known of *text*, the profile, the samplers that are on, the seed.

    A profile has a star where something was typed besides.
    """
    settings = session.settings
    parts = [f"loading {session.source} ..." if session.is_loading else session.source]
    parts += typed(session, finding, text)
    changed = "*" if settings.layers.get("typed") else ""
    if settings.profile != "default":
        parts.append(settings.profile + changed)
    parts += [f"{name} {chain.written(sampler)}" for name, sampler in settings.active]
    parts.append(f"seed {settings.seed}")
    return harmless(GAP.join(parts))


def typed(session: Session, finding: Finding, text: str) -> list[str]:
    """Return what is known of the prompt that is being typed, if anything is."""
    if not text or finding.text != text or session.loaded is None:
        return []
    if finding.strange:
        return [f"not in its alphabet: {''.join(sorted(finding.strange))}"]
    if finding.tokens is None:
        return []
    block_size = session.loaded.model.block_size
    limit = "" if block_size is None else f"/{block_size}"
    return [f"{finding.tokens}{limit} tokens"]
