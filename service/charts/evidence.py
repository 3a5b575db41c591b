"""What an advice rests on, drawn: a measure of its job over time, and the line that it turns on. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.charts.frame import Layered, TimeAxis, closed, hover, steps_of, styled, unchecked, with_end
from service.charts.theme import Theme
from service.charts.window import Window, step_for

LEAST_S, MOST_S = 2 * 3600, 7 * 86_400
POINTS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A column of ``job_timeline`` to draw, and the line across it; ``line`` in the column's unit."""

    column: str
    title: str
    write: Callable[[float | None], str]
    line: float | None = None
    line_told: str = ""
    full: float | None = None


def measures_of(row: Mapping[str, object], lines: Mapping[str, float]) -> tuple[Measure, ...]:
    """What to draw for an advice of a class: the measures that it was judged by, most telling first."""
    evidence = row.get("evidence")
    figures = evidence if isinstance(evidence, Mapping) else {}
    match row.get("class"):
        case ActionClass.RECLAIM | ActionClass.TERMINATE:
            return (_busy(lines.get("idle_ratio"), "idle at or below"), _memory())
        case ActionClass.CAP_MEMORY:
            needed = text.known(figures.get("memory_needed_bytes"))
            return (_memory(needed, "needed"), _busy(lines.get("hog_utilization_ratio"), "a hog stays under"))
        case ActionClass.PACK:
            return (_busy(lines.get("pack_p95"), "fits beside another up to"), _memory())
        case ActionClass.RIGHT_SIZE:
            p95 = text.known(figures.get("utilization_p95_ratio"))
            return (
                _busy(p95, "its 95th percentile"),
                _memory(text.known(figures.get("memory_peak_bytes")), "its peak"),
            )
        case _:
            return (_busy(None, ""), _memory())


def evidence_window(evidence: Mapping[str, object], as_of: datetime) -> Window:
    """The stretch that shows the evidence: the idle time or the window judged, and half as much before it."""
    length_s = text.known(evidence.get("idle_s")) or text.known(evidence.get("window_s")) or 0.0
    seconds = min(MOST_S, max(LEAST_S, 1.5 * length_s))
    end = as_of.replace(second=0, microsecond=0, tzinfo=None)
    start = end - timedelta(minutes=round(seconds / 60))
    return Window(from_ts=start, to_ts=end, step_s=step_for(seconds, points=POINTS))


def over_job(timeline: pd.DataFrame, column: str) -> pd.DataFrame:
    """``job_timeline`` as one row a step: the mean of a measure over the job's GPUs, as ``value``."""
    steps: pd.DataFrame = timeline.groupby("ts")[[column]].mean().reset_index()
    return steps.rename(columns={column: "value"})


def steps_table(steps: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The same steps as a table reads them: the measure under its own name, and the line beside it."""
    table = steps.rename(columns={"value": measure.column})
    return table if measure.line is None else table.assign(line=measure.line)


@unchecked
def evidence_chart(
    steps: pd.DataFrame, measure: Measure, axis: TimeAxis, colours: Theme, *, height: int = 130
) -> Layered:
    """The measure as a stepped area, what was not measured left open, and the line with its words."""
    grid = steps_of(axis.window)
    frame_with_gaps = grid.merge(steps.astype({"ts": grid["ts"].dtype}), on="ts", how="left")
    frame = with_end(frame_with_gaps, axis.window)
    peak = frame["value"].max()
    top = measure.full or max(float(0 if pd.isna(peak) else peak), measure.line or 0.0) * 1.15 or 1.0
    frame = frame.assign(
        zero=0.0, told=[measure.write(None if pd.isna(v) else float(v)) for v in frame["value"]]
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(title=measure.title, labels=False, ticks=False, grid=False),
    )
    base = alt.Chart(closed(frame)).encode(x=axis.x())
    layers = [
        axis.anchors(),
        base.mark_area(interpolate="step-after", color=colours.used, opacity=0.25).encode(y=y, y2="zero:Q"),
        base.mark_line(interpolate="step-after", color=colours.used, strokeWidth=1.5).encode(y=y),
        *_line(measure, y, top, colours),
        hover(frame, axis.clock, colours, [("told", measure.title)]),
    ]
    return styled(alt.layer(*layers), colours, height=height)


def _line(measure: Measure, y: alt.Y, top: float, colours: Theme) -> list[alt.Chart]:
    if measure.line is None:
        return []
    words = f"{measure.line_told} {measure.write(measure.line)}"
    base = alt.Chart(pd.DataFrame({"value": [measure.line], "words": [words]})).encode(y=y)
    above = measure.line < 0.8 * top
    rule = base.mark_rule(color=colours.allocated, strokeDash=[5, 4], strokeWidth=1.5)
    text = base.mark_text(
        align="right", dx=-6, dy=-8 if above else 9, color=colours.allocated, fontSize=12, fontWeight=600
    ).encode(x=alt.value("width"), text="words:N")
    return [rule, text]


def _busy(line: float | None, title: str) -> Measure:
    return Measure(
        column="utilization_ratio",
        title="Utilization",
        write=text.percent,
        line=line,
        line_told=title,
        full=1.0,
    )


def _memory(line: float | None = None, title: str = "") -> Measure:
    return Measure(
        column="memory_used_bytes", title="Memory used", write=text.size, line=line, line_told=title
    )
