"""What a reading costs the collector, and each of the driver's calls."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from collector.model import NodeName
from collector.reading import Reading
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, told

READINGS = 20 if place.dry else 200


def main() -> dict[str, Any]:
    """Readings without and with the process lists, then the calls one by one."""
    without = _milliseconds(1 << 30)
    with_lists = _milliseconds(1)
    figures = [
        told("a reading without process lists, median", statistics.median(without), "ms"),
        told("a reading without process lists, worst of 100", _worst(without), "ms"),
        told("a reading with process lists, median", statistics.median(with_lists), "ms"),
        told("a reading with process lists, worst of 100", _worst(with_lists), "ms"),
        at_most("what lists and GPM add to a tick", statistics.median(with_lists), 50.0, "ms"),
    ]
    return {"figures": figures + _calls()}


def _milliseconds(processes_every: int) -> list[float]:
    options = NvmlOptions(tick_ms=100, processes_every=processes_every, timeout_s=30)
    source = NvmlSource(node=NodeName("here"), options=options)
    took = []
    try:
        for _ in range(READINGS + 1):
            outcome = source.read(time.time_ns() // 1_000_000)
            assert isinstance(outcome, Reading), outcome
            took.append(outcome.duration_ms)
    finally:
        source.close()
    return took[1:]


def _worst(took: list[float]) -> float:
    """The 99th of 100."""
    return sorted(took)[round(0.99 * (len(took) - 1))]


def _calls() -> list[Figure]:
    import pynvml

    handle = place.nvml_handle()
    calls: dict[str, Callable[[], object]] = {
        "memory": lambda: pynvml.nvmlDeviceGetMemoryInfo(handle),
        "compute processes": lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle),
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
    }
    figures = []
    for name, call in calls.items():
        try:
            took = [_one(call) for _ in range(READINGS // 4)]
        except pynvml.NVMLError as error:
            figures.append(told(f"NVML's {name}", f"refused: {error}"))
            continue
        figures.append(told(f"NVML's {name}, median", statistics.median(took), "ms"))
    return figures


def _one(call: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    call()
    return (time.perf_counter() - begun_s) * 1000
