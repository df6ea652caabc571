"""What a session says: data that a front end draws. `gptrepl.api` has all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SampleStarted:
    """A sample begins; its text starts with the prompt.

    *known* characters of the prompt were shown before, where a sample goes on with another. In
    a chat *role* is who speaks; then the prompt is the conversation so far, template and all.
    """

    index: int
    prompt: str
    seed: int
    known: int = 0
    role: str = ""


@dataclass(frozen=True)
class Token:
    """One token was drawn.

    *text* is what it completes: empty while a character is split over tokens. *logprob* is
    the natural logarithm of the probability the model gave it, before the chain; nan where a
    server does not tell it. Where the front end asked, *entropy* is that of all its
    probabilities, in bits, and *candidates* is how many tokens the chain left to draw from. One
    that is *special* speaks of the text: its own is its name, such as `</s>`.
    """

    index: int
    token: int
    text: str
    logprob: float
    entropy: float | None = None
    candidates: int | None = None
    special: bool = False


Ending = Literal["length", "stop", "interrupted", "failed"]
"""Why a sample ended: it is as long as asked for, it came to a stop string or to the end of the
text, the user stopped it, an error cut it short."""


@dataclass(frozen=True)
class SampleEnded:
    """A sample is over. *text* is all of it, prompt included; *tail* what no Token gave.

    *tokens* counts the new ones, *context* the ids the model can see of *block_size* (None: no
    limit); *seconds* is the time since the samples began.
    """

    index: int
    text: str
    tail: str
    tokens: int
    seconds: float
    seed: int
    context: int
    block_size: int | None
    ending: Ending


@dataclass(frozen=True)
class Notice:
    """One line for the user. A warning is worth reading even when nothing else is shown."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Transcript(Notice):
    """The text of a conversation. Its *parts*, joined, are the text.

    Each part is a role (system, user, assistant) and what it says, or no role and what the
    template writes.
    """

    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Failure(Notice):
    """An error after which the lines of a script go on, as `:on-error continue` asks."""

    status: int = 1


@dataclass(frozen=True)
class Table:
    """Rows of text under column names; the front end lays them out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Progress:
    """Long work goes on: *done* of *total* (None: unknown); it is over when they are equal."""

    what: str
    done: int
    total: int | None = None


Event = SampleStarted | Token | SampleEnded | Notice | Table | Progress
