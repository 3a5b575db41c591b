"""Makes a scheduled report and posts it: ``python -m service.reports.posting DATA``, the order on stdin.

A process of its own, so that drawing costs the service no memory. Doing it again does nothing twice: the file
has the name of its time, and a message of the same key is in the outbox once.
"""

import json
import os
import sys
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from zoneinfo import ZoneInfo

from service.client import Client, connect
from service.config.telling import MONTH, OWNERS, DeliveryConfig, ReportConfig
from service.durations import parse_span
from service.notify.message import Body, Message, receiver_of, receivers
from service.notify.outbox import Outbox
from service.reports.build import Wanted, make
from service.reports.model import Format, Report, ReportKind, Span
from service.reports.render import Pictures, Style, render

BODIES = {Format.HTML: Body.HTML, Format.MARKDOWN: Body.MARKDOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A report that is due: its name and configuration, when it was due, and how people are reached."""

    name: str
    due: datetime
    report: ReportConfig
    delivery: DeliveryConfig

    def as_json(self) -> str:
        """For the other side of a pipe."""
        return json.dumps({**asdict(self), "due": self.due.isoformat()})

    @classmethod
    def from_json(cls, text: str) -> "Order":
        """What ``as_json`` wrote."""
        document = json.loads(text)
        report = {**document["report"], "to": tuple(document["report"]["to"])}
        delivery = document["delivery"]
        routes = {name: tuple(many) for name, many in delivery["routes"].items()}
        return cls(
            name=document["name"],
            due=datetime.fromisoformat(document["due"]),
            report=ReportConfig(**report),
            delivery=DeliveryConfig(**{**delivery, "routes": routes}),
        )


def post(order: Order, data: Path, client: Client, now: datetime) -> list[str]:
    """Write the report's file and put its messages into the outbox; what was done, in sentences. Blocks.

    Somebody's own that is there already is not made again: who was cut short among hundreds goes on.
    """
    outbox = Outbox(data, lambda receiver: receiver)
    done = []
    for request, to in _receivers(order, client):
        own = request.kind is ReportKind.MY_WEEK and bool(to)
        if own and all(outbox.holds(_key(order, request.user), receiver) for receiver in to):
            done.append(f"made before: {request.user}")
            continue
        report = make(client, request, now)
        done.append(f"written: {_write(report, order, data)}")
        for receiver in to:
            fresh = outbox.post(_message(report, order, receiver, data), _attached(report, order))
            done.append(f"{'posted' if fresh else 'posted before'}: {receiver.split('://')[0]}")
    return done


def _receivers(order: Order, client: Client) -> Iterator[tuple[Wanted, tuple[str, ...]]]:
    """Each report to make, and to whom it goes; ``owners`` is one for each holder of the time."""
    span, kind = span_of(order), ReportKind(order.report.kind)
    zone = ZoneInfo(order.report.zone)
    project = order.report.project or None
    others = [to for to in order.report.to if to != OWNERS]
    if others or OWNERS not in order.report.to:
        named = tuple(one for to in others for one in receivers(to, order.delivery))
        user = order.report.user or None
        yield Wanted(kind=kind, span=span, zone=zone, user=user, project=project), named
    if OWNERS in order.report.to:
        people = client.rows("people", from_ts=span.start, to_ts=span.end, project=project)
        for user in sorted({row["user_name"] for row in people if row["user_name"]}):
            receiver = receiver_of(user, order.delivery)
            if receiver is not None:
                to = receivers(receiver, order.delivery)
                yield Wanted(kind=ReportKind.MY_WEEK, span=span, zone=zone, user=user), to


def span_of(order: Order) -> Span:
    """The report's time: from ``since`` before it was due.

    Whole days are those of its zone's calendar, of 23 or 25 hours where summer time begins or ends: so what
    comes every Monday at eight has every hour once.
    """
    end = order.due.astimezone(UTC).replace(second=0, microsecond=0)
    there = end.astimezone(ZoneInfo(order.report.zone))
    if order.report.since == MONTH:
        return Span(start=_month_before(there).astimezone(UTC), end=end)
    length = parse_span(order.report.since)
    if length % timedelta(days=1):
        return Span(start=end - length, end=end)
    return Span(start=(there - length).astimezone(UTC), end=end)


def _month_before(at: datetime) -> datetime:
    """The same time a month before, by the clock on the wall; the last day where a month is shorter."""
    year, month = divmod(at.year * 12 + at.month - 2, 12)
    return at.replace(year=year, month=month + 1, day=min(at.day, monthrange(year, month + 1)[1]), fold=0)


def _write(report: Report, order: Order, data: Path) -> Path:
    folder = data / order.report.folder
    folder.mkdir(parents=True, exist_ok=True)
    whose = f"-{report.subject}" if report.kind is ReportKind.MY_WEEK else ""
    out = folder / f"{_safe(f'{order.name}{whose}')}-{order.due:%Y-%m-%dT%H%M}.{order.report.format}"
    fresh = out.with_name(f".{out.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(render(report, Format(order.report.format), _style(data, Pictures.SVG)))
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(out)
    return out


def _safe(name: str) -> str:
    """A schedule's or person's name within a file's: it may hold anything, and stays one of its own."""
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)
    return safe if safe == name else f"{safe}-{sha256(name.encode()).hexdigest()[:8]}"


def _key(order: Order, subject: str | None) -> str:
    return f"report:{order.name}:{order.due.isoformat()}:{subject or ''}"


def _message(report: Report, order: Order, receiver: str, data: Path) -> Message:
    format = Format(order.report.format)
    body_format = format if format in BODIES else Format.MARKDOWN
    return Message(
        key=_key(order, report.subject),
        to=receiver,
        title=f"{report.title}, {report.span.start:%d %b} to {report.span.end:%d %b %Y}",
        text=render(report, body_format, _style(data, Pictures.PNG)),
        body=BODIES[body_format],
        attachments=tuple(_attached_names(order)),
        made_ms=round(report.made_at.timestamp() * 1000),
    )


def _attached(report: Report, order: Order) -> dict[str, bytes]:
    """A table is attached as a file, for a spreadsheet."""
    format = Format(order.report.format)
    return {name: render(report, format).encode() for name in _attached_names(order)}


def _attached_names(order: Order) -> list[str]:
    return [f"{_safe(order.name)}.{order.report.format}"] if Format(order.report.format) not in BODIES else []


def _style(data: Path, pictures: Pictures) -> Style:
    own = data / "templates"
    return Style(templates=own if own.is_dir() else None, pictures=pictures)


def main() -> int:
    """Do what is ordered on standard input; say what was done, a line each."""
    data = Path(sys.argv[1])
    order = Order.from_json(sys.stdin.read())
    with connect(data) as client:
        for line in post(order, data, client, datetime.now(UTC)):
            sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
