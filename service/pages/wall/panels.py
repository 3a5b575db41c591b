"""What stands on the wall: five panels that can be read from three metres. Effects: they ask and draw.

The wall names GPUs, jobs and projects, and no person: everybody who walks by reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import pandas as pd
import streamlit as st

from analytics import text
from service import wording
from service.charts.bars import PARTS, most_wasted, part_colours, waste_bars
from service.charts.drawing import Drawing
from service.charts.frame import rows
from service.charts.usage import allocated_and_used
from service.charts.wall_size import enlarged
from service.pages.data import queries
from service.pages.parts import freshness
from service.pages.parts.context import PageContext
from service.pages.parts.finding_messages import labels, messages, parts, wasted_by
from service.pages.parts.range_waste import sentence as findings_sentence
from service.pages.parts.rests_on import show_rests_on
from service.pages.parts.widgets import keys, kind_label, state_keys, striped, swatch
from service.pages.queue import lent, queued
from service.pages.wall.widgets import figures_html, kind_figures, lines_html, tiles_html
from service.summaries.frames import records
from service.summaries.headline import Headline, headline, sentence
from service.summaries.holders import named

if TYPE_CHECKING:
    from service.schemas.rows import ClusterNowRecord, FindingsTuple


LARGER, LARGEST = 2.05, 2.8
CHART_PX, BARS_PX, BAR_PX = 560, 640, 32
MOST_LINES, MOST_BARS = 6, 9
NOTHING = "Nothing was measured here in this time"


def overview(scene: PageContext) -> None:
    """Given against used, in one sentence, five figures and a curve."""
    usage = queries.ask("usage_over_time", **scene.asked_steps)
    ledger = queries.ask("ledger_by_state", **scene.asked)
    if usage.empty or not usage["installed_gpus"].fillna(0).gt(0).any():
        st.header(NOTHING, anchor=False)
        return
    head = headline(usage, ledger, scene.window)
    whose = scene.view.of_whom
    st.header(sentence(head, whose), anchor=False)
    show_rests_on(scene, with_people=False)
    st.html(figures_html(_head_figures(head)))
    colours = scene.colours
    keys(
        (
            (swatch(colours.used), "used", None),
            (swatch(striped(colours.fallow, colours.fallow_stripe)), "fallow: allocated, not used", None),
            (swatch("transparent", outline=colours.allocated), "allocated", None),
            (swatch(striped(colours.paper, colours.stripe)), "not measured", None),
        )
    )
    drawn = allocated_and_used(usage, scene.axis, colours, held_only=whose is not None)
    _chart(drawn, "What was allocated and used over time", by=LARGER, height=CHART_PX)


def cluster(scene: PageContext) -> None:
    """Each GPU as a tile, in the colour of what it does now."""
    now = queries.ask("cluster_now", **scene.view.filters)
    gpus = queries.ask("gpus_now", **scene.view.filters)
    if gpus.empty or now.empty or text.missing(now.iloc[0]["gpus"]):
        st.header(NOTHING, anchor=False)
        return
    row: ClusterNowRecord = records(now)[0]
    st.header(wording.held_now(row, datetime.now(UTC)), anchor=False)
    state_keys(scene.colours)
    st.html(tiles_html(rows(gpus.sort_values(["node", "gpu_index"])), scene.colours))


def findings(scene: PageContext) -> None:
    """How many of each kind are open, and the largest of them."""
    frame = queries.ask("findings", open=True, **scene.asked_until_now)
    if frame.empty:
        st.header(freshness.calm(), anchor=False)
        return
    waste = queries.ask_if_kept("waste", **scene.asked_until_now)
    groups = messages(frame)
    st.header(findings_sentence(len(groups), waste, open_only=True), anchor=False)
    counts = pd.Series([part[0].kind for group in groups for part in parts(group)]).value_counts()
    st.html(figures_html(kind_figures([(kind_label(str(kind)), int(n)) for kind, n in counts.items()])))
    lines = [_finding_line(scene, group) for group in groups[:MOST_LINES]]
    titles = ("GPU", "What", "Project", "Found", "Wasted")
    st.html(lines_html(lines, titles, frozenset({4})))


def projects(scene: PageContext) -> None:
    """Projects by the GPU-hours they wasted, of what they held."""
    frame = named(queries.ask("projects", **scene.asked), "projects")
    gpu_hours, used = frame["gpu_hours"].sum(), frame["used_gpu_hours"].sum()
    if frame.empty or not gpu_hours:
        st.header("No project held a GPU in this time", anchor=False)
        return
    bound = frame["bound_used_gpu_hours"].sum() if "bound_used_gpu_hours" in frame else None
    most = "at most " if wording.is_bound(bound) else ""
    many = "1 project" if len(frame) == 1 else f"{len(frame)} projects"
    st.header(
        f"{many} held {text.gpu_hours(gpu_hours)} and used {most}{text.percent(used / gpu_hours)} of them",
        anchor=False,
    )
    named_parts = zip(part_colours(scene.colours), PARTS, strict=True)
    keys([(swatch(colour), part, None) for colour, part in named_parts])
    wasted = most_wasted(frame, top=MOST_BARS)
    if wasted.empty:
        st.html('<p class="wall-said">Nobody wasted anything.</p>')
        return
    by = min(LARGEST, max(LARGER, BARS_PX / (BAR_PX * len(wasted))))
    height = round(min(BARS_PX, BAR_PX * by * len(wasted)))
    _chart(
        waste_bars(wasted, scene.colours), "Projects by wasted GPU-hours, most first", by=by, height=height
    )


def queue(scene: PageContext) -> None:
    """What waits, and for what."""
    waiting, leases = queued(), lent()
    if waiting.empty:
        st.header("Nothing waits in the queue", anchor=False)
    else:
        many = "1 job waits" if len(waiting) == 1 else f"{text.count(len(waiting))} jobs wait"
        gpus = waiting["gpus"].astype(float).sum()
        st.header(f"{many} for {text.some_gpus(gpus)}", anchor=False)
    st.html(figures_html(_queue_figures(waiting, leases)))
    if waiting.empty:
        st.html(
            '<p class="wall-said">A job that is submitted with fallow run and finds no room waits here.</p>'
        )
        return
    lines = [_queue_line(scene, row) for row in rows(waiting.head(MOST_LINES))]
    titles = ("Place", "Job", "Project", "GPUs", "Waits for", "Promised start")
    st.html(lines_html(lines, titles, frozenset({0, 3})))


DRAWN: Mapping[str, Callable[[PageContext], None]] = {
    "overview": overview,
    "cluster": cluster,
    "findings": findings,
    "projects": projects,
    "queue": queue,
}
"""Who draws which panel."""


def _head_figures(head: Headline) -> list[tuple[str, str]]:
    items = [
        ("Used, of measured", text.percent(head.utilization_ratio)),
        ("Allocated, of known", text.percent(head.allocated_ratio)),
        ("Lay fallow", text.gpu_hours(head.fallow_gpu_hours)),
        ("Wasted outright", text.gpu_hours(head.wasted_gpu_hours)),
    ]
    if head.wasted_cost is not None:
        items.append(("Cost of the waste", text.money(head.wasted_cost, head.currency)))
    elif head.energy.kwh:  # there is room for five
        items.append(
            (wording.measured_part("Energy wasted", head.wasted_energy), text.energy(head.wasted_energy.kwh))
        )
    return items


def _finding_line(scene: PageContext, group: "Sequence[FindingsTuple]") -> tuple[str, ...]:
    row, more = group[0], len({each.uuid for each in group}) - 1
    return (
        wording.short_gpu(row.node, row.gpu_place, row.uuid) + (f" and {more} more" if more else ""),
        labels(group),
        text.NOTHING if text.missing(row.project) else str(row.project),
        scene.when(min(each.opened_at for each in group)),
        text.gpu_hours(wasted_by(group)),
    )


def _queue_figures(waiting: pd.DataFrame, leases: pd.DataFrame) -> list[tuple[str, str]]:
    items = [
        ("Waiting", text.count(len(waiting))),
        ("GPUs lent now", text.gpus(leases["share"].astype(float).sum())),
        ("Jobs that hold them", text.count(leases["job"].nunique())),
    ]
    if not waiting.empty:
        longest = pd.Timestamp(datetime.now(UTC)) - waiting["since"].min()
        items.append(("Longest wait", text.length(longest.total_seconds())))
    return items


class _Waiting(Protocol):
    place: int
    job: str
    name: str
    project: str | None
    gpus: float
    waits_for: str
    promised: pd.Timestamp | None


def _queue_line(scene: PageContext, row: "_Waiting") -> tuple[str, ...]:
    return (
        text.count(row.place),
        str(row.name or row.job),
        str(row.project or text.NOTHING),
        text.gpus(float(row.gpus)),
        str(row.waits_for or text.NOTHING),
        scene.when(row.promised),
    )


def _chart(drawn: Drawing, title: str, *, by: float, height: int) -> None:
    spec = enlarged(drawn.to_dict(validate=False), by, height=height)
    with st.container(key="wall-chart"):
        st.vega_lite_chart(spec, theme=None, width="stretch", alt=title)
