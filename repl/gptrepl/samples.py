"""A sample in the making: ids become text here, whole characters only."""

from __future__ import annotations

import codecs
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from .api import Ending, Event, SampleEnded, SampleStarted, Token
from .loading import Loaded


class Sample:
    """One sample: its prompt, its seed and the text so far.

    The texts of its events, joined, are the decoding of all the bytes, however characters
    split over tokens; bytes that are no UTF-8 become one U+FFFD as in any decoder.
    """

    def __init__(
        self, index: int, prompt: str, ids: Sequence[int], seed: int, loaded: Loaded
    ) -> None:
        self.index = index
        self.prompt = prompt
        self.ids = ids
        self.seed = seed
        self.tokens: list[int] = []
        self._loaded = loaded
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pieces = [prompt]

    @property
    def text(self) -> str:
        """All of it so far, prompt included."""
        return "".join(self._pieces)

    def start(self) -> SampleStarted:
        """Return the event that opens it."""
        return SampleStarted(self.index, self.prompt, self.seed)

    def add(self, token: int, logprob: float) -> Token:
        """Return the event of one token drawn, with the characters it completes."""
        piece = self._decoder.decode(self._loaded.tokenizer.token_bytes(token))
        self.tokens.append(token)
        self._pieces.append(piece)
        return Token(self.index, token, piece, logprob)

    def end(self, ending: Ending, seconds: float) -> SampleEnded:
        """Return the event that closes it, with what was left of a split character."""
        tail = self._decoder.decode(b"", final=True)
        self._pieces.append(tail)
        block_size = self._loaded.model.block_size
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
            ending=ending,
        )


class InOrder:
    """Puts the events of samples that are decoded together one sample after the other.

    The first sample that has not ended streams; the events of later ones wait for their turn.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._waiting: defaultdict[int, deque[Event]] = defaultdict(deque)

    def put(self, event: SampleStarted | Token | SampleEnded) -> Iterator[Event]:
        """Yield the events whose turn it is once *event* has come."""
        self._waiting[event.index].append(event)
        while queue := self._waiting[self._turn]:
            ready = queue.popleft()
            if isinstance(ready, SampleEnded):
                self._turn += 1
            yield ready
