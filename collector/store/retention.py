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
    """

    samples_days: float = 30.0
    process_samples_days: float = 30.0
    minutes_days: float = 90.0
    hours_days: float = 1825.0
    jobs_days: float = 730.0
    consents_days: float = 365.0
    settled_days: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """What went: rows by table, and sealed files (paths relative to the data folder)."""

    rows: tuple[tuple[str, int], ...] = ()
    files: tuple[str, ...] = ()


def drop_expired(
    connection: duckdb.DuckDBPyConnection, folder: Path, retention: Retention, now_ms: int
) -> Dropped:
    """Remove what is older than the retention, in the caller's transaction; the files go after the commit."""
    if not _is_settled(connection, retention, now_ms):
        return Dropped()
    cuts = {
        "samples": _cut_ms(now_ms, retention.samples_days),
        "process_samples": _cut_ms(now_ms, retention.process_samples_days),
        "minutes": _cut_ms(now_ms, max(retention.minutes_days, 2.0)),
        "hours": _cut_ms(now_ms, retention.hours_days),
        "jobs": _cut_ms(now_ms, retention.jobs_days),
        "consents": _cut_ms(now_ms, retention.consents_days),
    }
    files = connection.execute(statement("expired_sealed"), {"before_ms": cuts["samples"]}).fetchall()
    if files:
        connection.execute(statement("drop_sealed"), {"before_ms": cuts["samples"]})
        renew_view(connection, folder)
    connection.execute(statement("keep_latest"), {"from_ms": None, "to_ms": cuts["samples"]})
    rows = []
    for question, level in _LEVELS:
        counted = connection.execute(statement(question), {"before_ms": cuts[level]}).fetchone()
        rows.append((question.removeprefix("expire_"), int(counted[0]) if counted else 0))
    marks = ((KEPT_SAMPLES, "samples"), (KEPT_MINUTES, "minutes"), (KEPT_PROCESSES, "process_samples"))
    for name, level in marks:
        connection.execute(statement("raise_watermark"), {"name": name, "complete_to_ms": cuts[level]})
    return Dropped(
        rows=tuple((table, count) for table, count in rows if count), files=tuple(row[0] for row in files)
    )


_LEVELS = (
    ("expire_samples", "samples"),
    ("expire_ticks", "samples"),
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
    ("expire_manager_looks", "samples"),
    ("expire_manager_waits", "hours"),
    ("expire_accounted_runs", "hours"),
    ("expire_findings", "hours"),
    ("expire_intents", "hours"),
    ("expire_directives", "hours"),
    ("expire_plans", "samples"),
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


def _is_settled(connection: duckdb.DuckDBPyConnection, retention: Retention, now_ms: int) -> bool:
    if not retention.settled_days:
        return True
    span = {
        "from_ms": now_ms - (RECENT_DAYS + retention.settled_days) * DAY_MS,
        "to_ms": now_ms - retention.settled_days * DAY_MS,
    }
    counted = connection.execute(statement("count_hours"), span).fetchone()
    return counted is not None and counted[0] > 0


def _cut_ms(now_ms: int, days: float) -> int:
    return int(now_ms - days * DAY_MS) // DAY_MS * DAY_MS
