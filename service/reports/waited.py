"""Whose jobs waited for GPUs at a workload manager while others held GPUs idle, and what kept free ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from analytics import text
from service.reports.model import Column, Figure, Measure, Report, ReportKind, Section, Table
from service.reports.sections import TOP
from service.reports.source import Source
from service.summaries import waiting

if TYPE_CHECKING:
    from service.schemas.rows import WaitedHoldersRow, WaitedRow


HEADING = "Who waited while others held GPUs idle"
KEYS = {"user": "Person", "account": "Account", "partition": "Partition"}
_SUMS = (
    Column(key="waited_gpu_hours", title="Waited", measure=Measure.HOURS),
    Column(key="beside_idle_gpu_hours", title="Beside others' idle GPUs", measure=Measure.HOURS),
    Column(key="beside_own_gpu_hours", title="Beside own idle GPUs", measure=Measure.HOURS),
    Column(key="beside_free_gpu_hours", title="Beside free GPUs", measure=Measure.HOURS),
)
_HELD = (
    Column(key="idle_gpu_hours", title="Held idle", measure=Measure.HOURS),
    Column(key="beside_gpu_hours", title="Beside others' waits", measure=Measure.HOURS),
)
_CAUSES = (
    Column(key="cause", title="Waited for"),
    Column(key="jobs", title="Jobs", measure=Measure.COUNT),
    Column(key="waited_gpu_hours", title="Waited", measure=Measure.HOURS),
)
_UNHELD = (
    Column(key="why", title="What kept them"),
    Column(key="gpu_hours", title="Held by nobody", measure=Measure.HOURS),
)
_NOTES = (
    "A wait counts where Slurm's reason is Resources or Priority: GPUs asked for, times how long. Limits, "
    "dependencies, holds, start times and reservations are no waiting for GPUs; they stand by themselves.",
    "GPUs count beside a wait when they are of its partitions and of the type asked for, each once: minute "
    "by minute in up to a day, in steps of ten minutes up to eight days, hour by hour beyond. Whether the "
    "job would have begun on them is not said: it may ask for more on one node, or for processors and "
    "memory that were not free.",
)


def waited(source: Source, zone: tzinfo, now: datetime) -> Report:
    """The report. Blocks while it asks. Raises ``ClientError``."""
    everybody = source.rows("waited", by="user")
    holders = source.rows("waited_holders", by="user")
    sums = {each.key: sum(text.known(_cell(row, each.key)) or 0.0 for row in everybody) for each in _SUMS}
    return Report(
        kind=ReportKind.WAITED,
        title=HEADING,
        opening=" ".join(filter(None, (waiting.headline(everybody), waiting.held_idle(holders)))),
        span=source.span,
        zone=zone,
        subject=source.about,
        figures=(
            _figure(sums, "waited_gpu_hours", "Waited for GPUs", "GPUs asked for, times how long"),
            _figure(sums, "beside_idle_gpu_hours", "Beside others' idle GPUs", "each GPU counts once"),
            _figure(sums, "beside_free_gpu_hours", "Beside free GPUs", "held by nobody, and not withheld"),
        ),
        sections=(
            _who("user", everybody),
            *(_who(by, source.rows("waited", by=by)) for by in KEYS if by != "user"),
            _holders(holders),
            _jobs(source),
            _causes(source),
            *(() if source.about else (_unheld(source),)),
        ),
        currency=None,
        made_at=now,
        notes=_NOTES,
    )


def waited_section(source: Source) -> tuple[Section, ...]:
    """For a report on more than this: its sentence and who waited most. None where no Slurm was looked at.

    Blocks. Raises ``ClientError``.
    """
    if {"node", "model"} & source.filters.keys():
        return ()
    span = {"from_ts": source.span.start, "to_ts": source.span.end}
    rows = source.client.rows_if_kept("waited", **span, **source.filters, by="user")
    if not rows:
        return ()
    holders = source.rows("waited_holders", by="user")
    sentences = (waiting.headline(rows), waiting.held_idle(holders))
    return (
        Section(
            heading=HEADING,
            sentences=tuple(filter(None, sentences)),
            table=Table(name="waited", columns=_keyed("Person", _SUMS), rows=_with_unknown(rows)[:TOP]),
            commands=("fallow report waited",),
        ),
    )


def _who(by: str, rows: "Sequence[WaitedRow]") -> Section:
    return Section(
        heading=f"Who waited, by {KEYS[by].lower()}",
        table=Table(
            name=f"waited_by_{by}",
            columns=_keyed(KEYS[by], _SUMS),
            rows=_with_unknown(rows),
            empty="Nobody waited for GPUs.",
        ),
    )


def _holders(rows: "Sequence[WaitedHoldersRow]") -> Section:
    return Section(
        heading="Who held the idle GPUs",
        table=Table(
            name="held_by_user",
            columns=_keyed("Person", _HELD),
            rows=_with_unknown(rows)[:TOP],
            empty="Nobody held GPUs idle that others waited for.",
        ),
    )


def _jobs(source: Source) -> Section:
    columns = (
        Column(key="key", title="Job"),
        Column(key="user_name", title="Whose"),
        Column(key="project", title="Account"),
        *_HELD,
    )
    return Section(
        heading="Their jobs",
        table=Table(
            name="held_by_job",
            columns=columns,
            rows=_with_unknown(source.rows("waited_holders", by="job"))[:TOP],
            empty="No job.",
        ),
    )


def _causes(source: Source) -> Section:
    rows = [{**row, "cause": waiting.why_of_past(row)} for row in source.rows("waited_causes")]
    return Section(
        heading="What jobs waited for",
        sentences=(f"Only {waiting.CAUSES['resources']!r} is a wait for GPUs.",) if rows else (),
        table=Table(name="causes", columns=_CAUSES, rows=rows, empty="No job that asks for GPUs waited."),
    )


def _unheld(source: Source) -> Section:
    rows = [{**row, "why": waiting.kept_by(row)} for row in source.rows("unheld")]
    return Section(
        heading="GPUs that nobody held, and what kept them",
        table=Table(name="unheld", columns=_UNHELD, rows=rows, empty="Every GPU was held, or not measured."),
    )


def _figure(sums: Mapping[str, float], key: str, label: str, help: str) -> Figure:
    return Figure(key=key, label=label, value=sums[key], measure=Measure.HOURS, help=help)


def _keyed(title: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return (Column(key="key", title=title), *columns)


def _cell(row: Mapping[str, object], column: str) -> object:
    return row[column]


def _with_unknown(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    return [{**row, "key": row["key"] or "unknown"} for row in rows]
