"""What can be configured of telling people: where messages go, and which reports come when."""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analytics.vocabulary.reports import ReportKind
from service.config.fields import Misplaced, names, told
from service.durations import BadSpan, parse_span

REPORT_KINDS = tuple(kind.value for kind in ReportKind)
MONTH = "month"
"""As a report's ``since``: what comes on a day of each month has every hour once."""
REPORT_FORMATS = ("html", "md", "csv", "json")
OWNERS = "owners"
"""As a receiver: everybody who held a GPU in the report's time, each about themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryConfig:
    """Where messages go.

    Addresses are [Apprise](https://github.com/caronc/apprise/wiki)'s (`mailtos://...`, `slack://...`,
    `json://...`). Secrets don't belong here: `${NAME}` in an address is taken from the environment,
    `${file:PATH}` is the content of a file ([reports](reports.md)).
    """

    routes: Mapping[str, tuple[str, ...]] = names("`[delivery.routes]`: a name = a list of addresses")
    people: Mapping[str, str] = names("`[delivery.people]`: a user = their own route or address")
    person: str = told("", "the rule for everybody else, with `{user}` in it")
    projects: Mapping[str, str] = names("`[delivery.projects]`: a project = its route or address")

    def __post_init__(self) -> None:
        if self.person and "{user}" not in self.person:
            raise ValueError("person is a rule for everybody: it needs {user} in it")
        if OWNERS in self.routes:
            raise ValueError(
                f"a route cannot be called {OWNERS}: that means every holder, each about themselves"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportConfig:
    """A report that comes by itself.

    Each under a name of its own ([reports](reports.md)).
    """

    kind: str = told(
        MISSING, "`cluster-week`, `project-week`, `my-week`, `right-sizing`, `chargeback` or `waited`"
    )
    cron: str = told(
        MISSING, "when, in five fields: minute, hour, day, month, weekday (a name, or 0 to 7 as in a crontab)"
    )
    zone: str = told("UTC", "in whose time, for example `Europe/Berlin`")
    since: str = told(
        "7d", "how far back it looks from when it is due; `month`: to the same time a month before"
    )
    format: str = told("html", "`html`, `md`, `csv` or `json`")
    project: str = told("", "about which project; a `project-week` needs it")
    user: str = told("", 'about whom; a `my-week` needs it, or `to = ["owners"]`')
    to: tuple[str, ...] = told(
        (), "routes, addresses, or `owners`: everybody who held a GPU, each about themselves"
    )
    folder: str = told("reports", "where it is written, in DATA unless absolute")

    def __post_init__(self) -> None:
        if self.kind not in REPORT_KINDS:
            raise ValueError(f"a report's kind is one of {', '.join(REPORT_KINDS)}, not {self.kind!r}")
        if self.format not in REPORT_FORMATS:
            raise ValueError(f"a report's format is one of {', '.join(REPORT_FORMATS)}, not {self.format!r}")
        if len(self.cron.split()) != 5:
            raise ValueError(
                "cron has five fields, minute hour day month weekday, for example '0 8 * * mon'; "
                f"not {self.cron!r}"
            )
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{self.zone!r} is no time zone; write for example Europe/Berlin") from error
        try:
            self.since == MONTH or parse_span(self.since)
        except BadSpan as error:
            raise ValueError(f"since: {error}, or month") from error
        if self.kind == ReportKind.PROJECT_WEEK and not self.project:
            raise ValueError("a project-week needs its project")
        if self.kind == ReportKind.MY_WEEK and not self.user and OWNERS not in self.to:
            raise ValueError(f"a my-week needs its user, or to = [{OWNERS!r}]")


def check_receivers(
    delivery: DeliveryConfig, reports: Mapping[str, ReportConfig], operators: tuple[str, ...]
) -> None:
    """Whether all that reports and alerts are to be sent to is a route or an address. Raises ``Misplaced``.

    A name that is neither would wait in the outbox for three days, and then be given up.
    """
    routes: dict[tuple[str, ...], tuple[str, ...]] = {
        ("alerts", "to"): operators,
        **{("reports", name, "to"): report.to for name, report in reports.items()},
    }
    for where, receivers in routes.items():
        for to in receivers:
            if "://" in to or to in delivery.routes or (to == OWNERS and where[0] == "reports"):
                continue
            near = difflib.get_close_matches(to, delivery.routes, n=1)
            meant = (
                f"did you mean {near[0]}?" if near else "add it there, or write an address (mailtos://...)"
            )
            sentence = f"{'.'.join(where)} names {to!r}, which is no route under [delivery.routes]; {meant}"
            raise Misplaced(sentence, *where)
