"""The scale of ``…_GPU_UTIL_RATIO`` through time: ``vocabulary.utilization_scale`` for columns of scrapes.

An exporter may be upgraded in the middle of a month, so each scrape of each target is judged by itself. Pure.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from collector.dcgm.vocabulary import Dialect, Unit, measure_of
from collector.sources.prometheus.server import Series

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]


def scales(target: Iterable[Series]) -> tuple[Times, Values]:
    """Of one target's series: the times of undecided values, and the factor at each (NaN: cannot tell)."""
    undecided: list[Series] = []
    company: dict[Dialect, list[Times]] = {dialect: [] for dialect in Dialect}
    for series in target:
        measure = measure_of(series.name)
        if measure is not None and measure.unit is Unit.UNDECIDED:
            undecided.append(series)
        elif measure is not None:
            company[measure.unit.dialect].append(series.at_ms)
    if not undecided:
        return np.empty(0, np.int64), np.empty(0)
    at = np.unique(np.concatenate([series.at_ms for series in undecided]))
    above = _anywhere(at, undecided, lambda v: v > 1)
    fraction = _anywhere(at, undecided, lambda v: (v > 0) & (v < 1))
    one = _anywhere(at, undecided, lambda v: v == 1)
    base, classic = (_present(at, company[each]) for each in (Dialect.BASE_UNITS, Dialect.CLASSIC))
    verdicts = [above, base | fraction, classic, one]
    return at, np.select(verdicts, [0.01, 1.0, 0.01, np.nan], 1.0)


def _anywhere(at: Times, many: Iterable[Series], test: Callable[[Values], Truths]) -> Truths:
    mask = np.zeros(len(at), bool)
    for series in many:
        mask[np.searchsorted(at, series.at_ms[test(series.values)])] = True
    return mask


def _present(at: Times, times: list[Times]) -> Truths:
    return np.isin(at, np.concatenate(times)) if times else np.zeros(len(at), bool)
