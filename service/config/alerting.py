"""What can be configured of alerts: which there are, when one is a case, and who wants what when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analytics.vocabulary.alerts import ALERTS
from service.config.fields import bounded, others, told

ALERT_KINDS = tuple(kind.value for kind, words in ALERTS.items() if not words.if_named)
ASKED_KINDS = tuple(kind.value for kind, words in ALERTS.items() if words.if_named)
"""Use that could be better, and that its holder often means so: told only where a site names the kind."""
_ASKED = tuple(f"`{kind}`" for kind in ASKED_KINDS)
URGENT_KINDS = tuple(kind.value for kind, words in ALERTS.items() if words.urgent)
EVERY_KIND = (*ALERT_KINDS, *ASKED_KINDS)
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERYTHING = "*"
MIDNIGHT = "24:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverConfig:
    """What one receiver wants, and when.

    A table for each: the name of a route, a user or a project, `"*"` for everybody who has none. Outside the
    working hours messages wait, and come together when those begin.

    ```toml
    [alerts.ops]
    zone = "Europe/Berlin"
    days = ["mon", "tue", "wed", "thu", "fri"]
    begins = "08:00"
    ends = "18:00"
    holidays = ["2026-12-25"]
    gather = ["held-idle", "memory-hog"]
    digest_at = ["09:00", "15:00"]
    ```
    """

    kinds: tuple[str, ...] = told((), "only these kinds; none: all")
    gather: tuple[str, ...] = told((), 'kinds that come in the digest alone; `"*"`: all')
    urgent: tuple[str, ...] = told(URGENT_KINDS, "kinds that do not wait for the hours")
    zone: str = told("UTC", "in whose time, for example `Europe/Berlin`; messages write theirs in it as well")
    days: tuple[str, ...] = told(DAYS, "working days")
    begins: str = told("00:00", "when they begin")
    ends: str = told(MIDNIGHT, "when they end")
    holidays: tuple[str, ...] = told((), "days that are none, as `2026-12-25`")
    digest_at: tuple[str, ...] = told(("09:00",), "when the digest comes on working days")
    ended_gpu_hours: float = bounded(
        0.0,
        0,
        1e6,
        "a message at the end of a job that was given so many GPU-hours; 0: owners as `[alerts]` has it, "
        "others none",
    )
    most_per_hour: int = bounded(10, 1, 1000, "messages in any hour; what is above goes into the next digest")

    def __post_init__(self) -> None:
        for name, choices in (("kinds", EVERY_KIND), ("urgent", EVERY_KIND), ("days", DAYS)):
            _must_be(name, getattr(self, name), choices)
        _must_be("gather", self.gather, (*EVERY_KIND, EVERYTHING))
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{self.zone!r} is no time zone; write for example Europe/Berlin") from error
        if not self.days:
            raise ValueError("days is empty: name at least one working day")
        if not self.digest_at:
            raise ValueError("digest_at is empty: what is above the bound has to come some time")
        if minutes_of(self.begins) >= minutes_of(self.ends):
            raise ValueError(f"the hours begin at {self.begins} and end before, at {self.ends}")
        for each in self.digest_at:
            if minutes_of(each) == minutes_of(MIDNIGHT):
                raise ValueError(f"digest_at {each} is no time of a day; write 00:00")
        for each in self.holidays:
            _day(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsConfig:
    """Which alerts there are, and who is told.

    What is a case, what a message says and when it comes stands in [alerts](alerts.md). Owners are reached as
    `[delivery]` says; without an address nobody is sent anything, and `fallow alerts` shows the cases all the
    same.
    """

    to: tuple[str, ...] = told((), "the operators: routes or addresses; they get every kind")
    owners: bool = told(True, "tell owners about their own jobs, and projects about theirs")
    kinds: tuple[str, ...] = told(
        ALERT_KINDS, f"which there are; {', '.join(_ASKED[:-1])} and {_ASKED[-1]} only if named"
    )
    opens_after_s: int = bounded(
        120, 0, 86_400, "how long something must hold, without a doubt, to become a case, or a worse one"
    )
    closes_after_s: int = bounded(600, 0, 86_400, "how long it must be calm before the case is closed")
    quiet_s: int = bounded(
        14_400, 0, 604_800, "no second word of the same case within this, unless it became worse or is over"
    )
    utilization_target_ratio: float = bounded(
        0.0, 0, 1, "cluster utilization over a day under this is a case; 0: never"
    )
    utilization_margin_ratio: float = bounded(0.02, 0, 0.5, "and it is over so much above it")
    starved_s: int = bounded(
        1800, 60, 604_800, "a job waits so long for GPUs that its project's quota guarantees"
    )
    blind_s: int = bounded(120, 10, 86_400, "a source, or a whole node, was not measured for so long")
    ended_gpu_hours: float = bounded(
        0.0, 0, 1e6, "owners get a message at the end of a job that was given so many GPU-hours; 0: never"
    )
    dashboard_url: str = told("", "where people reach the dashboard, for the links in messages")
    by_receiver: Mapping[str, ReceiverConfig] = others()

    def __post_init__(self) -> None:
        _must_be("kinds", self.kinds, EVERY_KIND)
        if self.dashboard_url and not self.dashboard_url.startswith(("http://", "https://")):
            raise ValueError(f"dashboard_url begins with http:// or https://, not {self.dashboard_url!r}")


def minutes_of(text: str) -> int:
    """Minutes since midnight of ``08:30``; ``24:00`` is the end of a day. Raises ValueError."""
    if text == MIDNIGHT:
        return 24 * 60
    try:
        at = time.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or len(text) != 5 or at.tzinfo is not None:
        raise ValueError(f"{text!r} is no time of a day; write for example 08:30")
    return at.hour * 60 + at.minute


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:  # days are compared as they are written
        raise ValueError(f"{text!r} is no day; write for example 2026-12-25")
    return day


def _must_be(name: str, values: tuple[str, ...], choices: tuple[str, ...]) -> None:
    for each in values:
        if each not in choices:
            raise ValueError(f"{name} names {each!r}; there are {', '.join(choices)}")
