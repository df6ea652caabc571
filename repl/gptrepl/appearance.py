"""How the line under the cursor looks. One of the modules that know prompt-toolkit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from .draft import Draft

OURS = ("sign", "toolbar", "strange", "user")
NAMES = {
    "1": "bold",
    "4": "underline",
    "31": "ansired",
    "32": "ansigreen",
    "33": "ansiyellow",
    "34": "ansiblue",
    "35": "ansimagenta",
    "36": "ansicyan",
    "90": "ansibrightblack",
}
"""What prompt-toolkit calls the numbers of terminals."""


def style(looks: Mapping[str, str]) -> Style:
    """Return the style of the prompt that follows from *looks*."""
    return cached(tuple((name, looks[name]) for name in OURS if name in looks))


@cache
def cached(looks: tuple[tuple[str, str], ...]) -> Style:
    """Return the style for the name and look of each part."""
    look = {name: " ".join(NAMES[n] for n in numbers.split(";")) for name, numbers in looks}
    return Style.from_dict(
        {
            "prompt": look.get("sign", ""),
            "bottom-toolbar": f"noreverse {look.get('toolbar', '')}",
            "strange": look.get("strange", ""),
            "user": look.get("user", ""),
        }
    )


class StrangeLexer(Lexer):
    """Marks the characters of a prompt that the model does not have.

    The others are in the style that *usual* returns.
    """

    def __init__(self, draft: Draft, usual: Callable[[], str]) -> None:
        self.draft = draft
        self.usual = usual

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return a function from the number of a line to its pieces."""
        strange, usual = self.draft.finding.strange, self.usual()

        def pieces(number: int) -> StyleAndTextTuples:
            line = document.lines[number]
            if not strange:
                return [(usual, line)]
            return [("class:strange" if sign in strange else usual, sign) for sign in line]

        return pieces

    def invalidation_hash(self) -> Hashable:
        """Return what its output depends on besides the text."""
        return self.draft.finding.strange, self.usual()
