"""The log: every generation leaves a receipt, in the user's database or else in memory.

Nothing that happens to the database stops a sample: it is said once, and the log goes on in
memory until the database takes receipts again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import platformdirs

from .api import GptreplError, Notice
from .fingerprint import Fingerprint, WeightFile
from .generation import Generation
from .receipts import Receipt, receipt_of
from .records import Store

T = TypeVar("T")

EVERY = 1.0
"""Seconds after which a generation that goes on is written again."""
PATIENT, HASTY = 2.0, 0.05
"""Seconds to wait for another shell's writing: when samples have ended, while they stream."""
DAMAGE = ("malformed", "not a database", "vtable constructor failed")
TROUBLES = (sqlite3.Error, OSError)


class Log:
    """The receipts that the user has, and those of this session that are not stored yet."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._disk: Store | None = None
        self._memory: Store | None = None
        self._said = False
        self._trouble = ""
        self._number: int | None = None
        self._written = 0.0
        self._unhashed: list[Fingerprint] = []

    # --- what the session tells -----------------------------------------------------------------

    def started(self, generation: Generation) -> None:  # noqa: ARG002 - the protocol's name
        """Begin to count the seconds."""
        self._number = None
        self._written = time.monotonic()

    def drawn(self, generation: Generation) -> None:
        """Write what there is once a second; begin to hash the weights at the first token."""
        now = time.monotonic()
        if now - self._written < EVERY:
            return
        self._written = now
        if generation.settings.log:
            self._hash(generation.loaded.fingerprint)
            try:
                receipt = receipt_of(generation, ended=False)
                self._number = self._open(HASTY).write(receipt, self._number)
            except TROUBLES:  # it is said at the end if there is still trouble then
                return

    def ended(self, generation: Generation) -> None:
        """Write the whole receipt, and keep it in memory where that fails.

        What failed before a sample began leaves none.
        """
        receipt = receipt_of(generation, ended=True)
        if not (generation.settings.log and receipt.samples):
            return
        self._hash(generation.loaded.fingerprint)
        try:
            disk = self._open(HASTY if self._said else PATIENT)
            self._number = disk.write(receipt, self._number)
            self._settle()
        except TROUBLES as error:
            self._keep(receipt, error)

    def said(self) -> Iterator[Notice]:
        """Yield why receipts are kept in memory, once."""
        trouble, self._trouble = self._trouble, ""
        if trouble:
            yield Notice(trouble, True)

    def close(self) -> None:
        """Store what is not stored yet, and let go of the database."""
        try:
            if self._unhashed or self._memory is not None:
                for fingerprint in self._unhashed:
                    fingerprint.value()
                self._open(PATIENT)
                self._settle()
        except TROUBLES:  # it was said when it began
            pass
        finally:
            for store in (self._disk, self._memory):
                if store is not None:
                    store.close()
            self._disk = self._memory = None

    # --- what the user asks ---------------------------------------------------------------------

    def find(self, text: str = "", limit: int = -1) -> list[Receipt]:
        """Return the newest receipts that hold every word of *text*, at most *limit* (-1: all).

        Raises GptreplError if there is a database that cannot be read.
        """
        kept = self._memory.find(text) if self._memory is not None else []
        stored = self._read(lambda store: store.find(text, limit)) or []
        both = sorted([*kept, *stored], key=lambda receipt: receipt.time, reverse=True)
        return both[: limit if limit >= 0 else None]

    def get(self, id: int) -> Receipt:
        """Return receipt number *id*; raise GptreplError if there is none."""
        found = self._memory.get(id) if self._memory is not None else None
        found = found or self._read(lambda store: store.get(id))
        if found is None:
            raise GptreplError(f"there is no receipt {id}, see :log")
        return found

    def remove(self, *ids: int) -> int:
        """Remove receipts by number; return how many there were."""
        kept = self._memory.remove(ids) if self._memory is not None else 0
        return kept + (self._read(lambda store: store.remove(ids)) or 0)

    # --- the database ---------------------------------------------------------------------------

    def _open(self, patience: float) -> Store:
        """Return the database, opened anew where the file is not the one that was opened."""
        if self._disk is not None and self._disk.is_gone():
            self._disk.close()
            self._disk = None
        if self._disk is None:
            self._disk = Store(self.path, patience)
        self._disk.wait(patience)
        return self._disk

    def _read(self, ask: Callable[[Store], T]) -> T | None:
        """Return what the database answers; None where there is none, or where it was said."""
        if self._disk is None and not self.path.exists():
            return None
        try:
            return ask(self._open(PATIENT))
        except TROUBLES as error:
            if self._said:
                return None
            raise GptreplError(f"cannot read the log {self.path}: {reason(error)}") from None

    def _keep(self, receipt: Receipt, error: Exception) -> None:
        """Keep a receipt in memory, under a number below zero, and say so the first time."""
        self._memory = self._memory or Store()
        self._memory.write(receipt, -1 - len(self._memory.find()))
        if not self._said:
            self._said = True
            self._trouble = (
                f"cannot write the log {self.path}: {reason(error)}; "
                "receipts are kept in memory until it can be written"
            )

    def _settle(self) -> None:
        """Store the receipts that are in memory, and the hashes that are done."""
        assert self._disk is not None
        if self._memory is not None:
            for receipt in self._memory.find():  # the first is nearest to zero
                self._disk.write(receipt)
                self._memory.remove([receipt.id])
        for fingerprint in [one for one in self._unhashed if one.is_done]:
            for file, sha256 in fingerprint.digests.items():
                if sha256 and sha256 != self._disk.digest(file):
                    self._disk.remember(file, sha256)
            self._unhashed.remove(fingerprint)

    def _hash(self, fingerprint: Fingerprint) -> None:
        """Begin to hash the weights, unless their hash is remembered."""
        if fingerprint.files and not fingerprint.is_begun:
            fingerprint.begin(self._remembered)
            self._unhashed.append(fingerprint)

    def _remembered(self, file: WeightFile) -> str:
        try:
            return self._open(HASTY).digest(file)
        except TROUBLES:
            return ""


def default_path() -> Path:
    """Return where the database is, on this system and for this user; it may not exist."""
    return Path(platformdirs.user_data_dir("gptrepl", appauthor=False)) / "receipts.db"


def reason(error: Exception) -> str:
    """Return why the database cannot be used, and what to do where that is not plain."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error)
    if any(sign in text for sign in DAMAGE):
        return f"it is damaged ({text}): move it away to begin a new one"
    return text
