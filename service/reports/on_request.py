"""Reports for a screen: made now, written in a format, and those that a schedule wrote.

What a report holds is ``service.reports``' own; pages reach it through here. Personal reports are told apart,
so that a page can keep them from others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.vocabulary.reports import REPORTS
from service.config.telling import OWNERS
from service.errors import BadParameter, CannotReport, ClientError, FallowError
from service.reports.model import (
    Chart,
    Column,
    Figure,
    Format,
    Measure,
    Report,
    ReportKind,
    Section,
    Span,
    Table,
)
from service.reports.values import figure_text, mark_of, marked, period, written

if TYPE_CHECKING:
    from service.client.queries import Client
    from service.config.file import Effective

__all__ = [
    "Chart",
    "Column",
    "Figure",
    "Measure",
    "Paper",
    "Report",
    "ReportKind",
    "Section",
    "Table",
    "figure_text",
    "kinds",
    "made",
    "mark_of",
    "marked",
    "papers",
    "period",
    "read_paper",
    "written",
    "written_as",
]

FORMATS = ("html", "md", "csv", "json")
LONGEST_BYTES = 32 * 1024**2
"""No report comes near it; a larger file that somebody put there is not read whole."""
_NAME = re.compile(r"(?P<whose>.+)-(?P<due>\d{4}-\d\d-\d\dT\d{4})\.(?P<format>html|md|csv|json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A report that a schedule wrote. ``due`` is its time, UTC.

    ``schedule`` is ``None`` where the configuration has it no more. ``personal``: it is one person's own, and
    ``subject`` is their name as it stands in the file's, ``None`` where that cannot be told.
    """

    path: Path
    due: datetime
    format: str
    bytes: int
    schedule: str | None
    personal: bool
    subject: str | None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def kinds() -> tuple[tuple[str, str], ...]:
    """The kinds there are, and what each tells."""
    return tuple((kind.value, words.says) for kind, words in REPORTS.items())


def made(
    client: "Client",
    kind: str,
    window: tuple[datetime, datetime],
    *,
    zone: tzinfo = UTC,
    user: str | None = None,
    project: str | None = None,
) -> Report:
    """The report of a window of whole minutes, as ``fallow report`` makes it. Blocks. Raises ``ClientError``.

    Times without a zone are of ``zone``.
    """
    from service.reports.build import Wanted, make

    start, end = ((at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC) for at in window)
    request = Wanted(
        kind=ReportKind(kind), span=Span(start=start, end=end), zone=zone, user=user, project=project
    )
    try:
        return make(client, request, datetime.now(UTC))
    except FallowError as error:
        raise _as_client_error(error) from error


def written_as(client: "Client", report: Report, format: str) -> str:
    """The report as a file's text, by the site's own templates where it has any. Raises ``CannotReport``.

    Drawing the charts of the HTML takes about a second.
    """
    from service.reports.render import Style, render

    own = None if client.data is None else client.data / "templates"
    style = Style(templates=own if own is not None and own.is_dir() else None)
    try:
        return render(report, Format(format), style)
    except FallowError as error:
        raise _as_client_error(error) from error


def papers(client: "Client") -> tuple[Paper, ...] | None:
    """What schedules wrote, newest first; ``None`` where the store is another machine's. Reads folders."""
    if client.data is None:
        return None
    inside, data = effective(client), client.data
    folders = {data / "reports", *(data / report.folder for report in inside.config.reports.values())}
    listed = [each for folder in folders for each in _listed(folder, _known_in(folder, inside, data))]
    return tuple(sorted(listed, key=lambda each: (each.due, each.name), reverse=True))


def read_paper(paper: Paper) -> str:
    """Its text. Raises ``CannotReport``."""
    try:
        with paper.path.open("rb") as file:
            content = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        raise CannotReport(f"{paper.path} cannot be read: {error.strerror or error}") from error
    if len(content) > LONGEST_BYTES:
        raise CannotReport(f"{paper.path} is larger than a page can show; open it where it lies")
    return content.decode(errors="replace")


def effective(client: "Client") -> "Effective":
    """The configuration beside the store. Raises ``BadParameter`` where the file cannot be used."""
    from service.config.file import FILE_NAME, load
    from service.config.model import ConfigError

    try:
        return load(None if client.data is None else client.data / FILE_NAME, {})
    except ConfigError as error:
        raise BadParameter(str(error)) from error


def in_file_name(text: str) -> str:
    """A schedule's or person's name as it stands in the name of a written report."""
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in text)


_Known = dict[str, tuple[str, bool]]
"""By the beginning of a file's name: the schedule, and whether it writes personal reports too."""


def _known_in(folder: Path, effective: "Effective", data: Path) -> _Known:
    return {
        in_file_name(name): (name, report.kind == ReportKind.MY_WEEK.value or OWNERS in report.to)
        for name, report in effective.config.reports.items()
        if data / report.folder == folder
    }


def _listed(folder: Path, entry: _Known) -> Iterator[Paper]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        named = _NAME.fullmatch(path.name)
        if named is None or path.is_symlink() or not path.is_file():
            continue
        schedule, personal, subject = _whose(named["whose"], entry)
        yield Paper(
            path=path,
            due=datetime.strptime(named["due"], "%Y-%m-%dT%H%M").replace(tzinfo=UTC),
            format=named["format"],
            bytes=path.stat().st_size,
            schedule=schedule,
            personal=personal,
            subject=subject,
        )


def _whose(whose: str, entry: _Known) -> tuple[str | None, bool, str | None]:
    """Schedule, whether it is personal, and whose. What no schedule owns might be anybody's: personal."""
    begun = [name for name, (_, personal) in entry.items() if personal and whose.startswith(f"{name}-")]
    if begun:
        name = max(begun, key=len)
        return entry[name][0], True, whose[len(name) + 1 :]
    return (entry[whose][0], False, None) if whose in entry else (None, True, None)


def _as_client_error(error: FallowError) -> FallowError:
    """The error as a client's, whatever part of the making it came from."""
    return error if isinstance(error, ClientError) else CannotReport(str(error))
