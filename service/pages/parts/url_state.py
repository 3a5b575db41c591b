"""What a screen shows, as a value: it is read from the address bar and written back to it.

Whoever opens the same address sees the same view, so everything chosen on a page is here and nothing is
kept in a session alone. Pure: the address and the time come in as arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

from service.charts.window import MOST_POINTS, Window, step_for

RANGES: Mapping[str, int] = {"1h": 60, "6h": 360, "24h": 1_440, "7d": 10_080, "14d": 20_160, "30d": 43_200}
"""The ranges that follow the clock, in minutes."""

DEFAULT_RANGE = "24h"
FILTERS = ("node", "project", "user", "model")
EARLIEST, LATEST = datetime(1970, 1, 2), datetime(2200, 1, 1)  # noqa: DTZ001  UTC, as in the store
"""What an address may name: at the ends of the calendar a zone's offset leads out of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlState:
    """Time range, filters and what is picked; a default is left out of the address.

    ``since`` and ``until`` (UTC) fix the window; without them it is the last ``range`` before now.
    """

    range: str = DEFAULT_RANGE
    since: datetime | None = None
    until: datetime | None = None
    node: str | None = None
    project: str | None = None
    user: str | None = None
    model: str | None = None
    tz: str = "local"
    gpu: str | None = None
    job: str | None = None
    kind: str | None = None
    by: str | None = None
    closed: str | None = None
    find: str | None = None
    report: str | None = None

    @property
    def live(self) -> bool:
        """Whether the window moves with the clock."""
        return self.since is None or self.until is None

    @property
    def filters(self) -> dict[str, str | None]:
        """The filters as query parameters."""
        return {name: getattr(self, name) for name in FILTERS}

    def only(self, name: str, value: str | None) -> "UrlState":
        """The same view with one filter set, or taken away."""
        return replace(self, **{name: value})  # type: ignore[arg-type]  # a filter's name

    @property
    def of_whom(self) -> str | None:
        """Whose GPUs these are, where they are not everybody's: "ada in vision"."""
        return " in ".join(name for name in (self.user, self.project) if name) or None

    @property
    def filtered(self) -> bool:
        """Whether anything is left out."""
        return any(self.filters.values())


def parse(params: Mapping[str, str]) -> UrlState:
    """The view an address asks for; what cannot be read falls back to the default, silently."""
    names = {field.name for field in fields(UrlState)} - {"range", "since", "until", "tz"}
    chosen: dict[str, str] = {name: params[name] for name in names if params.get(name)}
    since, until = _instant(params.get("from")), _instant(params.get("to"))
    if since is None or until is None or since >= until:
        since = until = None
    range_name = params.get("range", DEFAULT_RANGE)
    return replace(
        UrlState(**chosen),  # type: ignore[arg-type]  # only the fields that are text
        range=range_name if range_name in RANGES else DEFAULT_RANGE,
        since=since,
        until=until,
        tz="utc" if params.get("tz") == "utc" else "local",
    )


def address(view: UrlState) -> dict[str, str]:
    """The query parameters that bring ``view`` back; ``parse(address(view)) == view``."""
    params = {
        name: value
        for name in (*FILTERS, "gpu", "job", "kind", "by", "closed", "find", "report")
        if (value := getattr(view, name))
    }
    if view.since is not None and view.until is not None:
        params |= {"from": _timestamp(view.since), "to": _timestamp(view.until)}
    elif view.range != DEFAULT_RANGE:
        params["range"] = view.range
    if view.tz != "local":
        params["tz"] = view.tz
    return params


def shared(view: UrlState) -> UrlState:
    """What goes along from page to page: time and filters, without what was picked on one page."""
    return replace(view, gpu=None, job=None, kind=None, by=None, closed=None, find=None, report=None)


def window(view: UrlState, now: datetime, *, points: int = MOST_POINTS) -> Window:
    """The stretch of time ``view`` means at ``now``, ended on a whole minute, cut to at most ``points``."""
    if view.since is not None and view.until is not None:
        since, until = _minute(view.since), _minute(view.until)
        until = max(until, since + timedelta(minutes=1))
    else:
        until = _minute(now)
        since = until - timedelta(minutes=RANGES[view.range])
    step_s = step_for((until - since).total_seconds(), points=points)
    return Window(from_ts=since, to_ts=until, step_s=step_s)


def pinned(view: UrlState, shown: Window) -> UrlState:
    """The same view, held at the window it shows now: what to send when the moment matters."""
    return replace(view, since=shown.from_ts, until=shown.to_ts)


def _instant(text: str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(text or "")
        at = at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
    except (ValueError, OverflowError):
        return None
    return at if EARLIEST <= at <= LATEST else None


def _timestamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%MZ")


def _minute(at: datetime) -> datetime:
    utc = at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
    return utc.replace(second=0, microsecond=0)
