"""Gathers what one look of the alerts rests on, from the acting half and by named queries. Blocks; reads."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from advisor.live.stored_analysis import moment_ms
from advisor.planner.limits import Limits
from advisor.planner.observed import Observed
from advisor.state.model import ClusterState
from advisor.statements import rows_of
from analytics.query import Connection, run
from collector.gpu_place import node_place
from collector.model import GpuUuid, JobId
from collector.store.gaps import NOT_RUNNING
from service.alerts.ended_jobs import BACK_MS, SETTLES_MS, least_gpu_hours
from service.alerts.facts import Away, Blindness, Day, Ended, Facts
from service.alerts.store import statement

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.alerting import AlertsConfig
    from service.config.model import Config

HOUR_MS = 3_600_000
GAPS_BACK = timedelta(days=7)
"""How far back the beginning of a blindness is looked for."""
AWAY_BACK = timedelta(hours=1)
"""For so long after it a time without a service is news."""
SOURCE_TICKS = 3
"""A source that was not even tried for so many ticks is none of this service's any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eyes:
    """What the acting half sees; each may be called from any thread. ``simulated``: owners are invented."""

    limits: Limits
    observe: Callable[[], ClusterState]
    observed: Callable[[], Observed]
    last_tick: Callable[[], int | None]
    halt: Callable[[], str | None]
    waits: Callable[[], Mapping[JobId, str]]
    simulated: bool


def facts_of(store: "Store", config: "Config", clock: "Clock", eyes: Eyes) -> Facts:
    """The facts as they are now. Raises ``ClientError`` and ``StoreError``."""
    state, now_ms = eyes.observe(), clock.now_ms()
    tick_ms = round(config.collect.tick_s * 1000)
    with closing(store.reader()) as connection:
        gpus = _rows(connection, "decide_gpus", as_of=now_ms)
        blind = _blind(connection, now_ms, tick_ms)
        away = away_of(_gaps(connection, now_ms, AWAY_BACK))
        target = config.alerts.utilization_target_ratio
        day = _day(connection, now_ms) if target > 0 else None
        ended = tuple(ends_of(connection, config.alerts, now_ms))
    times: dict[str, list[int | None]] = {}
    for row in gpus:
        if not row["is_parent"]:
            times.setdefault(row["node"], []).append(row["newest_ms"])
    return Facts(
        now_ms=now_ms,
        tick_ms=tick_ms,
        state=state,
        observed=eyes.observed(),
        limits=eyes.limits,
        advice=config.advice,
        last_tick_ms=eyes.last_tick(),
        halt=eyes.halt(),
        waits=eyes.waits(),
        places=places_of(gpus),
        newest_ms={node: tuple(newest) for node, newest in times.items()},
        blind=blind,
        away=away,
        day=day,
        ended=ended,
    )


class _Gpu(TypedDict):
    """What is read of a row of ``decide_gpus``."""

    uuid: str
    node: str
    gpu_place: str | None
    is_parent: bool
    newest_ms: int | None


class _Source(TypedDict):
    """What is read of a row of ``sources``."""

    source: str
    reason: str
    last_ts: datetime | None


class _Gap(TypedDict):
    """What is read of a row of ``gaps``; of all GPUs of a source without ``uuid``."""

    source: str
    uuid: str | None
    reason: str
    from_ts: datetime
    to_ts: datetime


class _DayOfUse(TypedDict):
    """What is read of a row of ``ledger_by_day``."""

    gpu_hours: float
    unknown_gpu_hours: float
    used_gpu_hours: float
    bound_used_gpu_hours: NotRequired[float]
    suspect_gpu_hours: float
    utilization_ratio: float | None


def places_of(gpus: Iterable[_Gpu]) -> dict[GpuUuid, str]:
    """``node1:3`` for each GPU that has an index, ``node1:0/1g.10gb#7`` for a MIG instance."""
    rows = (row for row in gpus if row["gpu_place"] is not None)
    return {GpuUuid(row["uuid"]): node_place(row["node"], row["gpu_place"], row["uuid"]) for row in rows}


def day_of(rows: Iterable[_DayOfUse], from_ms: int, to_ms: int) -> Day:
    """The cluster's use from the rows of ``ledger_by_day``: used over measured time, as on the overview."""
    used = measured = unknown = total = 0.0
    days = tuple(rows)
    for row in days:
        total += row["gpu_hours"]
        unknown += row["unknown_gpu_hours"]
        ratio = row["utilization_ratio"]
        if ratio is None:
            continue
        used += row["used_gpu_hours"]
        measured_hours = row["gpu_hours"] - row["unknown_gpu_hours"] - row["suspect_gpu_hours"]
        measured += row["used_gpu_hours"] / ratio if ratio > 0 else measured_hours
    return Day(
        from_ms=from_ms,
        to_ms=to_ms,
        utilization_ratio=used / measured if measured > 0 else None,
        measured_ratio=1 - unknown / total if total > 0 else 0.0,
        bound_used_gpu_hours=sum(row.get("bound_used_gpu_hours") or 0.0 for row in days),
    )


def blindness_of(
    sources: Iterable[_Source], gaps: Iterable[_Gap], now_ms: int, tick_ms: int
) -> tuple[Blindness, ...]:
    """The sources that cannot be read, each since the beginning of its newest unbroken gap."""
    rows = [row for row in sources if row["last_ts"] is not None]
    newest_ms = max((moment_ms(row["last_ts"]) for row in rows), default=now_ms)
    blind = {row["source"]: row for row in rows if row["reason"]}
    since: dict[str, int] = {}
    for gap in gaps:  # the newest first
        source = gap["source"]
        if gap["uuid"] is not None or source not in blind:
            continue
        edge_ms = since.get(source, moment_ms(blind[source]["last_ts"]))
        if moment_ms(gap["to_ts"]) >= edge_ms - 2 * tick_ms:
            since[source] = min(edge_ms, moment_ms(gap["from_ts"]))
    return tuple(
        Blindness(source=name, since_ms=since.get(name, moment_ms(row["last_ts"])), reason=row["reason"])
        for name, row in sorted(blind.items())
        if newest_ms - moment_ms(row["last_ts"]) <= SOURCE_TICKS * tick_ms
    )


def away_of(gaps: Iterable[_Gap]) -> Away | None:
    """The newest time in which the service did not run, for all its sources at once."""
    ended = [
        (moment_ms(gap["to_ts"]), moment_ms(gap["from_ts"])) for gap in gaps if gap["reason"] == NOT_RUNNING
    ]
    if not ended:
        return None
    to_ms = max(ended)[0]
    return Away(from_ms=min(since for until, since in ended if until == to_ms), to_ms=to_ms)


def _blind(connection: Connection, now_ms: int, tick_ms: int) -> tuple[Blindness, ...]:
    sources: list[_Source] = _rows(connection, "sources")
    if not any(row["reason"] for row in sources):
        return ()
    return blindness_of(sources, _gaps(connection, now_ms, GAPS_BACK), now_ms, tick_ms)


def ends_of(connection: Connection, config: "AlertsConfig", now_ms: int) -> Iterator[Ended]:
    """The ends that somebody wants to hear of, each with the job's hours from its first GPU to its last."""
    least = least_gpu_hours(config)
    if least is None:
        return
    span = {"from_ms": now_ms - BACK_MS, "to_ms": now_ms - SETTLES_MS, "least_gpu_hours": least}
    for each in rows_of(connection.execute(statement("ended_jobs"), span)):
        since, until = _minute(each["from_ms"]), _minute(each["to_ms"]) + timedelta(minutes=1)
        for row in _rows(connection, "jobs", job=each["job"], from_ts=since, to_ts=until):
            yield Ended(
                job=JobId(each["job"]),
                from_ms=each["from_ms"],
                to_ms=each["to_ms"],
                gpus=tuple(map(GpuUuid, each["gpus"].split(","))),
                row={**row, "to_ts": row["to_ts"] or _minute(each["to_ms"])},  # its GPUs fell silent with it
            )


def _gaps(connection: Connection, now_ms: int, back: timedelta) -> list[_Gap]:
    end = _minute(now_ms) + timedelta(minutes=2)
    return _rows(connection, "gaps", from_ts=end - back, to_ts=end)


def _day(connection: Connection, now_ms: int) -> Day:
    """The 24 whole hours before this one: the roll-up of hours has them, or nearly."""
    to_ms = now_ms // HOUR_MS * HOUR_MS
    from_ms = to_ms - 24 * HOUR_MS
    return day_of(_rows(connection, "ledger_by_day", from_ts=from_ms, to_ts=to_ms), from_ms, to_ms)


def _rows(connection: Connection, name: str, **parameters: object) -> list[Any]:
    """The rows of a named query; who asks for one says which they are."""
    return list(run(connection, name, parameters).to_pylist())


def _minute(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC).replace(second=0, microsecond=0)
