"""What a node measured, for as long as the head may need it: a bounded file, the oldest going first.

SQLite, because it keeps what was committed through a kill and a power cut, and is part of Python
(docs/decisions/0099-a-node-pushes-from-a-spool.md). Numbers rise for ever within a file; one that was
deleted, or that is older than what the head knows, is another spool with a name of its own.
"""

import os
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from collector.sources.nodes.terms import Term
from collector.sources.nodes.wire import MOST_MS, MOST_RECORDS, Record
from service.errors import FallowError

FILE_NAME = "spool.sqlite"
ROW_BYTES = 160
"""What a row takes beside its page, about: columns, a key, its share of a block."""
BUSY_S = 5.0
"""A doctor may look at the file for a moment."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS ticks (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, width_ms INTEGER NOT NULL,
    boot TEXT NOT NULL, steady_ms INTEGER NOT NULL, page BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS spool (name TEXT NOT NULL, lost INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS head (
    one INTEGER PRIMARY KEY CHECK (one = 1), stored INTEGER NOT NULL, credential TEXT,
    epoch INTEGER, start INTEGER, word TEXT, seal TEXT
);
INSERT OR IGNORE INTO head (one, stored) VALUES (1, 0);
"""
"""AUTOINCREMENT: a number is never given twice, also after the row with the highest one was deleted."""


T = TypeVar("T")


class SpoolTrouble(FallowError):
    """The spool cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLimits:
    """How much is kept: bytes of pages as they are packed, and for how long.

    ``stored_ms`` is for how long a tick stays that the head has stored: a head that is restored from an older
    back-up asks for it again.
    """

    most_bytes: int
    most_ms: int
    stored_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolState:
    """How a spool stands: ticks that wait, the oldest one's time, and how many were lost for want of room."""

    waiting: int
    oldest_ms: int | None
    lost: int


class Spool:
    """One spool file, of one process; safe from its threads."""

    def __init__(self, folder: Path, limits: SpoolLimits) -> None:
        self._path = folder / FILE_NAME
        self._limits = limits
        self._guard = threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise SpoolTrouble(f"the spool {self._path} cannot be made: {error.strerror}") from error
        self._db = self._opened()
        if not self._rows("SELECT 1 FROM spool"):
            self._change("INSERT INTO spool VALUES (?, 0)", secrets.token_hex(8))
        self._bytes = int(self._rows(f"SELECT coalesce(sum(length(page) + {ROW_BYTES}), 0) FROM ticks")[0][0])

    @property
    def name(self) -> str:
        """Which spool it is."""
        return str(self._rows("SELECT name FROM spool")[0][0])

    @property
    def state(self) -> SpoolState:
        """How it stands."""
        waiting, oldest_ms = self.beyond(self._stored())
        return SpoolState(
            waiting=waiting, oldest_ms=oldest_ms, lost=self._rows("SELECT lost FROM spool")[0][0]
        )

    def by_credential(self, digest: str) -> None:
        """Which token is pushed with. A new one is a person's word that its head is the one: what was heard
        of heads with the one before is forgotten.
        """
        if self._rows("SELECT credential FROM head")[0][0] != digest:
            self._change("UPDATE head SET credential = ?, word = NULL", digest)

    @property
    def head(self) -> Term | None:
        """The newest head that was heard."""
        epoch, start, word, seal = self._rows("SELECT epoch, start, word, seal FROM head")[0]
        return None if word is None else Term(epoch=epoch, start=start, word=word, seal=seal)

    def heard(self, head: Term) -> None:
        """Remember the newest head, durably."""
        if head != self.head:
            words = "UPDATE head SET epoch = ?, start = ?, word = ?, seal = ?"
            self._change(words, head.epoch, head.start, head.word, head.seal)

    def add(self, *, at_ms: int, width_ms: int, boot: str, steady_ms: int, page: bytes) -> int:
        """Keep a tick, durably, and let the oldest go where there is no room; its number."""
        packed = zlib.compress(page)
        with self._transaction() as db:
            row = (at_ms, width_ms, boot, steady_ms, packed)
            number = db.execute(
                "INSERT INTO ticks (at_ms, width_ms, boot, steady_ms, page) VALUES (?, ?, ?, ?, ?)", row
            ).lastrowid
            self._bytes += len(packed) + ROW_BYTES
            self._make_room(db, at_ms)
        assert number is not None
        return int(number)

    def next(self, after: int, most: int = MOST_RECORDS) -> tuple[Record, ...]:
        """The oldest ticks with numbers above ``after``."""
        rows = self._rows(
            "SELECT sequence, at_ms, width_ms, boot, steady_ms, page FROM ticks WHERE sequence > ? "
            "ORDER BY sequence LIMIT ?",
            after,
            most,
        )
        return tuple(
            Record(
                sequence=sequence,
                at_ms=at_ms,
                width_ms=width_ms,
                boot=boot,
                steady_ms=steady_ms,
                page=zlib.decompress(page),
            )
            for sequence, at_ms, width_ms, boot, steady_ms, page in rows
        )

    def beyond(self, received: int) -> tuple[int, int | None]:
        """How many ticks have numbers above ``received``, and when the oldest of them was (UTC ms)."""
        waiting, oldest_ms = self._rows(
            "SELECT count(*), min(at_ms) FROM ticks WHERE sequence > ?", received
        )[0]
        return waiting, oldest_ms

    def forget(self, up_to: int) -> None:
        """Delete what the head has stored for long enough. Where it knows numbers that were never given here,
        an older file was put back: what waits in it gets a new name, so that nothing is taken for what is
        stored already. A head that has stored less than before was restored from a back-up: the rest waits.
        """
        last = self._rows("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'ticks'")
        if up_to > (last[0][0] if last else 0):
            with self._transaction() as db:
                self._delete(db, self._stored())
                db.execute("UPDATE spool SET name = ?", (secrets.token_hex(8),))
                db.execute("UPDATE head SET stored = 0")
            return
        newest = self._rows("SELECT at_ms FROM ticks ORDER BY sequence DESC LIMIT 1")
        with self._transaction() as db:
            db.execute("UPDATE head SET stored = ?", (up_to,))
            if newest:
                self._delete(db, up_to, newest[0][0] - self._limits.stored_ms)

    def _stored(self) -> int:
        return int(self._rows("SELECT stored FROM head")[0][0])

    def _delete(self, db: sqlite3.Connection, up_to: int, before_ms: int = MOST_MS) -> None:
        """Delete ticks up to a number that are from before a time, or of that time."""
        chosen = "FROM ticks WHERE sequence <= ? AND at_ms <= ?"
        total = f"SELECT coalesce(sum(length(page) + {ROW_BYTES}), 0) {chosen}"
        totals = db.execute(total, (up_to, before_ms)).fetchone()
        db.execute(f"DELETE {chosen}", (up_to, before_ms))
        self._bytes -= int(totals[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _make_room(self, db: sqlite3.Connection, now_ms: int) -> None:
        lost, last, stored = 0, 0, self._stored()
        for sequence, at_ms, size in db.execute(
            f"SELECT sequence, at_ms, length(page) + {ROW_BYTES} FROM ticks ORDER BY sequence"
        ):
            if self._bytes <= self._limits.most_bytes and now_ms - at_ms <= self._limits.most_ms:
                break
            lost, self._bytes, last = lost + (sequence > stored), self._bytes - size, sequence
        if last:
            db.execute("DELETE FROM ticks WHERE sequence <= ?", (last,))
            db.execute("UPDATE spool SET lost = lost + ?", (lost,))

    def _opened(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "PRAGMA synchronous = FULL"
            )  # a tick that was told as kept survives a power cut
            connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise SpoolTrouble(
                f"the spool {self._path} cannot be opened: {error}. If it is damaged, move it away: what was "
                "in it is lost, and the head will say so"
            ) from error
        return connection

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._db, self._path, self._guard, self._counted)

    def _counted(self) -> None:
        rows = self._rows(f"SELECT coalesce(sum(length(page) + {ROW_BYTES}), 0) FROM ticks")
        self._bytes = int(rows[0][0])

    def _rows(self, text: str, *values: "str | int") -> "list[sqlite3.Row]":
        with self._guard:
            return _translated(self._path, lambda: self._db.execute(text, values).fetchall())

    def _change(self, text: str, *values: "str | int") -> None:
        with self._guard:
            _translated(self._path, lambda: self._db.execute(text, values))


class _Transaction:
    """All or nothing, and what is counted is counted anew after nothing."""

    def __init__(
        self, db: sqlite3.Connection, path: Path, guard: "threading.RLock", undone: Callable[[], None]
    ) -> None:
        self._db, self._path, self._guard, self._undone = db, path, guard, undone

    def __enter__(self) -> sqlite3.Connection:
        self._guard.acquire()
        try:
            _translated(self._path, lambda: self._db.execute("BEGIN IMMEDIATE"))
        except BaseException:
            self._guard.release()
            raise
        return self._db

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._end(error)
        finally:
            self._guard.release()

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            _translated(self._path, lambda: self._db.execute("COMMIT"))
            return
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._undone()
        if isinstance(error, sqlite3.Error):
            raise SpoolTrouble(f"the spool {self._path} cannot be written: {error}") from error


def _translated(path: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise SpoolTrouble(f"the spool {path} cannot be used: {error}") from error
