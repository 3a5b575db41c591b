"""The section of a report on hours that no ledger has as given: what imported accounting knows of them."""

from collections.abc import Mapping, Sequence

from service.reports.model import Column, Measure, Section, Table
from service.reports.source import Source
from service.summaries import accounted

TITLES = {"user": "Whose", "project": "Project"}
_COLUMNS = (
    Column(key="runs", title="Runs", measure=Measure.COUNT),
    Column(key="gpu_hours", title="Given", measure=Measure.HOURS),
    Column(key="measured_gpu_hours", title="With means", measure=Measure.HOURS),
    Column(key="utilization_ratio", title="Mean utilization", measure=Measure.RATIO),
    Column(key="unused_gpu_hours", title="Mean of 0", measure=Measure.HOURS),
)


def accounted_rows(source: Source, by: str) -> Sequence[Mapping[str, object]]:
    """Rows of the query ``accounted_use``; none where nothing was imported, or one model is
    asked for, of which accounting says nothing. Blocks. Raises ``ClientError``.
    """
    if "model" in source.filters:
        return ()
    span = {"from_ts": source.span.start, "to_ts": source.span.end}
    return source.client.rows_if_kept("accounted_use", **span, **source.filters, by=by) or ()


def accounted_section(source: Source, by: str) -> tuple[Section, ...]:
    """One section, by ``user`` or ``project``; none where ``accounted_rows`` has none. Blocks. Raises
    ``ClientError``.
    """
    rows = accounted_rows(source, by)
    if not rows:
        return ()
    columns = (Column(key="key", title=TITLES[by]), *_COLUMNS)
    named = [{**row, "key": row["key"] or "unknown"} for row in rows]
    return (
        Section(
            heading=f"{accounted.HEADING}: by {by}",
            sentences=(accounted.told(rows),),
            table=Table(name="accounted", columns=columns, rows=named),
        ),
    )
