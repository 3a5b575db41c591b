"""Ranked bars of people, projects or jobs: what they held, split into used, partly used and wasted. Pure.

Frames have the columns of ``people``, ``projects`` or ``jobs`` and a ``name`` column to show.

GPUs that each project holds through Fallow and waits for, as two bars a project. Pure.
"""

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState
from service.charts.cache import Filled, kept, named
from service.charts.frame import Layered, rows, styled, unchecked
from service.charts.theme import Theme

PARTS = ("used", "held, in part", "wasted")
ROW_PX = 28
TEXT_PX = 205
"""What the words beside a bar take."""
CLOSE = 1e-6


def most_wasted(frame: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """The ``top`` holders by wasted GPU-hours, largest first; who wasted nothing is left out."""
    wasting = frame[frame["wasted_gpu_hours"].fillna(0.0) > CLOSE]
    return wasting.nlargest(top, "wasted_gpu_hours")


def best_used(frame: pd.DataFrame, *, top: int) -> pd.DataFrame:
    """The ``top`` holders by utilization among those who held at least 2 % of what the largest held."""
    floor = frame["gpu_hours"].max() * 0.02
    worth = frame[(frame["gpu_hours"] >= floor) & frame["utilization_ratio"].notna()]
    best: pd.DataFrame = worth.nlargest(top, "utilization_ratio")
    return best


def waste_bars(frame: pd.DataFrame, colours: Theme) -> Filled:
    """A bar a holder, as long as what it held: used, held in part, wasted; the waste is written beside."""
    texts = [
        f"{text.gpu_hours(row.wasted_gpu_hours)} wasted · "
        f"{text.percent(row.wasted_gpu_hours / row.gpu_hours)} of held"
        for row in rows(frame)
    ]
    return _bars(frame, texts, colours)


def use_bars(frame: pd.DataFrame, colours: Theme) -> Filled:
    """The same bars, with the utilization written beside."""
    texts = [
        f"{text.percent(row.utilization_ratio)} used of {text.gpu_hours(row.gpu_hours)}"
        for row in rows(frame)
    ]
    return _bars(frame, texts, colours)


def split_hours(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a holder and part; the parts of a holder add up to what it held."""
    hours = frame["gpu_hours"].fillna(0.0)
    wasted = frame["wasted_gpu_hours"].fillna(0.0).clip(lower=0.0)
    used = frame["used_gpu_hours"].fillna(0.0).clip(lower=0.0)
    between = (hours - used - wasted).clip(lower=0.0)
    edges = [used * 0, used, used + between, used + between + wasted]
    parts = [
        pd.DataFrame({"name": frame["name"], "part": part, "low": edges[at], "high": edges[at + 1]})
        for at, part in enumerate(PARTS)
    ]
    long = pd.concat(parts, ignore_index=True)
    return long.assign(text=[text.gpu_hours(row.high - row.low) for row in rows(long)])


def part_colours(colours: Theme) -> tuple[str, str, str]:
    """The colours of ``PARTS`` in their order."""
    return (colours.used, colours.states[GpuState.LOW_SATURATION], colours.states[GpuState.HELD_IDLE])


REACH = f"clamp(width / max(width - {TEXT_PX}, 1), 1.75, 4)"
"""Where the scale ends, in longest bars, so that the words beside that one find room, on a phone too."""


def _bars(frame: pd.DataFrame, texts: list[str], colours: Theme) -> Filled:
    place = dict(zip(frame["name"], range(len(frame)), strict=True))
    parts = split_hours(frame)
    ends_h = parts.groupby("name")["high"].max()  # who works beyond its share of a GPU used more than it held
    most = float(ends_h.max() or 1.0) if len(frame) else 1.0
    parts = parts.assign(place=parts["name"].map(place), low=parts["low"] / most, high=parts["high"] / most)
    ends = frame[["name"]].assign(
        place=frame["name"].map(place), end=frame["name"].map(ends_h) / most, text=texts
    )
    return _bars_look(len(place), colours).filled(parts=parts, ends=ends)


def prepare(many: int, colours: Theme) -> None:
    """Put the chart of so many holders together, before somebody waits for it."""
    _bars_look(many, colours)


@kept
def _bars_look(many: int, colours: Theme) -> Layered:
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef(REACH), nice=False)
    label = alt.Axis(title=None, labelLimit=170, labelFontSize=13, labelColor=colours.ink, minExtent=96)
    y = alt.Y("name:N", sort=alt.EncodingSortField(field="place", op="min"), axis=label)
    bars = (
        named("parts")
        .mark_bar(height=14)
        .encode(
            y=y,
            x=alt.X("low:Q", axis=None, scale=scale),
            x2="high:Q",
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=list(PARTS), range=list(part_colours(colours))), legend=None
            ),
            tooltip=[
                alt.Tooltip("name:N", title="Holder"),
                alt.Tooltip("part:N", title="Part"),
                alt.Tooltip("text:N", title="GPU-hours"),
            ],
        )
    )
    labels = (
        named("ends")
        .mark_text(align="left", dx=7, color=colours.muted)
        .encode(y=y, x=alt.X("end:Q", axis=None, scale=scale), text="text:N")
    )
    return styled(alt.layer(bars, labels), colours, height=max(1, many) * ROW_PX)


MOST = 12
KINDS = ("held through Fallow", "wanted")


def wanted_and_held(queue: pd.DataFrame, leases: pd.DataFrame) -> pd.DataFrame:
    """A row a project and kind: ``project, kind, gpus``; the projects that want most first, at most 12."""
    allocated = leases.assign(share=leases["share"].astype(float)).groupby(_project(leases))["share"].sum()
    requested = queue.assign(gpus=queue["gpus"].astype(float)).groupby(_project(queue))["gpus"].sum()
    both = pd.DataFrame({KINDS[0]: allocated, KINDS[1]: requested}).fillna(0.0)
    both = both.sort_values([KINDS[1], KINDS[0]], ascending=False).head(MOST)
    both.index.name = "project"
    long = both.reset_index().melt(id_vars="project", var_name="kind", value_name="gpus")
    return long.assign(text=[text.gpus(gpus) for gpus in long["gpus"]])


@unchecked
def shares_chart(frame: pd.DataFrame, colours: Theme) -> Layered:
    """The bars, each with its number beside it."""
    order = list(dict.fromkeys(frame["project"]))
    most = float(frame["gpus"].max() or 1.0)
    base = alt.Chart(frame).encode(
        y=alt.Y("project:N", sort=order, axis=alt.Axis(title=None, labelFontSize=13, labelColor=colours.ink)),
        yOffset=alt.YOffset("kind:N", sort=list(KINDS)),
        x=alt.X("gpus:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.12], nice=False)),
        tooltip=[
            alt.Tooltip("project:N", title="Project"),
            alt.Tooltip("kind:N", title="GPUs"),
            alt.Tooltip("text:N", title="How many"),
        ],
    )
    bars = base.mark_bar(cornerRadiusEnd=3, height=11).encode(
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=list(KINDS), range=[colours.used, colours.fallow_stripe]),
            legend=None,
        )
    )
    texts = base.mark_text(align="left", dx=6, color=colours.muted).encode(text="text:N")
    return styled(alt.layer(bars, texts), colours, height=len(order) * 34 + 4)


def _project(frame: pd.DataFrame) -> "pd.Series[str]":
    return frame["project"].astype(object).where(frame["project"].notna(), "no project")
