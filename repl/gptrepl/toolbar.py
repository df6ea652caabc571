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
    parts = [model(session)]
    parts += context(session, finding, text)
    changed = "*" if settings.layers.get("typed") else ""
    if settings.profile != "default":
        parts.append(settings.profile + changed)
    parts += [f"{name} {chain.written(sampler)}" for name, sampler in settings.active]
    parts.append(f"seed {settings.seed}")
    return harmless(GAP.join(parts))


def model(session: Session) -> str:
    """Return which model there is, or what is the matter with it."""
    if session.is_loading:
        return f"loading {session.source} ..."
    return f"{session.source} does not load" if session.load_failed else session.source


def context(session: Session, finding: Finding, text: str) -> list[str]:
    """Return how much the prompt *text* fills of what the model sees; if empty, the last sample."""
    if session.loaded is None:
        return []
    if text and finding.text == text and finding.strange:
        return [f"not in its alphabet: {''.join(sorted(finding.strange))}"]
    tokens = (finding.tokens or 0) if text and finding.text == text else 0
    if session.samples and (not text or (tokens and session.settings.mode == "story")):
        sample = session.samples[-1]
        tokens += len(sample.ids) + len(sample.tokens)
    if not tokens:
        return []
    size = session.loaded.model.block_size
    return [f"context {tokens}" if size is None else f"context {min(tokens, size)}/{size}"]
