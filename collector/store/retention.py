"""How long each level is kept, and what is let go of when its time is over.

The coarser the level, the longer: samples go first, minutes next, hours last, and with them the days that are
made of them. Whole days only, so that what is left of a day never looks like all of it.
"""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from collector.store.sealing import DAY_MS, renew_view
from collector.store.statements import statement

KEPT_SAMPLES = "samples_kept"
KEPT_MINUTES = "minutes_kept"
KEPT_PROCESSES = "processes_kept"
RECENT_DAYS = 14
"""After a longer stop the clock has to show itself right again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days to keep; samples count whether sealed or not.

    ``samples_days`` also holds for the record of ticks, ``process_samples_days`` for what single
    holders did, ended intrusions and unclear claims, ``hours_days`` for the days made of them, gaps, events,
    ended allocations, closed findings and the journal; plans that nobody settled go with the samples.
    ``jobs_days`` holds for submitted jobs that ended, their pauses and leases, ``consents_days`` for words
    that hold no more.
    Nothing goes before something was measured ``settled_days`` ago: a clock that is years ahead would empty
    the store, and is noticed by then.
    ``with_copy_only``: samples go once the archive has their day, and not before.
    """

    samples_days: float = 30.0
    process_samples_days: float = 30.0
    minutes_days: float = 90.0
    hours_days: float = 1825.0
    jobs_days: float = 730.0
    consents_days: float = 365.0
    settled_days: float = 0.0
    with_copy_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """What went: rows by table, and sealed files (paths relative to the data folder)."""

    rows: tuple[tuple[str, int], ...] = ()
    files: tuple[str, ...] = ()


def drop_expired(
    connection: duckdb.DuckDBPyConnection, folder: Path, retention: Retention, now_ms: int
) -> Dropped:
    """Remove what is older than the retention, in the caller's transaction; the files go after the commit."""
    if not is_settled(connection, retention, now_ms):
        return Dropped()
    cuts = {
        "samples": cut_ms(now_ms, retention.samples_days),
        "process_samples": cut_ms(now_ms, retention.process_samples_days),
        "minutes": cut_ms(now_ms, max(retention.minutes_days, 2.0)),
        "hours": cut_ms(now_ms, retention.hours_days),
        "jobs": cut_ms(now_ms, retention.jobs_days),
        "consents": cut_ms(now_ms, retention.consents_days),
    }
    cuts["ticks"] = cuts["samples"]
    if retention.with_copy_only:
        files, cuts["samples"] = _leave_to_archive(connection, folder, cuts["samples"])
    else:
        files = _drop_sealed(connection, folder, cuts["samples"])
        connection.execute(statement("keep_latest"), {"from_ms": None, "to_ms": cuts["samples"]})
    rows = []
    for question, level in _LEVELS:
        if retention.with_copy_only and level == "samples":
            continue  # what is hot is sealed first
        counted = connection.execute(statement(question), {"before_ms": cuts[level]}).fetchone()
        rows.append((question.removeprefix("expire_"), int(counted[0]) if counted else 0))
    marks = ((KEPT_SAMPLES, "samples"), (KEPT_MINUTES, "minutes"), (KEPT_PROCESSES, "process_samples"))
    for name, level in marks:
        if not cuts[level]:
            continue  # nothing went to the archive this time
        connection.execute(statement("raise_watermark"), {"name": name, "complete_to_ms": cuts[level]})
    return Dropped(rows=tuple((table, count) for table, count in rows if count), files=files)


_LEVELS = (
    ("expire_samples", "samples"),
    ("expire_ticks", "ticks"),
    ("expire_process_samples", "process_samples"),
    ("expire_holder_samples", "process_samples"),
    ("expire_minutes", "minutes"),
    ("expire_hours", "hours"),
    ("expire_worked_minutes", "hours"),
    ("expire_days", "hours"),
    ("expire_gaps", "hours"),
    ("expire_events", "hours"),
    ("expire_allocations", "hours"),
    ("expire_withheld", "hours"),
    ("expire_manager_jobs", "jobs"),
    ("expire_manager_looks", "ticks"),
    ("expire_manager_waits", "hours"),
    ("expire_accounted_runs", "hours"),
    ("expire_findings", "hours"),
    ("expire_intents", "hours"),
    ("expire_directives", "hours"),
    ("expire_plans", "ticks"),
    ("expire_tellings", "hours"),
    ("expire_unproven_claims", "process_samples"),
    ("expire_alerts", "hours"),
    ("expire_letters", "hours"),
    ("expire_keeps", "hours"),
    ("expire_intrusions", "process_samples"),
    ("expire_unclear_claims", "process_samples"),
    ("expire_jobs", "jobs"),
    ("expire_undelivered", "jobs"),
    ("expire_leases", "jobs"),
    ("expire_harvests", "jobs"),
    ("expire_checkpoints", "jobs"),
    ("expire_consents", "consents"),  # after the jobs, whose end it asks for
)


def _drop_sealed(connection: duckdb.DuckDBPyConnection, folder: Path, before_ms: int) -> tuple[str, ...]:
    files = connection.execute(statement("expired_sealed"), {"before_ms": before_ms}).fetchall()
    if files:
        connection.execute(statement("drop_sealed"), {"before_ms": before_ms})
        renew_view(connection, folder)
    return tuple(path for (path,) in files)


def _leave_to_archive(
    connection: duckdb.DuckDBPyConnection, folder: Path, before_ms: int
) -> tuple[tuple[str, ...], int]:
    """Forget the files that have a copy; which, and the end (UTC ms) of the last day of them, or 0."""
    found = connection.execute(statement("expired_with_copy"), {"before_ms": before_ms}).fetchall()
    for path, _ in found:
        connection.execute(statement("leave_to_archive"), {"path": path})
        connection.execute(statement("drop_sealed_file"), {"path": path})
    if found:
        renew_view(connection, folder)
    return tuple(path for path, _ in found), max((end_ms for _, end_ms in found), default=0)


def is_settled(connection: duckdb.DuckDBPyConnection, retention: Retention, now_ms: int) -> bool:
    """Whether something was measured so long ago that the clock is believed."""
    if not retention.settled_days:
        return True
    span = {
        "from_ms": now_ms - (RECENT_DAYS + retention.settled_days) * DAY_MS,
        "to_ms": now_ms - retention.settled_days * DAY_MS,
    }
    counted = connection.execute(statement("count_hours"), span).fetchone()
    return counted is not None and counted[0] > 0


def cut_ms(now_ms: int, days: float) -> int:
    """The start of the first whole UTC day that is kept for so many days, in UTC ms."""
    return int(now_ms - days * DAY_MS) // DAY_MS * DAY_MS
