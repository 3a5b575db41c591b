"""Submitted jobs and consents are let go of in their time, and what holds or counts stays.

Statements: expire_jobs, expire_undelivered, expire_leases, expire_checkpoints, expire_consents.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from collector.store.database import Store
from collector.store.retention import Retention
from tests.collector.store.store_parts import T0, ask, at_path
from tests.stores import open_store

DAY_MS = 86_400_000
NOW_MS = T0 + 1000 * DAY_MS
RETENTION = Retention(jobs_days=100, consents_days=100)
OLD, NEW = 500, 50
"""Days before now: past the retention, and within it."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def ago(days: float) -> int:
    return int(NOW_MS - days * DAY_MS)


def submit(connection: duckdb.DuckDBPyConnection, number: int, ended: float | None) -> None:
    connection.execute(
        "INSERT INTO entries VALUES ($job, $number, 'n', 'ana', 'p', $stand, epoch_ms($at), "
        "epoch_ms($ended), '{}')",
        {
            "job": f"fallow:{number}",
            "number": number,
            "stand": "running" if ended is None else "ended",
            "at": ago(600),
            "ended": None if ended is None else ago(ended),
        },
    )


def say(
    connection: duckdb.DuckDBPyConnection,
    kind: str,
    *,
    job: str | None = None,
    allowed: bool | None = True,
    days: float = OLD,
    until: float | None = None,
) -> None:
    values = {"at": ago(days), "job": job, "kind": kind, "allowed": allowed}
    values["until"] = None if until is None else ago(until)
    connection.execute(
        "INSERT INTO consents VALUES (epoch_ms($at), 'ana', $job, $kind, $allowed, epoch_ms($until))", values
    )


def test_jobs_that_ended_long_ago_go_and_the_newest_number_stays(store: Store) -> None:
    with store.writing("submitting") as connection:
        for number, ended in ((1, OLD), (2, None), (3, NEW), (4, OLD), (5, OLD)):
            submit(connection, number, ended)
        for number in (1, 2, 3):
            connection.execute(
                "INSERT INTO directives VALUES (?, ?, epoch_ms(?), '{}', NULL, NULL)",
                [number, f"fallow:{number}", ago(OLD)],
            )
            connection.execute(
                "INSERT INTO leases (lease_id, gpu_uuid, job, share, granted_at, released_at) "
                "VALUES (?, 'g', ?, 1, epoch_ms(?), epoch_ms(?))",
                [str(number), f"fallow:{number}", ago(600), (ago(OLD), None, ago(NEW))[number - 1]],
            )
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, 1, epoch_ms(?), '{}', epoch_ms(?), NULL)",
                [f"fallow:{number}", ago(600), (ago(OLD), None, ago(NEW))[number - 1]],
            )
    dropped = dict(store.apply_retention(RETENTION, NOW_MS).rows)
    assert dropped == {"jobs": 2, "undelivered": 1, "leases": 1, "checkpoints": 1}
    assert ask(store, "SELECT number FROM entries ORDER BY 1") == [(2,), (3,), (5,)]
    assert ask(store, "SELECT number FROM directives ORDER BY 1") == [(2,), (3,)]
    assert ask(store, "SELECT lease_id FROM leases ORDER BY 1") == [("2",), ("3",)]


def test_words_that_hold_stay_however_old(store: Store) -> None:
    with store.writing("consenting") as connection:
        submit(connection, 1, None)
        submit(connection, 2, NEW)
        say(connection, "pause")
        say(connection, "pause", job="fallow:1", allowed=False)
        say(connection, "pause", job="fallow:2")
        say(connection, "resize", until=-10)
        say(connection, "restart")
        say(connection, "restart", allowed=False, days=NEW, until=-10)  # the older one holds again then
        say(connection, "share", allowed=False, days=NEW)
        say(connection, "release", until=200, days=NEW)
    before = ask(store, "FROM consents ORDER BY ALL")
    assert dict(store.apply_retention(RETENTION, NOW_MS).rows) == {}
    assert ask(store, "FROM consents ORDER BY ALL") == before


def test_words_that_hold_no_more_go_in_their_time(store: Store) -> None:
    with store.writing("consenting") as connection:
        submit(connection, 1, OLD)
        submit(connection, 2, None)
        say(connection, "pause", until=200)  # its time is over
        say(connection, "resize")  # something else was said since
        say(connection, "resize", allowed=False)
        say(connection, "share")  # taken back
        say(connection, "share", allowed=None)
        say(connection, "pause", job="fallow:1")  # its job has ended
    for _ in range(2):  # a word that takes back goes once what it took back is gone
        store.apply_retention(RETENTION, NOW_MS)
    assert ask(store, "SELECT kind, allowed FROM consents") == [("resize", False)]
