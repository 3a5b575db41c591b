"""The pieces that several kinds of report are made of: figures, charts and tables from one source."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypedDict

from analytics import text
from analytics.vocabulary.findings import FindingKind, title_of_kind
from analytics.vocabulary.states import STATES, GpuState, label_of
from service import wording
from service.charts.bars import PARTS, part_colours, waste_bars
from service.charts.frame import rows as frame_rows
from service.charts.theme import Theme
from service.charts.usage import allocated_and_used, ledger_bars
from service.energy import Energy
from service.reports.accounted import accounted_rows
from service.reports.model import Chart, Column, Figure, Keys, Measure, Section, Table
from service.reports.source import Source
from service.summaries import accounted, measured_time
from service.summaries.headline import ALLOCATED, MEASURED, USED, Headline, headline
from service.summaries.job_verdicts import kinds, verdict
from service.summaries.recommendations import any_upper_bound

if TYPE_CHECKING:
    import pandas as pd

    from service.schemas.rows import JobsRow, LedgerByStateTuple

    class ReportedJob(JobsRow):
        """A job as tables show it: its name, its verdict, what was found, how far its use is a bound."""

        name: str
        bound_used_gpu_hours: float | None
        verdict: str | None
        kinds: str | None

    class StateRow(TypedDict):
        """The hours of one state, as the table shows them."""

        state: str
        meaning: str
        gpu_hours: float
        share_ratio: float | None
        bound_gpu_hours: float | None
        energy_kwh: float | None
        cost: float | None


TOP = 10
WORTH_GPU_HOURS = 1.0
"""A job that held less is not ranked among the best: an hour of luck proves nothing."""
WORTH_RATIO = 0.25
"""Nor is one that was used less than this: the ledger calls that low saturation."""
NONE_GOOD = "No job of a GPU-hour or more used a quarter of what it held."

STATE_COLUMNS = (
    Column(key="state", title="State"),
    Column(key="meaning", title="Means"),
    Column(key="gpu_hours", title="GPU-hours", measure=Measure.HOURS, bound="bound_gpu_hours"),
    Column(key="share_ratio", title="Share", measure=Measure.RATIO, bound="bound_gpu_hours"),
    Column(key="energy_kwh", title="Energy", measure=Measure.ENERGY),
    Column(key="cost", title="Cost", measure=Measure.MONEY),
)
HELD_COLUMNS = (
    Column(key="gpu_hours", title="Held", measure=Measure.HOURS),
    Column(key="used_gpu_hours", title="Used", measure=Measure.HOURS, bound="bound_used_gpu_hours"),
    Column(key="wasted_gpu_hours", title="Wasted", measure=Measure.HOURS),
    Column(key="utilization_ratio", title="Utilization", measure=Measure.RATIO, bound="bound_used_gpu_hours"),
    Column(key="energy_kwh", title="Energy", measure=Measure.ENERGY),
    Column(key="cost", title="Cost", measure=Measure.MONEY),
)
JOB_COLUMNS = (
    Column(key="name", title="Job"),
    Column(key="job", title="Id"),
    Column(key="user_name", title="Whose"),
    Column(key="project", title="Project"),
    Column(key="gpus", title="GPUs", measure=Measure.COUNT),
    *HELD_COLUMNS,
    Column(key="verdict", title="Verdict"),
    Column(key="kinds", title="Found"),
)


def head_of(source: Source) -> "tuple[Headline, pd.DataFrame, pd.DataFrame]":
    """The dashboard's headline over the window, with the frames that it was made from."""
    usage, ledger = source.steps("usage_over_time"), source.frame("ledger_by_state")
    return headline(usage, ledger, source.window), usage, ledger


def opening_of(source: Source, opening: str, now: datetime, *, nobody_held: bool = False) -> str:
    """A report's first sentence, how much of its range was measured, what is in none of its sums. Blocks.

    ``nobody_held``: by the samples; what accounting gave out is then said instead of the first sentence.
    """
    start, end = source.span.start, source.span.end
    chosen = measured_time.params(start, end, source.filters)
    rows = source.client.rows_if_kept("measured_time", **chosen)
    part = measured_time.rests_on(rows, start, end, now)
    by_user = accounted_rows(source, "user")
    if nobody_held:
        return " ".join(filter(None, (accounted.instead(by_user, opening), part)))
    return " ".join(filter(None, (opening, part, accounted.left_out(by_user))))


def head_figures(head: Headline) -> tuple[Figure, ...]:
    """The overview's figures under the same names, and its other shares, each with its whole named."""
    most, least = marks_of(head)
    return (
        Figure(
            key="utilization_ratio",
            label=USED,
            value=head.utilization_ratio,
            measure=Measure.RATIO,
            help="used over measured time, on the best measure each GPU has",
            mark=most,
        ),
        Figure(
            key="allocated_ratio",
            label=ALLOCATED,
            value=head.allocated_ratio,
            measure=Measure.RATIO,
            help="the part of known time in which a GPU was given to somebody",
        ),
        Figure(
            key="fallow_gpu_hours",
            label="Lay fallow",
            value=head.fallow_gpu_hours,
            measure=Measure.HOURS,
            help="allocated, minus what its holders used, as far as it was measured",
            mark=least,
        ),
        Figure(
            key="wasted_gpu_hours",
            label="Wasted outright",
            value=head.wasted_gpu_hours,
            measure=Measure.HOURS,
            help="held with no process on it, or with one that did nothing",
        ),
        Figure(
            key="wasted_cost",
            label="Cost of the waste",
            value=head.wasted_cost,
            measure=Measure.MONEY,
            help="wasted GPU-hours times the price of each model",
        ),
        *energy_figures(head.energy, head.wasted_energy),
        Figure(
            key="measured_ratio",
            label=MEASURED,
            value=head.measured_ratio,
            measure=Measure.COVERAGE,
            help="the rest is unknown: not judged",
        ),
    )


def marks_of(head: Headline) -> tuple[str, str]:
    """Before what was used, and before what was not: signs where GPU utilization alone tells of the use."""
    is_bound = wording.is_bound(head.bound_used_gpu_hours)
    return (wording.AT_MOST, wording.AT_LEAST) if is_bound else ("", "")


def energy_figures(used: Energy, wasted: Energy) -> tuple[Figure, ...]:
    """The energy of all hours and of the wasted ones, where any was measured; of which part is said."""
    if used.kwh is None:
        return ()
    figures = (
        ("energy_kwh", "Energy", used, "drawn by the GPUs alone"),
        ("wasted_energy_kwh", "Energy wasted", wasted, "drawn in the hours that were wasted outright"),
    )
    return tuple(
        Figure(
            key=key,
            label=wording.measured_part(label, each),
            value=each.kwh,
            measure=Measure.ENERGY,
            help=f"{what}{_of_part(each)}",
        )
        for key, label, each, what in figures
    )


def _of_part(energy: Energy) -> str:
    part = energy.partly_of
    return "" if part is None else f"; measured in {text.percent(part)} of them"


def use_section(source: Source, usage: "pd.DataFrame", head: Headline, *, you: bool = False) -> Section:
    """Allocated against used over time, of a part of the GPUs where the source is; said to ``you``, if so."""
    who = "You" if you else source.about
    is_bound = wording.is_bound(head.bound_used_gpu_hours)
    most, least = ("at most ", "at least ") if is_bound else ("", "")
    between = f"{least}{text.gpu_hours(head.fallow_gpu_hours)} lay fallow."
    if who:
        allocated, used = text.some_gpus(head.allocated_gpus), text.gpus(head.used_gpus)
        says = f"{who} held {allocated} on average and used {most}{used}; {between}"
    else:
        installed, allocated_gpus, used_gpus = (
            head.of_the_cluster(gpus)
            for gpus in (head.installed_gpus, head.allocated_gpus, head.held_used_gpus)
        )
        says = (
            f"On average, of {text.some_gpus(installed)}, {text.gpus_were(allocated_gpus)} allocated "
            f"and {most}{text.gpus_were(used_gpus)} used; {between}"
        )
    return Section(
        heading="Allocated against used",
        chart=Chart(
            name="allocated-and-used",
            says=says,
            draw=lambda colours, utc: allocated_and_used(
                usage, source.axis(utc=utc), colours, held_only=bool(who)
            ),
            key=_use_keys,
            numbers=usage,
        ),
    )


def state_section(ledger: "pd.DataFrame") -> Section:
    """Where the hours went; they add up to the hardware."""
    by_state: dict[str, LedgerByStateTuple] = {row.state: row for row in frame_rows(ledger)}
    rows = [_state_row(state.key, state.meaning, by_state.get(state.key)) for state in STATES]
    rows = [row for row in rows if row["state"] != label_of(GpuState.WITHHELD) or row["gpu_hours"]]
    largest = max(rows, key=lambda row: row["gpu_hours"])
    most = "at most " if wording.is_bound(largest["bound_gpu_hours"]) else ""
    says = f"The largest part was {largest['state']}: {most}{text.gpu_hours(largest['gpu_hours'])}."
    return Section(
        heading="GPU-hours by state",
        chart=Chart(
            name="gpu-hours-by-state",
            says=says,
            draw=lambda colours, _: ledger_bars(ledger, colours),
            numbers=ledger,
        ),
        table=Table(name="states", columns=priced(STATE_COLUMNS, rows), rows=rows),
    )


def waste_chart(frame: "pd.DataFrame", name: str) -> Chart | None:
    """Bars of those who wasted most; ``frame`` has ``name`` and the ledger's columns."""
    if frame.empty:
        return None
    first = frame.iloc[0]
    says = (
        f"{first['name']} comes first with {text.gpu_hours(first['wasted_gpu_hours'])} wasted of "
        f"{text.gpu_hours(first['gpu_hours'])} held."
    )
    return Chart(
        name=name,
        says=says,
        draw=lambda colours, _: waste_bars(frame, colours),
        key=_part_keys,
        numbers=frame,
    )


def wastes_section(jobs: "Sequence[JobsRow]", heading: str) -> Section:
    """The jobs that wasted most, each with its verdict and what was found about it."""
    return Section(
        heading=heading,
        table=Table(
            name="wastes",
            columns=priced(JOB_COLUMNS, jobs),
            rows=worst_jobs(jobs),
            empty="No job wasted anything.",
        ),
    )


def job_rows(rows: "Sequence[JobsRow]") -> "list[ReportedJob]":
    """Jobs as tables show them, with a name, a verdict and what was found for each."""
    return [
        {
            **row,
            "name": row["job_name"] or row["command"] or row["job"],
            # as ``rung`` is: by the lowest measure that went into it
            "bound_used_gpu_hours": row.get("used_gpu_hours") if any_upper_bound([row]) else 0.0,
            "verdict": verdict(row),
            "kinds": "; ".join(title_of_kind(kind) for kind in kinds(row)) or None,
        }
        for row in rows
    ]


def worst_jobs(rows: "Sequence[JobsRow]", top: int = TOP) -> "list[ReportedJob]":
    """The ``top`` jobs by wasted GPU-hours; who wasted nothing is left out."""
    wasting = [row for row in job_rows(rows) if (row["wasted_gpu_hours"] or 0) > 0]
    return sorted(wasting, key=lambda row: -(row["wasted_gpu_hours"] or 0.0))[:top]


def best_jobs(rows: "Sequence[JobsRow]", top: int = TOP) -> "list[ReportedJob]":
    """The ``top`` jobs by utilization among those that held and used enough to be named as good.

    One of which GPU utilization alone is known stands behind all others: its use is an upper bound. Who was
    not judged is not praised, nor who may have hung.
    """
    worth = [
        row
        for row in job_rows(rows)
        if (row["utilization_ratio"] or 0) >= WORTH_RATIO and (row["gpu_hours"] or 0) >= WORTH_GPU_HOURS
        if not str(row["verdict"]).startswith("not judged") and FindingKind.MAY_HANG not in kinds(row)
    ]
    return sorted(
        worth,
        key=lambda row: (
            any_upper_bound([row]),
            -(row["utilization_ratio"] or 0.0),
            -(row["gpu_hours"] or 0.0),
        ),
    )[:top]


def notes_on_use(jobs: "Sequence[JobsRow]") -> tuple[str, ...]:
    """A note below a report in which some use is an upper bound; nothing where none is."""
    return (wording.upper_bound(),) if any_upper_bound(jobs) else ()


def priced(columns: tuple[Column, ...], rows: Sequence[Mapping[str, object]]) -> tuple[Column, ...]:
    """The columns without money where nothing has a price."""
    return tuple(
        column
        for column in columns
        if column.measure not in (Measure.MONEY, Measure.ENERGY)
        or any(row.get(column.key) is not None for row in rows)
    )


def currency_of(rows: Sequence[Mapping[str, object]]) -> str | None:
    """The currency of the rows' money."""
    return next((str(row["currency"]) for row in rows if row.get("currency")), None)


def _use_keys(colours: Theme) -> Keys:
    return (
        (colours.used, "used"),
        (colours.fallow_stripe, "fallow: allocated, not used"),
        (colours.allocated, "allocated (line)"),
        (colours.stripe, "not measured"),
    )


def _part_keys(colours: Theme) -> Keys:
    return tuple(zip(part_colours(colours), PARTS, strict=True))


def _state_row(key: str, meaning: str, row: "LedgerByStateTuple | None") -> "StateRow":
    return {
        "state": label_of(key),
        "meaning": meaning,
        "gpu_hours": 0.0 if row is None else text.known(row.gpu_hours) or 0.0,
        "share_ratio": None if row is None else text.known(row.share_ratio),
        # the highest state alone is bounded so: of another, some may be of the state above it
        "bound_gpu_hours": text.known(getattr(row, "bound_gpu_hours", None))
        if key == GpuState.GOOD
        else None,
        "energy_kwh": text.known(getattr(row, "energy_kwh", None)),  # none in an older service's answer
        "cost": None if row is None else text.known(row.cost),
    }
