"""Many measures on one time axis: a lane for each, one ruler through all of them. Pure.

A lane has its own scale, from 0 to ``full``, which is written at its right edge. Steps without a value
are left open: a gap is drawn as a gap.

Strips of labelled stretches above a timeline: the states a GPU went through, and who held it. Pure.

Which measures share a lane, what they are called, and how they are written. Pure; for all pages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState, label_of
from collector.declared_metric import Metric
from collector.metrics import METRICS
from service.charts.frame import (
    Layered,
    TimeAxis,
    closed,
    hover,
    rows,
    steps_of,
    styled,
    unchecked,
    utc,
    with_end,
)
from service.charts.theme import Theme, colour_of, ink_on
from service.charts.window import Window

LANE_PX = 62
STRIP = 0.42
FILL = 0.74


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One column in a lane; ``low`` and ``high`` name columns that bound it, for a band."""

    column: str
    label: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Measures of one unit that share a scale; ``full`` is its top, by default the largest value seen.

    A ``rare`` lane is left out where all it has are zeros.
    """

    title: str
    traces: tuple[Trace, ...]
    write: Callable[[float | None], str]
    full: float | None = None
    rare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A row of labelled stretches above the lanes; its columns are
    ``ts, end, fill, ink, text, told``."""

    title: str
    stretches: pd.DataFrame


def measured_lanes(lanes: Sequence[Lane], timeline: pd.DataFrame) -> tuple[Lane, ...]:
    """The lanes in which at least one value was measured, with only the traces that have one."""
    lanes_measured: list[Lane] = []
    for lane in lanes:
        traces = tuple(t for t in lane.traces if _has_values(timeline, t.column, lane.rare))
        if traces:
            lanes_measured.append(replace(lane, traces=traces))
    return tuple(lanes_measured)


def unmeasured(lanes: Sequence[Lane], timeline: pd.DataFrame) -> tuple[str, ...]:
    """The titles of the lanes in which nothing was measured; a rare lane that is all zeros was."""
    titles = {lane.title for lane in measured_lanes([replace(lane, rare=False) for lane in lanes], timeline)}
    return tuple(lane.title for lane in lanes if lane.title not in titles)


def whole_timeline(timeline: pd.DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """The timeline with a row for each step of the window, empty where there was none."""
    grid = steps_of(axis.window)
    return grid.merge(timeline.astype({"ts": grid["ts"].dtype}), on="ts", how="left")


@unchecked
def lanes_chart(
    timeline: pd.DataFrame,
    lanes: Sequence[Lane],
    axis: TimeAxis,
    colours: Theme,
    *,
    strips: Sequence[Strip] = (),
) -> Layered:
    """One chart of all strips and lanes, top to bottom, over the window of ``axis``."""
    frame = with_end(whole_timeline(timeline, axis), axis.window)
    head = len(strips) * STRIP
    bottom = head + len(lanes)
    sheet = _Sheet(axis=axis, colours=colours, scale=alt.Scale(domain=[bottom, 0], nice=False))
    titles = {(at + 0.5) * STRIP: strip.title for at, strip in enumerate(strips)}
    titles |= {head + at + 0.5: lane.title for at, lane in enumerate(lanes)}
    layers = [axis.anchors(), _feet(sheet, [head + at for at in range(len(lanes))], titles)]
    for at, strip in enumerate(strips):
        layers += _strip(sheet, strip, at * STRIP)
    for at, lane in enumerate(lanes):
        layers += _lane(sheet, lane, frame, head + at)
    traces = [trace for lane in lanes for trace in lane.traces]
    columns = [(f"told{number}", trace.label) for number, trace in enumerate(traces)]
    layers.append(hover(_with_texts(frame, lanes), axis.clock, colours, columns))
    return styled(alt.layer(*layers), colours, height=round(bottom * LANE_PX) + 8)


def trace_colours(colours: Theme) -> tuple[str, ...]:
    """The colours of a lane's traces, first to last."""
    return (colours.used, colours.allocated, colours.third, colours.muted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    axis: TimeAxis
    colours: Theme
    scale: alt.Scale

    def y(self, field: str = "y", axis: alt.Axis | None = None) -> alt.Y:
        if axis is None:
            return alt.Y(field, type="quantitative", scale=self.scale)
        return alt.Y(field, type="quantitative", scale=self.scale, axis=axis)


def _lane(sheet: _Sheet, lane: Lane, frame: pd.DataFrame, top: float) -> list[alt.Chart]:
    full = lane.full or float(frame[[t.high or t.column for t in lane.traces]].max().max()) or 1.0
    foot = top + 0.96
    layers: list[alt.Chart] = []
    for number, (trace, colour) in enumerate(zip(lane.traces, trace_colours(sheet.colours), strict=False)):
        curve: dict[str, pd.Series[float] | float] = {
            "y": _heights(frame[trace.column], full, foot),
            "foot": foot,
        }
        if trace.low and trace.high:
            curve |= {name: _heights(frame[getattr(trace, name)], full, foot) for name in ("low", "high")}
        line = alt.Chart(closed(frame[["ts", "end"]].assign(**curve))).encode(x=sheet.axis.x())
        area = line.mark_area(interpolate="step-after", color=colour, opacity=0.20)
        if "low" in curve:
            layers.append(area.encode(y=sheet.y("low"), y2="high:Q"))
        elif number == 0:
            layers.append(area.encode(y=sheet.y(), y2="foot:Q"))
        stroke = line.mark_line(interpolate="step-after", color=colour, strokeWidth=1.4)
        layers.append(stroke.encode(y=sheet.y()))
    return [*layers, *_words(sheet, lane, top, full)]


def _words(sheet: _Sheet, lane: Lane, top: float, full: float) -> list[alt.Chart]:
    words = [_label(sheet, lane.write(full), top, sheet.colours.muted, x=None)]
    if len(lane.traces) > 1:
        words += [
            _label(sheet, f"\u2501 {trace.label}", top, colour, x=6 + number * 150)
            for number, (trace, colour) in enumerate(
                zip(lane.traces, trace_colours(sheet.colours), strict=False)
            )
        ]
    return words


def _label(sheet: _Sheet, text: str, top: float, colour: str, *, x: int | None) -> alt.Chart:
    frame = pd.DataFrame({"y": [top + 0.11], "text": [text]})
    side: Literal["right", "left"] = "right" if x is None else "left"
    mark = alt.Chart(frame).mark_text(align=side, dx=-4 if x is None else 0, fontSize=11, color=colour)
    chart: alt.Chart = mark.encode(x=alt.value("width" if x is None else x), y=sheet.y(), text="text:N")
    return chart


def _strip(sheet: _Sheet, strip: Strip, top: float) -> list[alt.Chart]:
    middle = top + STRIP / 2 - 0.02
    frame = strip.stretches.assign(y=top + 0.05, y2=top + STRIP - 0.09, middle=middle)
    base = alt.Chart(frame)
    tooltip = [
        alt.Tooltip("told:N", title=strip.title),
        alt.Tooltip("when:N", title="From"),
        alt.Tooltip("until:N", title="To"),
    ]
    boxes = (
        base.transform_calculate(when=sheet.axis.when("ts"), until=sheet.axis.when("end"))
        .mark_rect(cornerRadius=2)
        .encode(
            x=sheet.axis.x(),
            x2="end:T",
            y=sheet.y(),
            y2="y2:Q",
            color=alt.Color("fill:N", scale=None),
            tooltip=tooltip,
        )
    )
    words = base.mark_text(align="left", dx=5, fontSize=11).encode(
        x=sheet.axis.x(), y=sheet.y("middle"), text="text:N", color=alt.Color("ink:N", scale=None)
    )
    return [boxes, words]


def _feet(sheet: _Sheet, tops: Sequence[float], titles: dict[float, str]) -> alt.Chart:
    frame = pd.DataFrame({"y": [top + 0.96 for top in tops]})
    places = "{" + ",".join(f"'{round(at * 1000)}':'{title}'" for at, title in titles.items()) + "}"
    axis = alt.Axis(
        values=list(titles),
        labelExpr=f"{places}[toString(round(datum.value*1000))]",
        labelColor=sheet.colours.ink,
        labelFontSize=12,
        labelLimit=150,
        minExtent=100,
        title=None,
        grid=False,
    )
    chart: alt.Chart = alt.Chart(frame).mark_rule(color=sheet.colours.rule).encode(y=sheet.y(axis=axis))
    return chart


def _has_values(timeline: pd.DataFrame, column: str, rare: bool) -> bool:
    if column not in timeline:
        return False
    values = timeline[column].dropna()
    return bool((values > 0).any()) if rare else not values.empty


def _heights(values: "pd.Series[float]", full: float, foot: float) -> "pd.Series[float]":
    return foot - (values.astype(float) / full).clip(0.0, 1.0) * FILL


def _with_texts(frame: pd.DataFrame, lanes: Sequence[Lane]) -> pd.DataFrame:
    texts: dict[str, list[str]] = {}
    for lane in lanes:
        for trace in lane.traces:
            texts[f"told{len(texts)}"] = [
                lane.write(None if text.missing(value) else value) for value in frame[trace.column]
            ]
    return frame[["ts", "end"]].assign(**texts)


ROOM = 0.055
"""The part of the window a stretch must fill before its label has room."""


def state_strip(timeline: pd.DataFrame, window: Window, colours: Theme) -> Strip:
    """The state of each step, neighbours of one state joined; a step without one is unknown."""
    frame = steps_of(window)
    own = timeline[["ts", "state"]].astype({"ts": frame["ts"].dtype})
    steps = with_end(frame.merge(own, on="ts", how="left"), window)
    states = steps["state"].astype(object).where(steps["state"].notna(), GpuState.UNKNOWN.value)
    runs = steps.assign(state=states, run=(states != states.shift()).cumsum())
    joined = runs.groupby("run", as_index=False).agg(
        ts=("ts", "min"), end=("end", "max"), state=("state", "first")
    )
    fills = [colour_of(state, colours, colours.muted) for state in joined["state"]]
    labels = [label_of(state) for state in joined["state"]]
    return Strip(title="State", stretches=_labelled(joined, fills, labels, labels, window))


def holder_strip(holders: pd.DataFrame, window: Window, colours: Theme) -> Strip:
    """Who held the GPU and when; each person keeps one shade within the strip."""
    start, stop = utc(window.from_ts), utc(window.to_ts)
    ends = holders["to_ts"].fillna(stop)
    frame = pd.DataFrame(
        {
            "ts": holders["from_ts"].where(holders["from_ts"] > start, start),
            "end": ends.where(ends < stop, stop),
        }
    )
    people = [_person(row) for row in rows(holders)]
    shades = shades_of(people, colours)
    titles = [
        f"{who} · {row.job_name or row.job} · {row.source}"
        for who, row in zip(people, rows(holders), strict=True)
    ]
    labels = [
        f"{who} · {row.job_name}" if not text.missing(row.job_name) else who
        for who, row in zip(people, rows(holders), strict=True)
    ]
    return Strip(
        title="Held by", stretches=_labelled(frame, shades, _together(frame, labels), titles, window)
    )


def _together(frame: pd.DataFrame, labels: list[str]) -> list[str]:
    """The labels, those of stretches that overlap in one: two words in one place can't be read."""
    result = list(labels)
    first = 0
    for at in range(1, len(result)):
        if frame["ts"].iloc[at] < frame["end"].iloc[first]:
            result[first], result[at] = f"{result[first]}, {result[at]}", ""
        else:
            first = at
    return result


def shades_of(people: Sequence[str], colours: Theme) -> list[str]:
    """A shade for each, the same for the same person, from a ramp that differs in lightness."""
    ramp = (colours.ramp[3], colours.ramp[1], colours.ramp[4], colours.ramp[2])
    distinct = list(dict.fromkeys(people))
    return [ramp[distinct.index(who) % len(ramp)] for who in people]


def _labelled(
    frame: pd.DataFrame, fills: list[str], labels: list[str], columns: list[str], window: Window
) -> pd.DataFrame:
    seconds = (frame["end"] - frame["ts"]).dt.total_seconds()
    room = [length / window.seconds for length in seconds]
    return frame[["ts", "end"]].assign(
        fill=fills,
        ink=[ink_on(fill) for fill in fills],
        text=[
            label if part > ROOM and part * 170 > len(label) else ""
            for label, part in zip(labels, room, strict=True)
        ],
        told=columns,
    )


def _person(row: object) -> str:
    user = getattr(row, "user_name", None)
    return "unknown" if text.missing(user) else str(user)


RUNGS = {
    0: "no measure",
    1: "GPU utilization, an upper bound",
    2: "graphics engine active",
    3: "SM active",
}
"""The words for ``rung``."""


_LANES = (
    "Utilization",
    "SMs",
    "Memory used",
    "Memory traffic",
    "Power",
    "Temperature",
    "Clocks",
    "Video",
    "Processes",
)
"""The most telling first; a lane that the list of metrics has besides comes after them."""
_RARE = ("Video",)
"""Few jobs use these engines: where all that was measured is 0, the lane would only take room."""
"""How a value is written, by the unit at the end of its column's name; anything else is a count."""


def lanes_of(memory_total_bytes: float | None = None) -> tuple[Lane, ...]:
    """Every lane of a GPU's timeline, most telling first; memory's top is the card's total where known."""
    lanes: dict[str, list[Metric]] = {title: [] for title in _LANES}
    for metric in METRICS:
        if metric.timeline and metric.timeline.lane:
            lanes.setdefault(metric.timeline.lane, []).append(metric)
    return tuple(_lane_of(title, metrics, memory_total_bytes) for title, metrics in lanes.items())


def _lane_of(title: str, metrics: Sequence[Metric], memory_total_bytes: float | None) -> Lane:
    pairs = [(metric, metric.timeline) for metric in metrics if metric.timeline]
    drawn = sorted(pairs, key=lambda pair: not pair[1].is_first)
    traces = tuple(Trace(column=metric.on_screen, label=shown.label) for metric, shown in drawn)
    unit = traces[0].column.rpartition("_")[2]
    return Lane(
        title=title,
        traces=traces,
        write=text.WRITERS.get(unit, text.count),
        full=1.0 if unit == "ratio" else memory_total_bytes if unit == "bytes" else None,
        rare=title in _RARE,
    )


def over_gpus(timeline: pd.DataFrame) -> pd.DataFrame:
    """A job's timeline with one row a step: each measure's mean over its GPUs, and ``_low`` and ``_high``."""
    measures = [trace.column for lane in lanes_of() for trace in lane.traces if trace.column in timeline]
    steps = timeline.groupby("ts")[measures]
    low, high = steps.min().add_suffix("_low"), steps.max().add_suffix("_high")
    merged: pd.DataFrame = steps.mean().join(low).join(high).reset_index()
    return merged


def banded(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The lanes with a band about the first measure of each, from its lowest to its highest GPU."""
    return tuple(replace(lane, traces=(_band(lane.traces[0]), *lane.traces[1:])) for lane in lanes)


def _band(trace: Trace) -> Trace:
    return replace(trace, low=f"{trace.column}_low", high=f"{trace.column}_high")
