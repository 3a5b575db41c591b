"""What can be configured of telling people: where messages go, and which reports come when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

REPORT_KINDS = ("cluster-week", "project-week", "my-week", "right-sizing", "chargeback")
REPORT_FORMATS = ("html", "md", "csv", "json")
OWNERS = "owners"
"""As a receiver: everybody who held a GPU in the report's time, each about themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryConfig:
    """Where messages go, as Apprise addresses (``mailtos://...``, ``slack://...``, ``json://...``).

    ``routes`` gives names to lists of them. ``people`` maps a user to a route or an address, ``person`` is
    the rule for everybody else, with ``{user}`` in it. Secrets don't belong here: ``${NAME}`` in an address
    is taken from the environment, ``${file:PATH}`` is the content of a file.
    """

    routes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    person: str = ""

    def __post_init__(self) -> None:
        if self.person and "{user}" not in self.person:
            raise ValueError("person is a rule for everybody: it needs {user} in it")
        if OWNERS in self.routes:
            raise ValueError(
                f"a route cannot be called {OWNERS}: that means every holder, each about themselves"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportConfig:
    """A report that comes by itself: ``[reports.NAME]``.

    ``cron`` has five fields (minute, hour, day, month, weekday) in ``zone``; ``since`` is how far back it
    looks from when it is due. It is written into ``folder`` (in DATA when not absolute) and sent to each of
    ``to``: route names, addresses, or ``owners``.
    """

    kind: str
    cron: str
    zone: str = "UTC"
    since: str = "7d"
    format: str = "html"
    project: str = ""
    user: str = ""
    to: tuple[str, ...] = ()
    folder: str = "reports"

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
        if self.kind == "project-week" and not self.project:
            raise ValueError("a project-week needs its project")
        if self.kind == "my-week" and not self.user and OWNERS not in self.to:
            raise ValueError(f"a my-week needs its user, or to = [{OWNERS!r}]")
