"""How much of the SMs' time each process had, from the driver's samples. Pure; runs in the child.

There can be several samples for one pid, and samples of processes that have ended: which of them are believed
is decided in ``process_list``.
"""

from collections.abc import Iterable, Sequence

Use = tuple[int, int, int]
"""pid, timestamp in us, SM percent."""


def shares(uses: Iterable[Use], after_us: int) -> list[tuple[int, float]]:
    """(pid, SM percent): the mean over time of the samples, all of them newer than ``after_us``.

    A pid without a sample is missing from the result: not measured.
    """
    series: dict[int, list[tuple[int, int]]] = {}
    for pid, stamp, percent in uses:
        series.setdefault(pid, []).append((stamp, percent))
    return [(pid, mean_over_time(points, after_us)) for pid, points in series.items()]


def mean_over_time(points: Sequence[tuple[int, int]], after_us: int) -> float:
    """Each (timestamp, value) stands for the time since the one before it, the first since ``after_us``."""
    if len(points) == 1:
        return points[0][1]
    weighted, before = 0, after_us
    for stamp, value in sorted(points):
        weighted += value * (stamp - before)
        before = stamp
    return weighted / (before - after_us)
