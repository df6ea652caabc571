"""No sequence of n tokens occurs twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gptrepl.api import Stage, knob
from gptrepl_plugins.samplers.removal import without
from gptrepl_plugins.samplers.window import places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@dataclass(frozen=True)
class NoRepeatNgram:
    """Remove the tokens that would complete a sequence of n tokens a second time.

    A token goes if it followed the last n - 1 ids somewhere before, prompt included. Paulus,
    Xiong and Socher 2017, arXiv 1705.04304. n >= 0; off at 0; 1 allows every token once.

    Where no token would be left all stay.
    """

    no_repeat_ngram: int = knob(0, help="how long a sequence occurs once only; 0 is off", ge=0)

    stage: ClassVar[Stage] = "penalty"
    rank: ClassVar[int] = 50

    def __call__(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Return the logits without the tokens that would repeat a sequence."""
        size = self.no_repeat_ngram
        if size == 0 or len(ids) < size:
            return logits
        row = list(ids)
        if size == 1:
            return without(logits, list(set(row)))
        start = row[1 - size :]
        ends = [end for end in places(row[:-1], row[-1]) if end >= size - 2]
        repeated = {row[end + 1] for end in ends if row[end + 2 - size : end + 1] == start}
        return without(logits, list(repeated))
