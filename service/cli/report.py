"""``fallow report``: makes a report now, shows it, or says which there are and when they come."""

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.vocabulary.reports import REPORTS
from collector.procfs.owners import whose_uid
from service import data_folder as client_place
from service.cli import words
from service.cli.asking import asked
from service.cli.screen import Column, console, print_json, table
from service.client import NoData
from service.config.flags import settle
from service.durations import window
from service.errors import FallowError

if TYPE_CHECKING:
    from service.reports.charts import Drawings
    from service.reports.model import Format, Report
    from service.reports.render import Style

TERMINAL = Path("-")
PREVIEW_WIDTH = 116


class CannotReport(FallowError):
    """What was typed is no report that can be made."""


def run_report(flags: argparse.Namespace) -> int:
    """Make one report, or list what there is."""
    gc.disable()  # it makes many objects, keeps them and ends: nothing would be found on the way
    try:
        return _run(flags)
    finally:
        gc.enable()


def _run(flags: argparse.Namespace) -> int:
    if flags.list:
        return _list(flags)
    if flags.kind is None:
        raise CannotReport("which report? one of the kinds that `fallow report --list` names")
    kind = _format(flags)
    with _drawing(kind) as drawings:
        report = _make(flags, drawings)
        text = _text(flags, report, kind, drawings)
    if flags.preview:
        from rich.markdown import Markdown

        screen = console()
        screen.print(Markdown(text), width=min(screen.width, PREVIEW_WIDTH))
        return 0
    out = flags.out or Path(f"fallow-{flags.kind}-{report.span.end:%Y-%m-%d}.{kind.value}")
    if out == TERMINAL:
        sys.stdout.write(text)
        return 0
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotReport(f"cannot write the report to {out}: {error.strerror or error}") from error
    console().print(f"{report.title}: {out}")
    return 0


@contextmanager
def _drawing(format: "Format") -> "Iterator[Drawings | None]":
    """Where there are charts: who draws them, in a process that loads its engine from now on."""
    from service.reports.drawing import Beside
    from service.reports.model import Format

    if format is not Format.HTML:
        yield None
        return
    with Beside() as beside:
        from service.reports.charts import Drawings

        yield Drawings(beside.begin)


def _make(flags: argparse.Namespace, drawings: "Drawings | None") -> "Report":
    from service.reports.build import Wanted, make
    from service.reports.charts import Form
    from service.reports.model import Chart, ReportKind, Span

    def begin(chart: Chart) -> None:
        from service.reports.render import Pictures  # brings libraries that the store need not wait for

        if drawings is not None:
            drawings.begin(chart, Form.SVG if flags.pictures == Pictures.SVG else Form.PNG)

    now = datetime.now(UTC)
    zone = _zone(flags.zone)
    start, end = window(flags.since, flags.until, now, zone)
    kind = ReportKind(flags.kind)
    user = flags.user or (whose_uid(os.getuid()) if kind is ReportKind.MY_WEEK else None)
    request = Wanted(kind=kind, span=Span(start=start, end=end), zone=zone, user=user, project=flags.project)
    with asked(flags, sys.stderr) as client, client.holding():
        span = client.rows("span")
        newest = span[0]["last_ts"] if span else None
        measured = newest is not None
        latest = now if newest is None else max(now, words.moment(newest))
        if start < latest < end:  # its queries end there too
            request = replace(request, span=Span(start=start, end=latest.replace(second=0, microsecond=0)))
        if not measured and not client.rows_if_kept("accounted_use", from_ts=start, to_ts=end, by="all"):
            raise NoData("nothing was measured yet; start a service with `fallow serve` and wait a minute")
        return make(client, request, now, begin)


def _text(flags: argparse.Namespace, report: "Report", format: "Format", drawings: "Drawings | None") -> str:
    from service.reports.render import render

    return render(report, format, _style(flags), drawings)


def _style(flags: argparse.Namespace) -> "Style":
    from service.reports.render import Pictures, Style

    if flags.templates is not None and not flags.templates.is_dir():
        raise CannotReport(f"there is no folder {flags.templates}")
    own = client_place.data_dir(flags.data) / "templates"
    folder = flags.templates or (own if own.is_dir() else None)
    return Style(templates=folder, pictures=Pictures(flags.pictures))


def _format(flags: argparse.Namespace) -> "Format":
    from service.reports.model import Format

    if flags.preview:
        return Format.MARKDOWN
    if flags.format:
        return Format(flags.format)
    suffix = flags.out.suffix.removeprefix(".") if flags.out is not None else ""
    values = {each.value for each in Format}
    if suffix and suffix not in values:
        raise CannotReport(
            f"what format is {flags.out.name}? name it with --format: {', '.join(sorted(values))}"
        )
    return Format(suffix or "html")


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise CannotReport(f"{name!r} is no time zone; write for example Europe/Berlin") from error


def _list(flags: argparse.Namespace) -> int:
    rows = [{"kind": kind.value, "says": words.says} for kind, words in REPORTS.items()]
    if flags.json:
        print_json(rows, flags)
        return 0
    screen = console()
    screen.print(
        table(
            [Column(title="kind"), Column(title="what it tells", below=True)],
            [[row["kind"], row["says"]] for row in rows],
        )
    )
    _list_schedules(flags)
    _list_messages(client_place.data_dir(flags.data))
    return 0


def _list_schedules(flags: argparse.Namespace) -> None:
    from service.reports.due import next_due, read_times

    settings = settle(flags)
    reports = settings.effective.config.reports
    if not reports:
        console().print("\nNone is scheduled: see [reports.NAME] in docs/reports.md.", style="bright_black")
        return
    settled, now = read_times(settings.data), datetime.now(UTC)
    lines = [
        [
            name,
            report.kind,
            f"{report.cron} {report.zone}",
            _when(settled.get(name)),
            _when(next_due(report, now)),
            ", ".join(to.partition("://")[0] for to in report.to) or report.folder,
        ]
        for name, report in reports.items()
    ]
    titles = ("scheduled", "kind", "when", "looked at last", "comes next", "to")
    console().print()
    console().print(table([Column(title=title) for title in titles], lines))


def _list_messages(data: Path) -> None:
    """What has not arrived yet, or never did, and why."""
    from service.notify.message import What
    from service.notify.outbox import Outbox

    waiting = [
        posted
        for posted in Outbox(data, lambda receiver: receiver).posted()
        if posted.standing.state is not What.SENT
    ]
    if not waiting:
        return
    lines = [
        [
            each.message.title,
            each.message.to.partition("://")[0],
            "given up" if each.standing.next_ms is None else f"tries so far: {each.standing.tries}",
            each.standing.found,
        ]
        for each in waiting
    ]
    console().print()
    titles = ("message that has not arrived", "to", "state", "why")
    console().print(table([Column(title=title) for title in titles], lines))


def _when(at: datetime | None) -> str:
    return "never" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"
