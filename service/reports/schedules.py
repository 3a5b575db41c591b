"""The schedules of reports as a screen shows them: what comes when, and what became of the last one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from service.reports.on_request import effective

if TYPE_CHECKING:
    from service.client.queries import Client
    from service.config.telling import ReportConfig
    from service.notify.outbox import DeliveryStatus

WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of the messages of one report. ``due`` is the report's time.

    ``counts`` are messages by state: ``sent``, ``failed`` (tried again at ``next_at``), ``given-up``,
    ``begun`` and ``waiting``. ``trouble`` is what the first server that refused has said, ``at`` when
    something last happened.
    """

    due: datetime
    counts: dict[str, int] = field(default_factory=dict)
    at: datetime | None = None
    next_at: datetime | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A report that comes by itself. ``to`` are receivers as people may see them, no secret among them.

    ``settled_at`` is the newest time for which it was made, or when it was first seen; ``None`` where the
    service has not looked at it yet. ``trouble``: why it never comes.
    """

    name: str
    kind: str
    format: str
    since: str
    cron: str
    zone: str
    about: str | None
    to: tuple[str, ...]
    folder: str
    next_at: datetime | None
    settled_at: datetime | None
    last: Delivery | None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Whom a new schedule could send to: the routes there are, and whether people can be reached."""

    routes: tuple[str, ...]
    owners: bool


def schedules(client: "Client", now: datetime) -> tuple[Schedule, ...] | None:
    """What is scheduled, by name; ``None`` where the store is another machine's.

    Reads the configuration and the outbox. Raises ``BadParameter`` where the configuration cannot be used.
    """
    from service.reports.due import read_times

    if client.data is None:
        return None
    reports, settled = effective(client).config.reports, read_times(client.data)
    return tuple(
        _schedule(name, report, client.data, settled.get(name), now)
        for name, report in sorted(reports.items())
    )


def receivers(client: "Client") -> Receivers:
    """Whom the configuration knows to send to. Raises ``BadParameter``."""
    delivery = effective(client).config.delivery
    return Receivers(routes=tuple(sorted(delivery.routes)), owners=bool(delivery.person or delivery.people))


def _schedule(
    name: str, report: "ReportConfig", data: Path, settled: datetime | None, now: datetime
) -> Schedule:
    from service.notify.message import harmless
    from service.reports.due import next_due

    try:
        next_at, trouble = next_due(report, now), ""
    except ValueError as error:
        next_at, trouble = None, f"{report.cron!r} is no schedule: {error}"
    return Schedule(
        name=name,
        kind=report.kind,
        format=report.format,
        since=report.since,
        cron=report.cron,
        zone=report.zone,
        about=report.project or report.user or None,
        to=tuple(harmless(to.partition("?")[0]) if "://" in to else to for to in report.to),
        folder=report.folder,
        next_at=next_at,
        settled_at=settled,
        last=_last(name, data),
        trouble=trouble,
    )


def _last(name: str, data: Path) -> Delivery | None:
    """What became of the newest report of a schedule that was sent to anybody."""
    from service.notify.outbox import glimpses

    prefix = f"report:{name}:"
    deliveries: dict[datetime, list[DeliveryStatus]] = {}
    for each in glimpses(data / "outbox", prefix):
        due = _due_of(each.key.removeprefix(prefix))
        if due is not None:
            deliveries.setdefault(due, []).append(each)
    if not deliveries:
        return None
    newest = max(deliveries)
    return _delivery(newest, deliveries[newest])


def _due_of(rest: str) -> datetime | None:
    """The time in what follows a schedule's name: ``2026-11-23T07:00:00+00:00:SUBJECT``."""
    for length in (len("2026-11-23T07:00:00+00:00"), len("2026-11-23T07:00:00.000000+00:00")):
        try:
            at = datetime.fromisoformat(rest[:length])
        except ValueError:
            continue
        if rest[length : length + 1] == ":" and at.tzinfo is not None:
            return at
    return None


def _delivery(due: datetime, messages: "Sequence[DeliveryStatus]") -> Delivery:
    states = [each.standing.state.value if each.standing.state else WAITING for each in messages]
    refused = [each for each in messages if each.standing.found]
    open_ms = [each.standing.next_ms for each in messages if each.standing.next_ms is not None]
    times_ms = [each.at_ms for each in messages if each.at_ms is not None]
    return Delivery(
        due=due,
        counts=dict(Counter(states)),
        at=_instant(max(times_ms, default=None)),
        next_at=_instant(min(open_ms, default=None)),
        trouble=refused[0].standing.found if refused else "",
    )


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
