"""How long the shell takes to its first prompt, and a key to the screen, through a real terminal.

Run it as `python tests/benchmarks/keys.py`; it prints a table.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import pexpect

ROUNDS = 5
KEYS = 150
TEXT = "What say you to my suit and so the king "
COMMANDS = (":temp 0.5", ":profile cr", ":set top_k 3", ":help mul")


def shell(home: str, *lines: str) -> pexpect.spawn:
    """Start a shell in a fresh home and run *lines* with the model in memory."""
    environment = {**os.environ, "HOME": home, "TERM": "xterm-256color"}
    child = pexpect.spawn(
        sys.executable, ["-m", "gptrepl"], env=environment, dimensions=(24, 80), timeout=120
    )
    child.delaybeforesend = None
    child.expect("seed 1337")
    for line in lines:
        child.send(f"{line}\r")
        child.expect("seed 1337")
    return child


def first_prompt(home: str) -> float:
    """Return the seconds from the start of the process to the prompt."""
    began = time.perf_counter()
    child = shell(home)
    seconds = time.perf_counter() - began
    child.close(force=True)
    return seconds


def costs(child: pexpect.spawn, texts: tuple[str, ...]) -> list[float]:
    """Return the seconds from each key of *texts* to its echo, at a fast typist's pace."""
    found: list[float] = []
    while len(found) < KEYS:
        for text in texts:
            for key in text:
                began = time.perf_counter()
                child.send(key)
                if key != " ":  # a blank may be drawn by moving the cursor
                    child.expect_exact(key)
                    found.append(time.perf_counter() - began)
                time.sleep(0.06)
                drain(child)
            child.send("\x03")
            time.sleep(0.2)
            drain(child)
    return found


def drain(child: pexpect.spawn) -> None:
    """Read what else has been drawn."""
    try:
        while True:
            child.read_nonblocking(65536, timeout=0)
    except pexpect.TIMEOUT:
        return


def row(name: str, seconds: list[float]) -> str:
    """Return a line of the table."""
    last = sorted(seconds)[int(len(seconds) * 0.99)]
    return f"| {name} | {statistics.median(seconds) * 1e3:.1f} | {last * 1e3:.1f} |\n"


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        sys.stdout.write("| ms | median | 99th percentile |\n| --- | --- | --- |\n")
        times = [first_prompt(home) for _ in range(ROUNDS)]
        sys.stdout.write(row("start to first prompt", times))
        for name, lines, texts in (
            ("a key of a prompt", ("ROMEO:",), (TEXT,)),
            ("a key of a command, with completion", ("ROMEO:",), COMMANDS),
            ("a key of a prompt, suggestions on", ("ROMEO:", ":suggest on"), (TEXT,)),
        ):
            child = shell(home, *lines)
            sys.stdout.write(row(name, costs(child, texts)))
            child.close(force=True)


if __name__ == "__main__":
    main()
