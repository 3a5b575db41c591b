"""A step of a job that announces idle gaps: it computes, waits, and waits while others compute. Pure.

Lengths are what was measured: of a step alone by the job itself, of what is filled by the background job's
own count. When in a step a gap comes is not told, so each lane has its parts in this order.
"""

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState
from service.charts.frame import Layered, styled, unchecked
from service.charts.theme import Theme
from service.schemas.records import IdleGapCounts

COMPUTES, FILLED, WAITS = "computes", "waits, and a background job computes", "waits"
PARTS = (COMPUTES, FILLED, WAITS)
LANE_PX = 34
STILL_MS = 60_000
"""A stay that was counted so lately still lasts: it is written every 15 s (``background_jobs``)."""


def step_lanes(
    gaps: Sequence[IdleGapCounts], harvests: Iterable[Mapping[str, object]], now_ms: float
) -> pd.DataFrame:
    """A row for each part of a step on each GPU: ``lane, part, low, high`` (milliseconds of a step alone).

    ``harvests`` are rows of that query in which the job is the foreground, the latest first. Filled is what a
    stay fills that still lasts, on average since it began. GPUs whose step was not measured have no lane.
    """
    latest: dict[object, float] = {}
    for row in harvests:
        filled_s, steps = text.known(row["harvested_gpu_s"]), _steps_of(row, gaps)
        is_there = (text.known(row["to_ms"]) or 0.0) >= now_ms - STILL_MS
        if is_there and row["gpu_uuid"] not in latest and filled_s is not None and steps:
            latest[row["gpu_uuid"]] = filled_s / steps
    parts = []
    for at, each in enumerate(gaps, 1):
        if each.alone_s is None or each.gaps_s is None:
            continue
        waits = min(each.gaps_s, each.alone_s)
        filled = min(waits, latest.get(each.gpu, 0.0))
        edges = [0.0, each.alone_s - waits, each.alone_s - waits + filled, each.alone_s]
        lane = "its GPU" if len(gaps) == 1 else f"its GPU {at}"
        parts += [
            {"lane": lane, "part": part, "low": low * 1000, "high": high * 1000}
            for part, low, high in zip(PARTS, edges, edges[1:], strict=False)
            if high > low
        ]
    return pd.DataFrame(parts, columns=["lane", "part", "low", "high"])


def part_colours(colours: Theme) -> dict[str, str]:
    """A colour for each of ``PARTS``."""
    return {
        COMPUTES: colours.states[GpuState.GOOD],
        FILLED: colours.states[GpuState.LOW_SATURATION],
        WAITS: colours.states[GpuState.HELD_IDLE],
    }


@unchecked
def lanes_chart(lanes: pd.DataFrame, colours: Theme) -> Layered:
    """A lane a GPU over one step, in milliseconds."""
    frame = lanes.assign(
        fill=[part_colours(colours)[part] for part in lanes["part"]],
        lasts=[f"{high - low:.1f} ms" for low, high in zip(lanes["low"], lanes["high"], strict=True)],
    )
    bars = (
        alt.Chart(frame)
        .mark_bar(height=20)
        .encode(
            x=alt.X("low:Q", axis=alt.Axis(title="ms of one step", grid=False, tickCount=8)),
            x2="high:Q",
            y=alt.Y("lane:N", axis=alt.Axis(title=None, labelLimit=160)),
            color=alt.Color("fill:N", scale=None),
            tooltip=[alt.Tooltip("part:N", title="The GPU"), alt.Tooltip("lasts:N", title="For")],
        )
    )
    return styled(alt.layer(bars), colours, height=LANE_PX * lanes["lane"].nunique() + 40)


def _steps_of(row: Mapping[str, object], gaps: Sequence[IdleGapCounts]) -> float | None:
    """Steps that the foreground made during a stay: its length by that of a step beside the other."""
    alone_s = next((each.alone_s for each in gaps if each.gpu == row["gpu_uuid"]), None)
    ratio = text.known(row["slowdown_ratio"])
    began, ended = text.known(row["from_ms"]), text.known(row["to_ms"])
    if not alone_s or not ratio or began is None or ended is None:
        return None
    return max(0.0, ended - began) / 1000 / (alone_s * ratio)
