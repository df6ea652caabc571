"""Other engines that `gptrepl bench --against` runs, each a process of its own.

A peer is a program that takes a source as its argument. It speaks JSON, one object a line:

- it writes `{"ready": "its name"}` when its model is in memory;
- it reads `{"ids": [...], "tokens": N, "temperature": T, "top_k": K}` and continues the ids by N
  tokens, K 0 meaning all; then it writes `{"first": SECONDS, "seconds": SECONDS}`: the time to
  the first token, and to the last;
- it may write `{"error": "a sentence"}` in place of either;
- it runs on OMP_NUM_THREADS threads, as many as the model it is compared with;
- it ends when its input does. What it writes to standard error is shown as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...api import GptreplError

OWN = ("nanogpt", "transformers")
Draw = Callable[[list[int], float, int], Iterator[int]]
"""What a peer in Python is made of: it takes ids, temperature and top_k, and goes on for ever."""


class Peer:
    """A peer that runs; `ask` it as often as you like, and `close` it."""

    def __init__(self, which: str, source: str, threads: int = 1) -> None:
        self.name = which
        command = [sys.executable]
        command += ["-m", f"{__name__}.{which}"] if which in OWN else [which]
        if which not in OWN and not Path(which).is_file():
            raise GptreplError(f"no peer {which!r}: it is {', '.join(OWN)} or a file")
        self._process = subprocess.Popen(
            [*command, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        self.name = str(self._answer().get("ready", which))

    def ask(
        self, ids: Sequence[int], tokens: int, temperature: float, top_k: int
    ) -> tuple[float, float]:
        """Return the seconds to the first token and to the last."""
        assert self._process.stdin is not None
        wanted = {"ids": list(ids), "tokens": tokens, "temperature": temperature, "top_k": top_k}
        try:
            self._process.stdin.write(json.dumps(wanted) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise GptreplError(f"the peer {self.name} has ended by itself") from None
        answer = self._answer()
        try:
            return float(answer["first"]), float(answer["seconds"])
        except (KeyError, TypeError, ValueError):
            raise GptreplError(f"the peer {self.name} gave {answer} without its times") from None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close()
            said = f"said {line.strip()[:60]!r}, which is no object" if line else "ended by itself"
            raise GptreplError(f"the peer {self.name} {said}")
        if "error" in answer:
            self.close()
            raise GptreplError(f"the peer {self.name}: {answer['error']}")
        return answer


def serve(name: str, load: Callable[[str], Draw]) -> None:
    """Be a peer: load the source that the command line names, then answer what is asked."""
    try:
        draw = load(sys.argv[1])
    except GptreplError as error:
        say({"error": str(error)})
        return
    say({"ready": name})
    for line in sys.stdin:
        wanted = json.loads(line)
        began = time.perf_counter()
        drawn = draw(wanted["ids"], wanted["temperature"], wanted["top_k"])
        marks = [time.perf_counter() for _, _ in zip(range(wanted["tokens"]), drawn, strict=False)]
        say({"first": marks[0] - began, "seconds": marks[-1] - began})


def say(answer: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
