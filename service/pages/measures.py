"""Which measures share a lane, what they are called, and how they are written. Pure; for all pages."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from service.pages import wording
from service.pages.chart_lanes import Lane, Trace

RUNGS = {
    0: "no measure",
    1: "GPU utilization, an upper bound",
    2: "graphics engine active",
    3: "SM active",
}
"""The words for ``rung``."""


def percent_of(value: float | None) -> str:
    """A ratio for a lane's tooltip."""
    return wording.percent(value)


def celsius(value: float | None) -> str:
    """A temperature."""
    return wording.DASH if wording.missing(value) else f"{wording.count(value)}{wording.THIN}°C"


def megahertz(value: float | None) -> str:
    """A clock."""
    return wording.DASH if wording.missing(value) else f"{wording.count(value)}{wording.THIN}MHz"


def lanes_of(memory_total_bytes: float | None = None) -> tuple[Lane, ...]:
    """Every lane of a GPU's timeline, most telling first; memory's top is the card's total where known."""
    ratio = percent_of
    return (
        Lane(
            title="Utilization",
            traces=(
                Trace(column="utilization_ratio", label="best measure"),
                Trace(column="gpu_utilization_ratio", label="any kernel ran"),
            ),
            write=ratio,
            full=1.0,
        ),
        Lane(
            title="SMs",
            traces=(
                Trace(column="sm_active_ratio", label="SM active"),
                Trace(column="sm_occupancy_ratio", label="occupancy"),
                Trace(column="tensor_active_ratio", label="tensor active"),
            ),
            write=ratio,
            full=1.0,
        ),
        Lane(
            title="Memory used",
            traces=(Trace(column="memory_used_bytes", label="memory used"),),
            write=wording.gibibytes,
            full=memory_total_bytes,
        ),
        Lane(
            title="Memory traffic",
            traces=(
                Trace(column="dram_active_ratio", label="DRAM active"),
                Trace(column="memory_controller_ratio", label="memory controller"),
            ),
            write=ratio,
            full=1.0,
        ),
        Lane(title="Power", traces=(Trace(column="power_w", label="power"),), write=wording.watts),
        Lane(
            title="Temperature", traces=(Trace(column="temperature_c", label="temperature"),), write=celsius
        ),
        Lane(
            title="Clocks",
            traces=(
                Trace(column="sm_clock_mhz", label="SM clock"),
                Trace(column="memory_clock_mhz", label="memory clock"),
            ),
            write=megahertz,
        ),
        Lane(
            title="Video",
            traces=(
                Trace(column="encoder_ratio", label="encoder"),
                Trace(column="decoder_ratio", label="decoder"),
            ),
            write=ratio,
            full=1.0,
            rare=True,
        ),
        Lane(
            title="Processes", traces=(Trace(column="process_count", label="processes"),), write=wording.count
        ),
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
