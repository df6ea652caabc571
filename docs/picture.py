"""Draws the README's picture: what a terminal shows after a real session, as an SVG.

`make docs` runs it. The lines are typed into the shell through a pseudo-terminal, and the screen
is exported by rich.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

import pexpect
import pyte
from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 90, 34
LINES = [":tokens 90", "ROMEO:", ":profile creative", ":topp 0.9", "To be, or", ":tmep 0.5"]
TARGET = Path(__file__).with_name("shell.svg")
FONTS = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)
QUIET = 1.5
"""Seconds without a change after which a line counts as answered."""


def session() -> pyte.Screen:
    """Return the screen after LINES were typed into the shell that is installed beside Python."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "TERM": "xterm-256color", "LINES": str(ROWS)}
        environment |= {f"XDG_{kind}_HOME": home for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        command = str(Path(sys.executable).with_name("gptrepl"))
        shell = pexpect.spawn(command, dimensions=(ROWS, COLUMNS), env=environment, cwd=home)
        settle(shell, stream, until="seed 1337")
        for line in LINES:
            shell.send(f"{line}\r")
            settle(shell, stream)
        shell.close(force=True)
    return screen


def settle(shell: pexpect.spawn, stream: pyte.ByteStream, until: str = "") -> None:
    """Feed the screen until nothing has changed for a while, and *until* has been seen."""
    last, seen = time.monotonic(), ""
    while time.monotonic() - last < QUIET or until not in seen or "loading" in seen[-200:]:
        try:
            data = shell.read_nonblocking(65536, timeout=0.1)
        except pexpect.TIMEOUT:
            continue
        seen += data.decode(errors="replace")
        stream.feed(data)
        last = time.monotonic()


def lines_of(screen: pyte.Screen) -> list[Text]:
    """Return the rows of the screen with their looks, the empty ones at the end left out."""
    rows = []
    for number in range(screen.lines):
        text = Text()
        for column in range(screen.columns):
            cell = screen.buffer[number][column]
            colour = "" if cell.fg == "default" else cell.fg.replace("bright", "bright_")
            looks = [colour, "bold" if cell.bold else "", "reverse" if cell.reverse else ""]
            text.append(cell.data, " ".join(filter(None, looks)) or None)
        text.rstrip()
        rows.append(text)
    while rows and not rows[-1].plain.strip():
        rows.pop()
    return rows


def main() -> None:
    """Write the picture, speeds as they were measured; no font is fetched from anywhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for row in lines_of(session()):
        console.print(row, soft_wrap=True)
    svg = console.export_svg(title="gptrepl", unique_id="gptrepl")
    svg = FONTS.sub("", svg)
    TARGET.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
