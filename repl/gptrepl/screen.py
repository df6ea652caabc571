"""Events as a person sees them: samples as they are drawn, tables, notices, errors in red.

Nothing a model, a file or a plugin says can drive the terminal: all of it passes `harmless`.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping
from typing import TextIO

from prompt_toolkit.utils import get_cwidth

from .api import Event, Notice, Progress, SampleEnded, SampleStarted, Table, Token, Transcript
from .looks import THEMES, styled
from .report import summary
from .statusbar import StatusBar

CONTROLS = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127) if chr(code) not in "\n\t"}
HIGH_CONTROLS = {code: f"<{code:02x}>" for code in range(0x80, 0xA0)}
OVERRIDES = {code: f"<{code:04x}>" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
HARMLESS = CONTROLS | HIGH_CONTROLS | OVERRIDES
START_OVER = "\r\x1b[K"
BAR = 20
WORD = re.compile(r"\s*\S+|\s+$")


def harmless(text: str) -> str:
    """Return *text* with every control character shown: ESC as `^[`, a C1 control as `<9b>`.

    Newlines and tabs stay; the characters that turn the direction of writing do not.
    """
    return text.translate(HARMLESS)


class Screen:
    """Writes events to a terminal. It knows whether the cursor stands at the start of a line.

    *looks* are the terminal's numbers for each kind of text. *moves* False: no codes at all.
    """

    def __init__(
        self,
        out: TextIO,
        width: Callable[[], int],
        *,
        looks: Mapping[str, str] = THEMES["quiet"],
        moves: bool = True,
        bar: StatusBar | None = None,
    ) -> None:
        self.out = out
        self.width = width
        self.looks = looks
        self.moves = moves
        self.bar = bar
        self._fresh = True
        self._column = 0
        self._is_broken = False
        self._progress = ""
        self._ended = False
        self._speaker = ""

    def show(self, event: Event) -> None:
        """Show one event."""
        self._ended = isinstance(event, SampleEnded)
        if isinstance(event, Progress):
            self._show_progress(event)
            return
        self._erase_progress()
        match event:
            case SampleStarted():
                self._write("\n" if event.index else "")
                # Of what was shown before, the line that goes on is shown again; in a chat the
                # user has just typed it.
                begun = event.prompt.rfind("\n", 0, event.known) + 1
                self._write(event.prompt[event.known if event.role else begun :], "prompt")
                self._speaker = event.role
                self._follow(event)
            case Token():
                self._write(event.text, "special" if event.special else self._speaker)
                self._follow(event)
            case SampleEnded():
                self._write(event.tail, self._speaker)
                self.say(summary(event), "summary")
            case Transcript():
                self.settle()
                for role, piece in event.parts:
                    self._write(piece, role)
                self.settle()
            case Notice():
                self.say(event.text, "warning" if event.warning else "")
            case Table():
                self.settle()
                self._put(self.drawn(event))

    def drawn(self, table: Table) -> str:
        """Return *table* as it is shown in this window."""
        return draw(table, self.width(), colour="error" in self.looks)

    def _follow(self, event: SampleStarted | Token) -> None:
        if self.bar is not None:
            self.bar.follow(event, self.looks.get("toolbar", ""), can_draw=not self._hangs)

    def say(self, text: str, role: str = "") -> None:
        """Write *text* on lines of its own, broken between words."""
        self.settle()
        self._write(wrapped(harmless(text), self.width()), role)
        self.settle()

    def interrupted(self) -> None:
        """Say that the work was stopped, unless a sample has just said so itself."""
        self.settle()
        if not self._ended:
            self.say("interrupted", "summary")

    def copy(self, text: str) -> None:
        """Put *text* on the clipboard, where the terminal can and moves its cursor."""
        if self.moves:
            self._put(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07", seen="")

    def ring(self) -> None:
        """Ring the bell of the terminal."""
        self._put("\a", seen="")

    def break_line(self) -> None:
        """Go to the next line, wherever the cursor is."""
        self._put("\n")

    def align(self) -> None:
        """Bring the cursor to the start of a line after others have written.

        So many spaces reach the next line from any column but the first.
        """
        if self.moves:
            self._put(f"{' ' * (self.width() - 1)}{START_OVER}")
        self._fresh, self._column = True, 0

    def settle(self) -> None:
        """Bring the cursor to the start of an empty line, and the window to what it was."""
        if self.bar is not None:
            self.bar.close()
        self._erase_progress()
        if not self._fresh:
            self._put("\n")

    def _write(self, text: str, role: str = "") -> None:
        text = harmless(text)
        if self._is_broken and text.startswith("\n"):  # the line end is there already
            self._is_broken, text = False, text[1:]
        self._put(styled(text, self.looks.get(role, "")), seen=text)

    def _put(self, text: str, *, seen: str | None = None) -> None:
        """Write *text*, of which *seen* is what can be seen; by default all of it."""
        seen = text if seen is None else seen
        if seen:  # until it is written, in case that this is cut short
            self._fresh = False
        if text:
            self.out.write(text)
            self.out.flush()
        if seen:
            self._fresh, self._is_broken = seen.endswith("\n"), False
            self._column = column_after(seen, self._column, self.width())

    @property
    def _hangs(self) -> bool:
        """Whether the line is full, and the cursor waits at its end for what comes next.

        Some terminals forget that where the cursor is saved, and would write over the last sign.
        """
        return 0 < self.width() <= self._column

    def _break_full_line(self) -> None:
        """Let the cursor stand at the start of the next line, where the current one is full."""
        if self._hangs:
            self._put(" \b")
            self._fresh, self._column, self._is_broken = True, 0, True

    def _show_progress(self, step: Progress) -> None:
        if step.done == step.total:
            self._erase_progress()
            if self.bar is not None:
                self.bar.restart()
            return
        if self.bar is not None:
            self._break_full_line()
        text = harmless(bar(step, self.width()))
        if self.moves and (self._fresh or self._progress):
            self._progress = cut(text, self.width() - 1)
            self.out.write(START_OVER + styled(self._progress, self.looks.get("progress", "")))
            self.out.flush()
        elif self.bar is not None:  # a text stands on the line
            self.bar.tell(text, self.looks.get("toolbar", ""))
        elif not self.moves and self._progress != step.what:
            self._progress = step.what
            self.out.write(f"{harmless(step.what)} ...\n")
            self.out.flush()

    def _erase_progress(self) -> None:
        if self._progress and self.moves:
            self.out.write(START_OVER)
            self.out.flush()
        self._progress = ""


def bar(step: Progress, width: int) -> str:
    """Return a step of long work in words, with a bar where its end is known and there is room."""
    if not step.total:
        return f"{step.what} ..."
    done = min(step.done / step.total, 1.0)
    text = f"{step.what} {'#' * int(done * BAR):.<{BAR}} {done:.0%}"
    return text if get_cwidth(text) < width else f"{step.what} {done:.0%}"


def column_after(text: str, column: int, width: int) -> int:
    """Return where the cursor is behind *text*, from *column* on; *width*: behind a full line."""
    _, line_end, rest = text.rpartition("\n")
    column = 0 if line_end else column
    for sign in rest:
        if sign == "\t":
            column = min((column // 8 + 1) * 8, width - 1)
            continue
        wide = get_cwidth(sign)
        column = wide if column + wide > width else column + wide
    return column


def cut(text: str, width: int) -> str:
    """Return the beginning of *text* that fits into *width* columns."""
    while text and get_cwidth(text) > width:
        text = text[:-1]
    return text


def wrapped(text: str, width: int) -> str:
    """Return *text* with its lines broken between words, where they do not fit into *width*."""
    lines: list[str] = []
    for line in text.split("\n"):
        row = ""
        for word in WORD.findall(line):
            if row and get_cwidth(row + word) > width:
                lines.append(row)
                row = word.lstrip()
            else:
                row += word
        lines.append(row)
    return "\n".join(lines)


def draw(table: Table, width: int, *, colour: bool) -> str:
    """Return a table as lines of *width* columns at most; long cells are folded."""
    import rich.console
    import rich.table
    from rich.text import Text

    grid = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in table.columns:
        grid.add_column(Text(harmless(name)), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(harmless(cell)) for cell in row))
    console = rich.console.Console(
        file=io.StringIO(),
        width=max(width, 1),
        color_system="standard" if colour else None,
        force_terminal=colour,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        console.print(grid)
    return captured.get()
