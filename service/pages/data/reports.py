"""Where the Reports page gets reports, schedules and papers: through ``service.client``, kept for a while.

Apart from ``queries``, because a report is no answer to one question: it holds drawings, which are kept as
they are and shared by everybody who reads the same one.

The exact lines of ``fallow.toml`` that have a report come by itself. Pure: choices in, text out.

The dashboard writes nobody's configuration: whoever runs the service puts the lines there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import streamlit as st

from service.client import Client, ServiceDown, connect
from service.reports import on_request as client_reporting
from service.reports import schedules as client_schedules
from service.reports.on_request import Paper, Report
from service.reports.schedules import Receivers, Schedule

KEPT_S = 10
REPORT_KEPT_S = 600
"""Who reads a report turns from its page to a download and back; making it anew takes seconds."""
KEPT_REPORTS = 24


def report(
    kind: str, window: tuple[datetime, datetime], zone: tzinfo, user: str | None, project: str | None
) -> Report:
    """A report of a window, kept for ten minutes for all who ask the same. Blocks. Raises ``ClientError``.

    ``window`` is in UTC without a zone, ``zone`` the one that its times are written in.
    """
    try:
        return _report(kind, window, str(zone), user, project, zone)
    except ServiceDown:
        _client.clear()
        return _report(kind, window, str(zone), user, project, zone)


def report_text(document: Report, format: str) -> str:
    """The report as a file's text. Blocks while charts are drawn. Raises ``CannotReport``."""
    return client_reporting.written_as(_client(), document, format)


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def schedules() -> tuple[Schedule, ...] | None:
    """What is scheduled, and what became of it; ``None`` of another machine. Raises ``ClientError``."""
    return client_schedules.schedules(_client(), datetime.now(UTC))


@st.cache_data(ttl=KEPT_S, show_spinner=False)
def papers() -> tuple[Paper, ...] | None:
    """What schedules wrote; ``None`` of another machine. Raises ``ClientError``."""
    return client_reporting.papers(_client())


def receivers() -> Receivers:
    """Whom a schedule could send to. Raises ``ClientError``."""
    return client_schedules.receivers(_client())


@st.cache_resource(show_spinner=False)
def _client() -> Client:
    return connect()


@st.cache_resource(ttl=REPORT_KEPT_S, max_entries=KEPT_REPORTS, show_spinner=False)
def _report(
    kind: str,
    window: tuple[datetime, datetime],
    zone_name: str,
    user: str | None,
    project: str | None,
    _zone: tzinfo,
) -> Report:
    """``zone_name`` stands for the zone, which is no key."""
    return client_reporting.made(_client(), kind, window, zone=_zone, user=user, project=project)


OFTEN: Mapping[str, str] = {"daily": "Every day", "weekly": "Every week", "monthly": "Every month"}
WEEKDAYS: Mapping[str, str] = {
    "mon": "Monday",
    "tue": "Tuesday",
    "wed": "Wednesday",
    "thu": "Thursday",
    "fri": "Friday",
    "sat": "Saturday",
    "sun": "Sunday",
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Regular:
    """A report that shall come by itself, at a full ``hour`` (0 to 23) in ``zone``.

    ``weekday`` counts for a weekly one. ``to`` are routes, or ``owners``; with none it is only written into
    the folder of reports.
    """

    name: str
    kind: str
    often: str
    hour: int
    zone: str
    since: str
    format: str = "html"
    weekday: str = "mon"
    user: str | None = None
    project: str | None = None
    to: tuple[str, ...] = ()


def toml_of(schedule: Regular) -> str:
    """The table ``[reports.NAME]``."""
    lines = [f"[reports.{_key(schedule.name)}]"]
    values = {
        "kind": schedule.kind,
        "cron": cron_of(schedule),
        "zone": schedule.zone,
        "since": schedule.since,
        "format": schedule.format,
        "project": schedule.project,
        "user": schedule.user,
    }
    lines += [f"{name} = {_text(value)}" for name, value in values.items() if value]
    if schedule.to:
        lines.append(f"to = [{', '.join(_text(each) for each in schedule.to)}]")
    return "\n".join(lines)


def cron_of(schedule: Regular) -> str:
    """Its five fields: minute, hour, day, month, weekday."""
    match schedule.often:
        case "daily":
            return f"0 {schedule.hour} * * *"
        case "monthly":
            return f"0 {schedule.hour} 1 * *"
        case _:
            return f"0 {schedule.hour} * * {schedule.weekday}"


def often_for(length: timedelta) -> str:
    """How often a report of so long a time would come: with no gap between one and the next."""
    if length <= timedelta(days=2):
        return "daily"
    return "weekly" if length <= timedelta(days=20) else "monthly"


def length_text(length: timedelta) -> str:
    """A length of whole minutes as ``since`` takes it: ``7d``, ``1d12h``, ``90m``."""
    minutes = int(length.total_seconds() // 60)
    days, rest = divmod(minutes, 1_440)
    hours, minutes = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"))
    return "".join(f"{many}{unit}" for many, unit in parts if many) or "1m"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """A basic string of TOML 1.0: quotes, backslashes and control characters escaped."""
    escaped = (
        f"\\u{ord(each):04x}"
        if ord(each) < 0x20 or ord(each) == 0x7F
        else {'"': '\\"', "\\": "\\\\"}.get(each, each)
        for each in value
    )
    return f'"{"".join(escaped)}"'
