"""Receipts in SQLite: one row each, written whole, safe with several shells at once.

The columns that people ask for are columns; what has a structure of its own is JSON in them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from .fingerprint import WeightFile
from .receipts import Drawn, Receipt, with_hash

PRIVATE = 0o600
VERSION = 1
"""What the tables look like; a file that says more was made by a later gptrepl."""
MEMORY = ":memory:"
LARGEST = 2**63 - 1
"""The largest number that SQLite can hold."""
TABLES = (
    """CREATE TABLE IF NOT EXISTS receipts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT, model TEXT, hash TEXT, tokenizer TEXT,
    device TEXT, dtype TEXT, seed TEXT, settings TEXT, chain TEXT, versions TEXT, files TEXT,
    samples TEXT, tokens INTEGER, text TEXT, seconds REAL, ending TEXT)""",
    """CREATE TABLE IF NOT EXISTS hashes (
    path TEXT, size INTEGER, mtime INTEGER, sha256 TEXT, PRIMARY KEY (path, size, mtime))""",
    f"PRAGMA user_version = {VERSION}",
)
ROW = (
    *("time", "model", "hash", "tokenizer", "device", "dtype", "seed", "settings", "chain"),
    *("versions", "files", "samples", "tokens", "text", "seconds", "ending"),
)
"""The columns after the number, in their order."""
INSERT = "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INDEX = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    text, content='receipts', content_rowid='id', tokenize='trigram')""",
    """CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON receipts BEGIN
    INSERT INTO words(rowid, text) VALUES (new.id, new.text); END""",
    """CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON receipts BEGIN
    INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text); END""",
)
"""For searching, where this SQLite can do it: every run of three letters."""
SHORTEST = 3
JSON: dict[str, Any] = {
    "settings": dict[str, Any],
    "chain": list[str],
    "versions": dict[str, str],
    "files": list[WeightFile],
    "samples": list[Drawn],
}
"""The columns that are JSON, and what each of them holds."""
FOLLOWING = ("seed", "tokens", "text")
"""The columns that follow from the samples; they are there to be asked for."""


class Store:
    """The receipts of one database file, or of memory.

    Everything may raise sqlite3.Error or OSError; what was not written is then as it was.
    """

    def __init__(self, path: Path | None = None, patience: float = 2.0) -> None:
        self.path = path
        if path is not None:
            prepare(path)
        self._identity = identity(path)
        self._connection = sqlite3.connect(
            path or MEMORY, timeout=patience, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        try:
            self._begin()
        except BaseException:
            self._connection.close()
            raise

    def _begin(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise sqlite3.DatabaseError("it was made by a later version of gptrepl")
        if self.path is not None:
            with suppress(sqlite3.OperationalError):  # another shell is just doing the same
                self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        if version < VERSION:
            self._execute(TABLES)
            with suppress(sqlite3.OperationalError):  # this SQLite has no FTS5, or no trigrams
                self._execute(INDEX)
        index = "SELECT 1 FROM sqlite_master WHERE name = 'words'"
        self.has_index = self._connection.execute(index).fetchone() is not None

    def _execute(self, statements: Iterable[str]) -> None:
        with self._changing():
            for statement in statements:
                self._connection.execute(statement)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Do all of what happens within, or nothing of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def is_gone(self) -> bool:
        """Return whether the file was moved or removed since it was opened."""
        return identity(self.path) != self._identity

    def wait(self, patience: float) -> None:
        """Wait *patience* seconds from now on while another shell writes."""
        self._connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")

    def write(self, receipt: Receipt, id: int | None = None) -> int:
        """Store a receipt, in the place of number *id* if there is one; return its number."""
        with self._changing():
            if id is not None:
                self._connection.execute("DELETE FROM receipts WHERE id = ?", (id,))
            made = self._connection.execute(INSERT, (id, *row_of(receipt)))
        assert made.lastrowid is not None
        return made.lastrowid

    def find(self, text: str = "", limit: int = -1) -> list[Receipt]:
        """Return the newest receipts that hold every word of *text*, at most *limit* (-1: all)."""
        if not text.strip():
            newest = "SELECT * FROM receipts ORDER BY id DESC LIMIT ?"
            rows = self._connection.execute(newest, (storable(limit),))
            return [self._receipt(row) for row in rows]
        ids = set.intersection(*(self._holding(word) for word in text.split()))
        chosen = sorted(ids, reverse=True)[: limit if limit >= 0 else None]
        return [receipt for receipt in map(self.get, chosen) if receipt is not None]

    def _holding(self, word: str) -> set[int]:
        """Return the numbers of the receipts whose texts hold *word*, in upper or lower case."""
        if self.has_index and len(word) >= SHORTEST:
            phrase = word.replace('"', '""')
            found = self._connection.execute(
                "SELECT rowid FROM words WHERE words MATCH ?", (f'"{phrase}"',)
            )
        else:
            found = self._connection.execute(
                "SELECT id FROM receipts WHERE text LIKE ? ESCAPE '\\'", (f"%{escaped(word)}%",)
            )
        return {row[0] for row in found}

    def get(self, id: int) -> Receipt | None:
        """Return receipt number *id*, if there is one."""
        ask = "SELECT * FROM receipts WHERE id = ?"
        row = self._connection.execute(ask, (storable(id),)).fetchone()
        return self._receipt(row) if row else None

    def remove(self, ids: Iterable[int]) -> int:
        """Remove receipts by number; return how many there were."""
        with self._changing():
            removed = [
                self._connection.execute("DELETE FROM receipts WHERE id = ?", (id,)).rowcount
                for id in map(storable, ids)
            ]
        return sum(removed)

    def digest(self, file: WeightFile) -> str:
        """Return the remembered sha256 of *file*, or nothing."""
        row = self._connection.execute(
            "SELECT sha256 FROM hashes WHERE path = ? AND size = ? AND mtime = ?",
            (file.path, file.size, file.mtime),
        ).fetchone()
        return str(row[0]) if row else ""

    def remember(self, file: WeightFile, sha256: str) -> None:
        """Remember the sha256 of *file*."""
        with self._changing():
            self._connection.execute(
                "INSERT OR REPLACE INTO hashes VALUES (?, ?, ?, ?)",
                (file.path, file.size, file.mtime, sha256),
            )

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _receipt(self, row: sqlite3.Row) -> Receipt:
        said = {name: row[name] for name in row.keys() if name not in FOLLOWING}  # noqa: SIM118
        for name, kind in JSON.items():
            said[name] = msgspec.json.decode(said[name], type=kind)
        return with_hash(Receipt(**said), self.digest)


def row_of(receipt: Receipt) -> Iterator[Any]:
    """Yield the values of the columns after the number.

    A seed is text: SQLite's numbers end below 2**64.
    """
    for name in ROW:
        value = getattr(receipt, name)
        if name in JSON:
            value = msgspec.json.encode(value).decode()
        yield str(value) if name == "seed" else value


def prepare(path: Path) -> None:
    """Make sure that there is a file *path* that nobody else can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    path.chmod(PRIVATE)


def identity(path: Path | None) -> tuple[int, int] | None:
    """Return what tells the file *path* from every other; None where there is none."""
    try:
        state = path.stat() if path is not None else None
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if state is not None else None


def storable(number: int) -> int:
    """Return *number*, or the nearest one that SQLite can hold; no receipt has that."""
    return max(-LARGEST, min(number, LARGEST))


def escaped(word: str) -> str:
    """Return *word* for LIKE, with nothing in it that stands for other letters."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
