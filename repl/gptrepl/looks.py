"""How each kind of text looks: themes, in the numbers that terminals themselves use.

A theme says nothing of what it leaves plain; the colours are those the user's terminal has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .settings import Settings

DIM = "2"
THEMES: dict[str, dict[str, str]] = {
    "quiet": {
        "sign": "1",
        "prompt": DIM,
        "summary": DIM,
        "progress": DIM,
        "toolbar": "90",
        "warning": "33",
        "error": "31",
        "strange": "4;31",
        "system": "35",
        "user": "32",
        "assistant": "36",
        "special": "7",
    },
    "bright": {
        "sign": "1;32",
        "prompt": "36",
        "summary": "34",
        "progress": "34",
        "toolbar": "34",
        "warning": "1;33",
        "error": "1;31",
        "strange": "4;31",
        "system": "35",
        "user": "36",
        "assistant": "32",
        "special": "7",
    },
    "plain": {"sign": "1", "toolbar": "90", "error": "31", "strange": "4", "special": "7"},
}
UNCOLOURED = {"strange": "4"}
"""What is left where colours are unwelcome: a mark without which something is not said."""


def looks(settings: Settings) -> Mapping[str, str]:
    """Return the terminal's numbers for each kind of text, or next to nothing without colours."""
    wanted = settings.colours
    if wanted == "off" or (wanted == "auto" and os.environ.get("NO_COLOR")):
        return UNCOLOURED
    return THEMES[settings.theme]


def styled(text: str, look: str) -> str:
    """Return *text* in a look; where there is none, as it is."""
    return f"\x1b[{look}m{text}\x1b[0m" if look and text else text
