"""What a reading costs the collector, and which of the driver's calls it is."""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collector.model import NodeName
from collector.reading import Reading
from collector.sources.nvml.devices import Fleet
from collector.sources.nvml.library import Library
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, told

READINGS = 5 if place.dry else 40
APART_S = 0.12
"""GPM gives nothing for a window under 0.1 s: readings that follow at once would leave its cost out."""
DEAREST = 12


def main() -> dict[str, Any]:
    """Readings without and with the process lists, then each call of one."""
    figures: list[Figure] = []
    for title, every in (("without process lists", 1 << 30), ("with process lists", 1)):
        took, cpu_ms = _readings(every)
        figures += [
            told(f"a reading {title}, median", statistics.median(took), "ms"),
            told(f"a reading {title}, the longest", max(took), "ms"),
            told(f"a reading {title}, processor time of the child", cpu_ms, "ms"),
        ]
    figures.append(at_most("a reading with process lists", statistics.median(took), 50.0, "ms"))
    return {"figures": figures + _calls()}


def _readings(processes_every: int) -> tuple[list[float], float]:
    """Milliseconds of each, and the child's processor time for one."""
    options = NvmlOptions(tick_ms=round(APART_S * 1000), processes_every=processes_every, timeout_s=30)
    source = NvmlSource(node=NodeName("here"), options=options)
    took, before_ms = [], 0.0
    try:
        for at in range(READINGS + 2):
            outcome = source.read(time.time_ns() // 1_000_000)
            assert isinstance(outcome, Reading), outcome
            took.append(outcome.duration_ms)
            if at == 1:
                before_ms = _cpu_ms(source.child_pid)
            time.sleep(APART_S)
        spent_ms = _cpu_ms(source.child_pid) - before_ms
    finally:
        source.close()
    return took[2:], spent_ms / READINGS


def _cpu_ms(pid: int | None) -> float:
    """User and system time of a process so far (proc(5): fields 14 and 15 of stat, in ticks)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) * 1000 / os.sysconf("SC_CLK_TCK")


class _Timed(Library):
    """Notes how long each function took."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = defaultdict(list)
        super().__init__()

    def call(self, name: str) -> Callable[..., int]:
        function, into = super().call(name), self.took[name]

        def timed(*arguments: Any) -> int:
            begun_s = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                into.append((time.perf_counter() - begun_s) * 1000)

        return timed


def _calls() -> list[Figure]:
    """Milliseconds in each function for one reading, the dearest first."""
    library = _Timed()
    fleet = Fleet(library, lambda index: None, ())
    fleet.rescan(thorough=True)
    totals = []
    for _ in range(READINGS):
        for took in library.took.values():
            took.clear()
        begun_s = time.perf_counter()
        for whole in fleet.wholes.values():
            whole.device.read(time.time_ns() // 1000, round(APART_S * 1e6), processes=True)
        whole_ms = (time.perf_counter() - begun_s) * 1000
        totals.append({"all of it": whole_ms, **{name: sum(took) for name, took in library.took.items()}})
        time.sleep(APART_S)
    names = {name for total in totals for name in total}
    medians = {name: statistics.median(total.get(name, 0.0) for total in totals[1:]) for name in names}
    dearest = sorted(medians.items(), key=lambda each: -each[1])[:DEAREST]
    return [told(f"a reading: {name}, median", took, "ms") for name, took in dearest if took]
