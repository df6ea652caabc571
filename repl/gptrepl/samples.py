"""Samples in the making: rows of ids become text here, whole characters only."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .api import Ending, SampleEnded, SampleStarted, Token
from .loading import Loaded
from .stops import Watch

Message = Mapping[str, str]
"""One turn of a conversation: its `role` (system, user or assistant) and its `content`."""


@dataclass(frozen=True)
class Turn:
    """The turn of a conversation that a sample writes: behind *messages*, from *opening* on.

    *opening* is a place in the sample's text. *at_server*: the messages are sent, not the text.
    """

    messages: tuple[Message, ...]
    opening: int
    at_server: bool = False


@dataclass(frozen=True)
class Start:
    """Where a sample begins: the text so far, as ids too, and its seed.

    *known* characters of the text were shown before, as part of another sample. *stream* draws
    come before it in the one stream of its seed; None: the seed is its own.
    """

    prompt: str
    ids: Sequence[int]
    seed: int
    known: int = 0
    turn: Turn | None = None
    stream: int | None = None


class Sample:
    """One sample: its prompt, its seed and the text so far.

    The texts of its events, joined, are the decoding of all the bytes, however characters
    split over tokens; bytes that are no UTF-8 become one U+FFFD as in any decoder. One of
    *stops* ends it, and so does a token of *ends*; neither they nor what follows are part of it.
    """

    def __init__(
        self,
        index: int,
        start: Start,
        loaded: Loaded,
        stops: Sequence[str] = (),
        ends: Collection[int] = (),
    ) -> None:
        self.index = index
        self.prompt = start.prompt
        self.ids = start.ids
        self.seed = start.seed
        self.known = start.known
        self.turn = start.turn
        self.stream = start.stream
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        """What the model gave each of the tokens, before the chain."""
        self.ending: Ending | None = None
        """Why it ended; None while it goes on."""
        self.loaded = loaded
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces = [start.prompt]
        self._watch = Watch(stops)
        self._ends = ends
        self._special = getattr(loaded.tokenizer, "special", ())

    @property
    def text(self) -> str:
        """All of it so far, prompt included."""
        return "".join(self._pieces)

    @property
    def has_stopped(self) -> bool:
        """Whether it came to a stop string or to the end of the text."""
        return bool(self._watch.found) or any(t in self._ends for t in self.tokens[-1:])

    def without(self, tokens: int) -> Sample:
        """Return this sample as it was before its last *tokens* tokens, at least one."""
        start = Start(self.prompt, self.ids, self.seed, self.known, self.turn, self.stream)
        shorter = Sample(self.index, start, self.loaded, self._stops, self._ends)
        for token, logprob in zip(self.tokens[:-tokens], self.logprobs, strict=False):
            shorter.add(token, logprob)
        shorter.end("interrupted", 0.0)
        return shorter

    def start(self) -> SampleStarted:
        """Return the event that opens it."""
        role = "assistant" if self.turn is not None else ""
        return SampleStarted(self.index, self.prompt, self.seed, self.known, role)

    def add(
        self,
        token: int,
        logprob: float,
        entropy: float | None = None,
        candidates: int | None = None,
    ) -> Token:
        """Return the event of one token drawn, with the characters it completes."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        piece = ""
        if token not in self._ends:
            decoded = self._decoder.decode(self.loaded.tokenizer.token_bytes(token))
            piece = self._watch.add(decoded)
        self._pieces.append(piece)
        special = token in self._special
        return Token(self.index, token, piece, logprob, entropy, candidates, special)

    def end(self, ending: Ending, seconds: float) -> SampleEnded:
        """Return the event that closes it, with what was held back and is part of it after all.

        *ending* says why, where it has not stopped by itself.
        """
        tail = "" if self._watch.found else self._watch.held + self._decoder.decode(b"", final=True)
        self._pieces.append(tail)
        self.ending = ending
        block_size = self.loaded.model.block_size
        context = len(self.ids) + len(self.tokens)
        return SampleEnded(
            index=self.index,
            text=self.text,
            tail=tail,
            tokens=len(self.tokens),
            seconds=seconds,
            seed=self.seed,
            context=context if block_size is None else min(context, block_size),
            block_size=block_size,
            ending="stop" if self.has_stopped else ending,
        )
