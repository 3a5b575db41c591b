"""Keeps minutes, hours and days rolled up as samples arrive, and does them again when samples come late.

A minute is closed GRACE_MS after its end, because sources that average over 30 or 60 s report late. Each
level is made of the one below it; days are made anew from all their hours, never added to. Everything here
runs inside the caller's transaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb

from collector.store.statements import parsed, statement

BIN_MS = 30_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
GRACE_MS = 60_000
WIDEST_MS = HOUR_MS
"""Bins are filled this far back from a sample's end, however wide it says it is."""
HOURS_AT_ONCE = 500_000
"""Of so many hours of one GPU each, days are made when a minute closes: a store that was written before there
were days, or a long past told at once, has many due, and the next tick waits meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far around a stretch samples matter to it.

    ``ahead_ms``: the widest sample there is may end so long after the stretch. ``back_ms``: the sample before
    the stretch, whose counter the first one is compared with, ended at most so long before it.
    """

    ahead_ms: int
    back_ms: int


def reach_of(widest_ms: int, recent_ms: int) -> Reach:
    """From the widest sample of all and the widest of those that came now."""
    return Reach(ahead_ms=min(widest_ms, WIDEST_MS), back_ms=min(3 * recent_ms, WIDEST_MS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How far each level is complete, UTC ms; ``None`` before anything was rolled up."""

    minutes_to_ms: int | None = None
    hours_to_ms: int | None = None
    days_to_ms: int | None = None
    """Never further than the hours; ``None`` also in a store that had hours before there were days."""
    samples_from_ms: int | None = None
    """Samples before this were let go of once, so what is rolled up of them must stay."""
    minutes_from_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some GPUs (``None``: all) and a half-open time."""

    from_ms: int
    to_ms: int
    gpu_ids: tuple[int, ...] | None = None


def read_marks(connection: duckdb.DuckDBPyConnection) -> Marks:
    """What the table ``watermarks`` says."""
    rows = dict(connection.execute("SELECT name, epoch_ms(complete_to) FROM watermarks").fetchall())
    return Marks(
        minutes_to_ms=rows.get("rollup_1m"),
        hours_to_ms=rows.get("rollup_1h"),
        days_to_ms=rows.get("rollup_1d"),
        samples_from_ms=rows.get("samples_kept"),
        minutes_from_ms=rows.get("minutes_kept"),
    )


def start_marks(connection: duckdb.DuckDBPyConnection, first_ms: int) -> Marks:
    """The marks of a store whose first sample begins at ``first_ms``."""
    marks = Marks(
        minutes_to_ms=floor_to(first_ms, MINUTE_MS),
        hours_to_ms=floor_to(first_ms, HOUR_MS),
        days_to_ms=floor_to(first_ms, DAY_MS),
    )
    _write_marks(connection, marks, before=Marks())
    return marks


def close_finished(connection: duckdb.DuckDBPyConnection, marks: Marks, *, at_ms: int, reach: Reach) -> Marks:
    """Roll up the minutes that ended GRACE_MS before ``at_ms``, and the hours and days that completes."""
    due_ms = _due_ms(at_ms)
    if marks.minutes_to_ms is None or marks.hours_to_ms is None or due_ms <= marks.minutes_to_ms:
        return marks
    # First: the state of these minutes, and their energy, go by the idle power that is learnt here.
    learn_idle(connection, marks.minutes_to_ms, due_ms)
    add_minutes(connection, Stretch(from_ms=marks.minutes_to_ms, to_ms=due_ms), reach)
    due_hour_ms = floor_to(due_ms, HOUR_MS)
    if due_hour_ms > marks.hours_to_ms:
        _add_hours(connection, Stretch(from_ms=marks.hours_to_ms, to_ms=due_hour_ms))
        connection.execute(statement("touch_holders"), {"at_ms": at_ms})
    hours_to_ms = max(due_hour_ms, marks.hours_to_ms)
    days_to_ms = _close_days(connection, marks.days_to_ms, hours_to_ms)
    moved = replace(marks, minutes_to_ms=due_ms, hours_to_ms=hours_to_ms, days_to_ms=days_to_ms)
    _write_marks(connection, moved, before=marks)
    return moved


def any_finished(marks: Marks, at_ms: int) -> bool:
    """Whether ``close_finished`` would find something to do at ``at_ms``."""
    return marks.minutes_to_ms is not None and _due_ms(at_ms) > marks.minutes_to_ms


def redo(connection: duckdb.DuckDBPyConnection, stretch: Stretch, marks: Marks, reach: Reach) -> None:
    """Roll up again what lies before the marks, for these GPUs.

    Where samples were let go of, what is rolled up stays but for the hours of which samples came later; where
    minutes were let go of, whole hours are done again.
    """
    step_ms = HOUR_MS if stretch.from_ms < (marks.minutes_from_ms or 0) else MINUTE_MS
    from_ms = floor_to(stretch.from_ms, step_ms)
    to_ms = min(-floor_to(-stretch.to_ms, step_ms), marks.minutes_to_ms or 0)
    kept_ms = min(max(from_ms, marks.samples_from_ms or from_ms), max(to_ms, from_ms))
    if from_ms < kept_ms:
        old = Stretch(from_ms=from_ms, to_ms=kept_ms, gpu_ids=stretch.gpu_ids)
        for hours in _sampled_hours(connection, old):
            _redo_minutes(connection, hours, marks, reach)
    if kept_ms < to_ms:
        learn_idle(connection, kept_ms, to_ms)
        for day in _days(Stretch(from_ms=kept_ms, to_ms=to_ms, gpu_ids=stretch.gpu_ids)):
            _redo_minutes(connection, day, marks, reach)
    redo_days(connection, Stretch(from_ms=from_ms, to_ms=to_ms, gpu_ids=stretch.gpu_ids), marks)


def _days(stretch: Stretch) -> Iterator[Stretch]:
    """The stretch in pieces of one UTC day: the bins of a silence of months, at once, take gigabytes."""
    at_ms = stretch.from_ms
    while at_ms < stretch.to_ms:
        end_ms = min(floor_to(at_ms, DAY_MS) + DAY_MS, stretch.to_ms)
        yield Stretch(from_ms=at_ms, to_ms=end_ms, gpu_ids=stretch.gpu_ids)
        at_ms = end_ms


def _redo_minutes(
    connection: duckdb.DuckDBPyConnection, minutes: Stretch, marks: Marks, reach: Reach
) -> None:
    _run(connection, "clear_minutes", minutes)
    add_minutes(connection, minutes, reach)
    redo_hours(connection, minutes, marks)


def _sampled_hours(connection: duckdb.DuckDBPyConnection, old: Stretch) -> Iterator[Stretch]:
    """The whole hours of a stretch of which there are samples: GPUs that have the same ones together."""
    span = {"from_ms": floor_to(old.from_ms, HOUR_MS), "to_ms": old.to_ms}
    found = connection.execute(statement("sampled_hours"), {**span, "gpu_ids": list(old.gpu_ids or ())})
    for from_ms, to_ms, gpu_ids in found.fetchall():
        yield Stretch(from_ms=from_ms, to_ms=min(to_ms, old.to_ms), gpu_ids=tuple(gpu_ids))


def redo_hours(connection: duckdb.DuckDBPyConnection, minutes: Stretch, marks: Marks) -> None:
    """Roll up again the complete hours that ``minutes`` touches."""
    hours = Stretch(
        from_ms=floor_to(minutes.from_ms, HOUR_MS),
        to_ms=min(-floor_to(-minutes.to_ms, HOUR_MS), marks.hours_to_ms or 0),
        gpu_ids=minutes.gpu_ids,
    )
    if hours.from_ms < hours.to_ms:
        _run(connection, "clear_hours", hours)
        _run(connection, "clear_worked_minutes", hours)
        _add_hours(connection, hours)


def redo_days(connection: duckdb.DuckDBPyConnection, hours: Stretch, marks: Marks) -> None:
    """Make the complete days that ``hours`` touches anew."""
    days = Stretch(
        from_ms=floor_to(hours.from_ms, DAY_MS),
        to_ms=min(-floor_to(-hours.to_ms, DAY_MS), marks.days_to_ms or 0),
        gpu_ids=hours.gpu_ids,
    )
    if days.from_ms < days.to_ms:
        _run(connection, "clear_days", days)
        _run(connection, "rollup_days", days)


def add_minutes(connection: duckdb.DuckDBPyConnection, minutes: Stretch, reach: Reach) -> None:
    """Add the minutes that are not there yet."""
    connection.execute(
        parsed(connection, "rollup_minutes"),
        {
            "from_ms": minutes.from_ms,
            "to_ms": minutes.to_ms,
            "read_from_ms": minutes.from_ms - reach.back_ms,
            "read_to_ms": minutes.to_ms + reach.ahead_ms,
            "gpu_ids": None if minutes.gpu_ids is None else list(minutes.gpu_ids),
        },
    )


def learn_idle(connection: duckdb.DuckDBPyConnection, from_ms: int, to_ms: int) -> None:
    """Lower the idle power of GPUs that nothing ran on, and the memory of those that nobody held."""
    connection.execute(statement("learn_free_memory"), {"from_ms": from_ms, "to_ms": to_ms})
    connection.execute(statement("learn_idle_power"), {"from_ms": from_ms, "to_ms": to_ms})


def floor_to(ms: int, step_ms: int) -> int:
    """The last multiple of ``step_ms`` at or before ``ms``."""
    return ms // step_ms * step_ms


def _add_hours(connection: duckdb.DuckDBPyConnection, hours: Stretch) -> None:
    """Add the hours that are not there yet; first which of their minutes had work, while they are missing."""
    _run(connection, "mark_worked_minutes", hours)
    _run(connection, "rollup_hours", hours)


def _close_days(connection: duckdb.DuckDBPyConnection, days_to_ms: int | None, hours_to_ms: int) -> int:
    """Make the days that are complete and not there yet, the oldest first; up to where there are days now."""
    due_ms = floor_to(hours_to_ms, DAY_MS)
    if days_to_ms is not None and days_to_ms >= due_ms:
        return days_to_ms
    found = connection.execute(statement("first_hour")).fetchone()
    first_ms, gpus = found or (None, 0)
    start_ms: int = due_ms if first_ms is None else floor_to(first_ms, DAY_MS)
    start_ms = start_ms if days_to_ms is None else days_to_ms
    most: int = max(1, HOURS_AT_ONCE // (24 * max(1, gpus)))
    end_ms = min(due_ms, start_ms + most * DAY_MS)
    redo_days(connection, Stretch(from_ms=start_ms, to_ms=end_ms), Marks(days_to_ms=end_ms))
    return end_ms


def _due_ms(at_ms: int) -> int:
    return floor_to(at_ms - GRACE_MS, MINUTE_MS)


def _run(connection: duckdb.DuckDBPyConnection, name: str, stretch: Stretch) -> None:
    connection.execute(
        statement(name),
        {
            "from_ms": stretch.from_ms,
            "to_ms": stretch.to_ms,
            "gpu_ids": None if stretch.gpu_ids is None else list(stretch.gpu_ids),
        },
    )


def _write_marks(connection: duckdb.DuckDBPyConnection, marks: Marks, *, before: Marks) -> None:
    """Only those that moved: each costs a look into an index, and most minutes end no hour."""
    levels = {
        "rollup_1m": (marks.minutes_to_ms, before.minutes_to_ms),
        "rollup_1h": (marks.hours_to_ms, before.hours_to_ms),
        "rollup_1d": (marks.days_to_ms, before.days_to_ms),
    }
    for name, (mark, was) in levels.items():
        if mark != was:
            connection.execute(statement("set_watermark"), {"name": name, "complete_to_ms": mark})
