"""The chart page of a simulation: allocation and utilization over time, a policy a row, in one HTML file.

The page stands on its own: the drawing library (Vega, through Altair and vl-convert) is inside it, so it
opens without a network. Points are thinned to steps of equal length that hold the mean of the time in them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from service.errors import FallowError

if TYPE_CHECKING:
    from advisor.sim.cluster import Cluster
    from advisor.sim.compare import Comparison
    from advisor.sim.run import Point

STEPS = 400
HOUR_S = 3600.0
HEIGHT, WIDTH = 110, 900
HEADROOM = 1.25
"""Charts end a quarter above the cluster's GPUs; a longer queue is cut off there."""
ALLOCATED, USED, WAITING = "allocated", "used", "asked for and waiting"
COLOURS = {ALLOCATED: "#4c78a8", USED: "#54a24b", WAITING: "#e45756"}


class CannotDraw(FallowError):
    """The page cannot be drawn on this machine."""


def page(comparison: "Comparison", cluster: "Cluster") -> str:
    """The whole HTML page. Raises CannotDraw where vl-convert is not installed."""
    import altair as alt

    measured = any(score.utilization_ratio is not None for score in comparison.scores.values())
    end_s = max(run.points[-1].at_s for run in comparison.runs.values())
    rows = [
        row
        for name, run in comparison.runs.items()
        for row in _rows(name, run.points, end_s, measured=measured)
    ]
    shown = (ALLOCATED, *((USED,) if measured else ()), WAITING)
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("hour:Q", title="hours since the first submission"),
        y=alt.Y("gpus:Q", title="GPUs", scale=alt.Scale(domain=[0, HEADROOM * cluster.gpus])),
        color=alt.Color(
            "what:N",
            title=None,
            scale=alt.Scale(domain=list(shown), range=[COLOURS[each] for each in shown]),
        ),
        tooltip=[
            "policy:N",
            "what:N",
            alt.Tooltip("hour:Q", format=",.1f"),
            alt.Tooltip("gpus:Q", format=",.0f"),
        ],
    )
    chart = (
        base.mark_line(interpolate="step-after", strokeWidth=1.5, clip=True)
        .properties(width=WIDTH, height=HEIGHT)
        .facet(row=alt.Row("policy:N", title=None, sort=list(comparison.runs)))
        .properties(
            title=alt.TitleParams(
                f"{escape(comparison.workload.origin)} on {cluster.nodes} nodes of "
                f"{cluster.gpus_per_node} GPUs",
                subtitle=_subtitle(measured),
            )
        )
    )
    try:
        return str(chart.to_html(inline=True, fullhtml=True))
    except (ImportError, ValueError) as error:
        raise CannotDraw(
            f"drawing the chart page needs vl-convert: pip install vl-convert-python ({error})"
        ) from error


def thinned(points: "Sequence[Point]", end_s: float, steps: int) -> list[tuple[float, float, float, float]]:
    """(second, held, used, waiting GPUs): means over ``steps`` equal spans up to ``end_s``. Pure."""
    edges = [end_s * at / steps for at in range(steps + 1)]
    sums = [[0.0, 0.0, 0.0] for _ in range(steps)]
    for at, point in enumerate(points):
        until = points[at + 1].at_s if at + 1 < len(points) else end_s
        first = min(max(bisect_right(edges, point.at_s) - 1, 0), steps - 1)
        for step in range(first, steps):
            length = min(until, edges[step + 1]) - max(point.at_s, edges[step])
            if length <= 0:
                break
            for which, value in enumerate((point.held_gpus, point.used_gpus, point.waiting_gpus)):
                sums[step][which] += value * length
    width = end_s / steps
    return [(edges[at], *(value / width for value in sums[at])) for at in range(steps)]  # type: ignore[misc]


def _rows(
    name: str, points: "Sequence[Point]", end_s: float, *, measured: bool
) -> list[dict[str, str | float]]:
    rows: list[dict[str, str | float]] = []
    for second, allocated, used, waiting in thinned(points, end_s, STEPS):
        for what, gpus in ((ALLOCATED, allocated), (USED, used), (WAITING, waiting)):
            if what != USED or measured:
                rows.append(
                    {"policy": name, "hour": round(second / HOUR_S, 4), "what": what, "gpus": round(gpus, 2)}
                )
    return rows


def _subtitle(measured: bool) -> str:
    cut = "a queue longer than the chart is cut off at its top"
    if measured:
        return f"used: GPUs counted by what they get done, against a job's smallest world; {cut}"
    return f"what the jobs did on their GPUs is not in the trace, so their use is not shown; {cut}"
