"""Which measures share a lane, what they are called, and how they are written. Pure; for all pages."""

from collections.abc import Callable, Sequence
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
    return (
        _ratios("Utilization", utilization_ratio="best measure", gpu_utilization_ratio="any kernel ran"),
        _ratios(
            "SMs",
            sm_active_ratio="SM active",
            sm_occupancy_ratio="occupancy",
            tensor_active_ratio="tensor active",
        ),
        _lane("Memory used", wording.gibibytes, memory_total_bytes, memory_used_bytes="memory used"),
        _ratios(
            "Memory traffic", dram_active_ratio="DRAM active", memory_controller_ratio="memory controller"
        ),
        _lane("Power", wording.watts, power_w="power"),
        _lane("Temperature", celsius, temperature_c="temperature"),
        _lane("Clocks", megahertz, sm_clock_mhz="SM clock", memory_clock_mhz="memory clock"),
        replace(_ratios("Video", encoder_ratio="encoder", decoder_ratio="decoder"), rare=True),
        _lane("Processes", wording.count, process_count="processes"),
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


def _ratios(title: str, **labels: str) -> Lane:
    return _lane(title, percent_of, 1.0, **labels)


def _lane(title: str, write: Callable[[float | None], str], full: float | None = None, **labels: str) -> Lane:
    traces = tuple(Trace(column=column, label=label) for column, label in labels.items())
    return Lane(title=title, traces=traces, write=write, full=full)
