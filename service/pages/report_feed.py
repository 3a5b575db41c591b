"""Where the Reports page gets reports, schedules and papers: through ``service.client``, kept for a while.

Apart from ``feed``, because a report is no answer to one question: it holds drawings, which are kept as they
are and shared by everybody who reads the same one.
"""

from datetime import UTC, datetime, tzinfo

import streamlit as st

from service.client import Client, ServiceDown, connect
from service.client import reporting as client_reporting
from service.client import schedules as client_schedules
from service.client.reporting import Paper, Report
from service.client.schedules import Receivers, Schedule

KEPT_S = 10
REPORT_KEPT_S = 600
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


def report_text(made: Report, format: str) -> str:
    """The report as a file's text. Blocks while charts are drawn. Raises ``CannotReport``."""
    return client_reporting.written_as(_client(), made, format)


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
