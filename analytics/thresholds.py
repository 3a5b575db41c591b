"""Every number that a judgement turns on, with its default, its bounds and where it comes from. Pure.

The configuration overrides them field by field; each field's
metadata has its bounds (``low``, ``high``) and the sentence that the reference prints of it (``about``).
"""

from dataclasses import dataclass, field, fields
from typing import Any

IDLE_RATIO = 0.01
"""A bin at most this busy, on every rung and engine there is, does nothing."""
LOW_RATIO = 0.25
"""Who works and fills less than this is at low saturation: Job Defense Shield's rule."""
SATURATED_RATIO = 0.5
"""Who works and fills at least this much uses the GPU well (state *good*); between both lies *moderate*."""
SUSPECT_RATIO = 0.9
"""Utilization from here on, with no process or at idle power, is not believed: Blackwell latches 100%."""
SUSPECT_POWER = 1.1
"""Idle power, times this, still is idle power."""
STILL_RATIO = 0.0001
"""SMs less active than this were not active. One warp all the time on one SM of the 192 that the largest die
has (NVIDIA's GB202) shows as 0.5%: beside kernels that run nine tenths of the time the counter is broken."""
WORKING_POWER = 2.0
"""Nor is a board idle that draws so many times its own idle power, and so much of its limit as below. Idle
with a context, at full clocks: an H100 115 W of 700 (70 without one), an A100 85 of 400, an RTX 4090 60 of
450 (data sheets and listings of nvidia-smi in public issues, as in ``bench/habit_player/model.py``)."""
WORKING_POWER_OF_LIMIT = 0.4
"""The part of its power limit from which on a board is not idle."""
WORKING_POWER_LEAST_MW = 150_000
"""Small boards come near 40% of their limit idle at full clocks (an L4 28 W of 72, a T4 26 of 70), and so do
large ones whose limit was lowered: under this power nothing is concluded from that part of it."""
WORKING_POWER_NEAR_LIMIT = 0.75
"""From this part of its limit on no board is idle, however small. In listings of nvidia-smi in public
repositories idle boards at full clocks, with memory taken, draw at most 44% of it: a T4 26 to 31 W of 70, an
A10 42 to 64 of 150 (64 of 100 at its lowest limit), an L4 28 of 72, an A2 20 of 60, a P4 23 of 75, an RTX
A4000 38 of 140 (docs/decisions/0144). Where twice its idle power is more, this part of the way from its idle
power to its limit, beyond ``SUSPECT_POWER``: a hot T4 that idles at 36 W works at 68 of 70."""
WORKING_POWER_UNLIMITED_MW = 300_000
"""From here on where the limit is not known: a B200, whose limit is 1000 W, draws 190 W idle at most."""
SHARED_RESERVE_BYTES = 2 << 30
"""Left free on a GPU that several jobs share: CUDA contexts are in nobody's cap (policy: 2 GiB)."""
LEAST_SAVING = 0.25
"""A smaller saving is not worth a person's time to change a script."""
EXACT = 1 - 1e-6
"""Bins are read as 32-bit floats, in which 0.9 is a little less and 0.6 a little more, and so is a mean of
many: who is at a bound is told what is said of it, as in the ledger."""
# These say what the state of a bin is. The store decides by the same numbers when it rolls up samples
# (``gpu_state_of`` in its schema; ``tests/analytics/test_state_bounds.py`` holds both together), so they are
# no settings: findings, patterns, ledger, heat map and reports would part (docs/decisions/0067).
FORMER_SETTINGS = {
    "idle_ratio": IDLE_RATIO,
    "low_ratio": LOW_RATIO,
    "saturated_ratio": SATURATED_RATIO,
    "suspect_ratio": SUSPECT_RATIO,
    "suspect_power": SUSPECT_POWER,
}
"""What a file of an older version may still set; read, and without effect."""


def at_least(value: float, bound: float) -> bool:
    """Whether a measured level is at or above a bound, as a person reads both."""
    return value >= bound * EXACT


def at_most(value: float, bound: float) -> bool:
    """Whether it is at or below one."""
    return value * EXACT <= bound


def bounded(default: Any, low: float, high: float, about: str = "") -> Any:
    """A field whose value lies in ``[low, high]``, and what it is for, in Markdown."""
    return field(default=default, metadata={"low": low, "high": high, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When something is called waste.

    The defaults are the project's policy; [findings](findings.md) says how they are used.
    """

    # Where they come from: dstack does nothing on a partial window either; gpu-pruner gave up `== 0` for
    # idle; 110 GB downloads were seen before a job's first step (codalab #3979); low saturation is Job
    # Defense Shield's rule; TensorFlow takes the whole GPU at its first use and keeps it; Blackwell latches
    # 100% of utilization while idle.

    coverage_ratio: float = bounded(0.95, 0.5, 1.0, "with less of the window measured, the answer is unknown")
    stale_ticks: float = bounded(
        2.0, 1.0, 20.0, "with a newest sample older than so many ticks, the answer is unknown"
    )
    idle_bins_ratio: float = bounded(
        0.95, 0.5, 1.0, "so many of the valid bins must show a fault of the machine (idleness needs them all)"
    )
    idle_window_s: int = bounded(3600, 300, 7200, "how long a holder's GPU is idle before it is told")
    idle_longest_s: int = bounded(
        21_600, 300, 86_400, "at most so long where a batch job's or server's own silences are longer"
    )
    empty_window_s: int = bounded(1800, 300, 7200, "how long a held GPU has no process before it is told")
    grace_s: int = bounded(1800, 0, 86_400, "nobody is judged this soon after a job or its process began")
    start_limit_s: int = bounded(
        7200, 0, 604_800, "how long a job that never computed counts as starting up, a terminal too"
    )
    forgive_s: int = bounded(
        21_600, 0, 604_800, "how long a batch job that has not computed is excused, whatever it may be doing"
    )
    rare_ratio: float = bounded(
        0.1, 0.001, 0.5, "rarely used: busy in at most this part of the last 24 hours, or of its hold"
    )
    low_active_s: int = bounded(1800, 300, 7200, "over so much active time")
    low_run_s: int = bounded(3660, 0, 86_400, "of a job that has run so long")
    low_lookback_s: int = bounded(7200, 1800, 7200, "where that active time is looked for")
    low_recent_s: int = bounded(600, 60, 7200, "and how fresh its end must be")
    hog_memory_ratio: float = bounded(0.8, 0.1, 1.0, "suspected hog: memory taken, at least")
    hog_utilization_ratio: float = bounded(0.25, 0.01, 1.0, "suspected hog: utilization, under")
    hog_controller_ratio: float = bounded(
        0.1, 0.01, 1.0, "suspected hog: 95th percentile of the memory controller, under"
    )
    hog_window_s: int = bounded(1800, 300, 7200, "suspected hog: for so long")
    signature_memory_ratio: float = bounded(
        0.9, 0.1, 1.0, "memory taken at first use, at least (TensorFlow's way)"
    )
    signature_rise_s: int = bounded(10, 1, 600, "within so long")
    signature_flat_ratio: float = bounded(0.01, 0.0, 0.2, "and changing by no more than this afterwards")
    straggler_window_s: int = bounded(
        3600, 600, 7200, "how long one GPU of a job must be unlike the others before it is a straggler"
    )
    straggler_ratio: float = bounded(
        0.6, 0.1, 0.9, "straggler: what is busy less is so at most this much of what is busy more"
    )
    fault_window_s: int = bounded(
        600, 60, 7200, "how long counters contradict, or memory is left behind, before it is told"
    )
    intruder_s: int = bounded(
        300, 60, 7200, "how long a process is on a GPU that others were given, before it is told"
    )
    silent_s: int = bounded(
        120, 20, 7200, "how long one GPU is silent, while its neighbours answer, before it is told"
    )
    pattern_window_s: int = bounded(86_400, 3600, 604_800, "over how long a holder's pattern is looked at")
    burst_minutes: int = bounded(30, 1, 240, "activity shorter than this is a burst")
    gap_minutes: int = bounded(60, 10, 1440, "inactivity longer than this is a gap between runs")
    steady_active_ratio: float = bounded(0.8, 0.1, 1.0, "active for at least this part of the time is steady")

    def __post_init__(self) -> None:
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ValueError(f"threshold {item.name} must lie in [{low}, {high}]; got {value}")
