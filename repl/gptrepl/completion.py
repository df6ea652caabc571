"""Tab: what a command line could become. One of the modules that know prompt-toolkit."""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .commands import candidates
from .screen import harmless
from .session import Session


class LineCompleter(Completer):
    """Offers command names and their values; a prompt is left alone."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the protocol's name
    ) -> Iterator[Completion]:
        """Yield what could stand before the cursor, with a line of help for each."""
        if self.session.block is not None or not is_command(document.text):
            return
        try:
            for found in candidates(self.session, document.text_before_cursor):
                yield Completion(
                    found.text,
                    start_position=-found.length,
                    display=harmless(found.text),
                    display_meta=harmless(found.help),
                )
        except Exception:  # a plugin that fails offers nothing; a key must never show a traceback
            return


def is_command(text: str) -> bool:
    """Return whether *text*, as typed so far, is a command line and no prompt."""
    return text.startswith(":") and not text.startswith("::") and "\n" not in text
