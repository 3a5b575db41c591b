"""Every number that a judgement turns on, with its default, its bounds and where it comes from. Pure.

The configuration overrides them field by field; the bounds are in each field's metadata (``low``, ``high``).
"""

from dataclasses import dataclass, field, fields
from typing import Any


def bounded(default: Any, low: float, high: float) -> Any:
    """A field whose value lies in ``[low, high]``."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The defaults are the project's policy; raises ValueError outside the bounds.

    ============================= ==========================================================================
    coverage_ratio, stale_ticks   under this cover, or with a newest sample older than this, nothing is said;
                                  dstack does nothing on a partial window either
    idle_ratio                    a bin at most this busy on every rung is idle (gpu-pruner gave up ``== 0``)
    idle_bins_ratio               so many valid bins must be idle, so that one blip doesn't reset the clock
    idle_window_s, empty_window_s how long idle, or without a process, before it is told
    grace_s                       nobody is judged this soon after a job or its process began
    start_limit_s                 a batch job that never computed is starting up this long; 110 GB downloads
                                  were seen (codalab #3979)
    low_ratio, low_active_s,      Job Defense Shield's rule: under a quarter over this much active time, of a
    low_run_s                     job that has run for over an hour
    low_lookback_s, low_recent_s  where that active time is looked for, and how fresh its end must be
    hog_*                         memory that is taken and hardly touched
    signature_*                   TensorFlow takes the whole GPU at its first use and keeps it
    suspect_ratio, suspect_power  at least this busy by the driver's count with no process, or at idle power
                                  (Blackwell latches 100% while idle)
    fault_window_s                how long counters must contradict, or memory be left behind
    intruder_s                    how long a process must be on a GPU that others were given
    silent_s                      how long one GPU must be silent while its neighbours answer
    ============================= ==========================================================================
    """

    coverage_ratio: float = bounded(0.95, 0.5, 1.0)
    stale_ticks: float = bounded(2.0, 1.0, 20.0)
    idle_ratio: float = bounded(0.01, 0.0, 0.1)
    idle_bins_ratio: float = bounded(0.95, 0.5, 1.0)
    idle_window_s: int = bounded(3600, 300, 7200)
    empty_window_s: int = bounded(1800, 300, 7200)
    grace_s: int = bounded(1800, 0, 86_400)
    start_limit_s: int = bounded(7200, 0, 604_800)
    low_ratio: float = bounded(0.25, 0.01, 0.9)
    low_active_s: int = bounded(1800, 300, 7200)
    low_run_s: int = bounded(3660, 0, 86_400)
    low_lookback_s: int = bounded(7200, 1800, 7200)
    low_recent_s: int = bounded(600, 60, 7200)
    hog_memory_ratio: float = bounded(0.8, 0.1, 1.0)
    hog_utilization_ratio: float = bounded(0.25, 0.01, 1.0)
    hog_controller_ratio: float = bounded(0.1, 0.01, 1.0)
    hog_window_s: int = bounded(1800, 300, 7200)
    signature_memory_ratio: float = bounded(0.9, 0.1, 1.0)
    signature_rise_s: int = bounded(10, 1, 600)
    signature_flat_ratio: float = bounded(0.01, 0.0, 0.2)
    suspect_ratio: float = bounded(0.9, 0.5, 1.0)
    suspect_power: float = bounded(1.1, 1.0, 2.0)
    fault_window_s: int = bounded(600, 60, 7200)
    intruder_s: int = bounded(300, 60, 7200)
    silent_s: int = bounded(120, 20, 7200)
    pattern_window_s: int = bounded(86_400, 3600, 604_800)
    burst_minutes: int = bounded(30, 1, 240)
    gap_minutes: int = bounded(60, 10, 1440)
    saturated_ratio: float = bounded(0.5, 0.1, 1.0)
    steady_active_ratio: float = bounded(0.8, 0.1, 1.0)

    def __post_init__(self) -> None:
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ValueError(f"threshold {item.name} must lie in [{low}, {high}]; got {value}")
