"""Rows of one GPU's holders that were read one after another, within one interval: one instant. Pure.

A loop in each pod, or exporters that are scraped in turn, tell of holders of one GPU a second or more apart.
Read as they stand, such rows would be turns: each would have the GPU alone, for a part of the time.
"""

import numpy as np
import numpy.typing as npt

HOLE_WIDTHS = 2.5
"""Rows of a GPU, or of its holder, farther apart than this many intervals have a gap between them."""

Places = npt.NDArray[np.int64]


def of_one_instant(codes: Places, jobs: Places, at_ms: Places, width_ms: int | None) -> Places:
    """``at_ms`` with the rows of one instant at its newest row's time; ``codes`` are the GPUs', -1 none.

    Rows are of one instant that lie less than an interval apart, each of another holder, while the rows of
    one go on over that of another: where one ends before the next begins, they took turns. The interval is
    ``width_ms``, or how far apart the rows of each holder usually are.
    """
    rows = _of_several(codes, jobs)
    if not len(rows):
        return at_ms
    order = rows[np.lexsort((at_ms[rows], jobs[rows], codes[rows]))]
    same = (np.diff(codes[order]) == 0) & (np.diff(jobs[order]) == 0)
    steps = np.diff(at_ms[order])
    interval = width_ms or (int(np.median(steps[same])) if same.any() else 0)
    first, last = _spells(order, at_ms, ~same | (steps > HOLE_WIDTHS * interval))
    joined = at_ms.copy()
    by_time = _near_another(rows[np.lexsort((rows, at_ms[rows], codes[rows]))], codes, jobs, at_ms, interval)
    group: list[int] = []
    for row in by_time.tolist():
        if group and _belongs(row, group, (codes, jobs, at_ms), (first, last), interval):
            group.append(row)
            continue
        joined[group] = at_ms[group[-1:]]
        group = [row]
    joined[group] = at_ms[group[-1:]]
    return joined


def _near_another(rows: Places, codes: Places, jobs: Places, at_ms: Places, interval: int) -> Places:
    """Of ``rows`` by GPU and time those of GPUs where another holder is near, and not at the same time."""
    steps = np.diff(at_ms[rows])
    other = (np.diff(codes[rows]) == 0) & (np.diff(jobs[rows]) != 0)
    near = np.flatnonzero(other & (steps > 0) & (steps < interval))
    return rows[np.isin(codes[rows], codes[rows[near]])]


def _of_several(codes: Places, jobs: Places) -> Places:
    """The rows of GPUs that have rows of several holders."""
    placed = np.flatnonzero(codes >= 0)
    pairs = np.unique(np.stack([codes[placed], jobs[placed]]), axis=1)
    several = np.flatnonzero(np.bincount(pairs[0]) > 1) if len(placed) else np.zeros(0, np.int64)
    return placed[np.isin(codes[placed], several)]


def _spells(order: Places, at_ms: Places, breaks: npt.NDArray[np.bool_]) -> tuple[Places, Places]:
    """Of each row, when the rows of its holder without a hole around it begin and end."""
    number = np.concatenate([[0], np.cumsum(breaks)])
    firsts = np.searchsorted(number, np.arange(number[-1] + 1))
    lasts = np.concatenate([firsts[1:], [len(order)]]) - 1
    first, last = np.zeros(len(at_ms), np.int64), np.zeros(len(at_ms), np.int64)
    first[order], last[order] = at_ms[order[firsts[number]]], at_ms[order[lasts[number]]]
    return first, last


def _belongs(
    row: int,
    group: list[int],
    columns: tuple[Places, Places, Places],
    spell: tuple[Places, Places],
    interval: int,
) -> bool:
    codes, jobs, at_ms = columns
    first, last = spell
    if codes[row] != codes[group[0]] or not at_ms[row] - at_ms[group[0]] < max(interval, 1):
        return False
    for other in group:
        overlap = first[row] <= at_ms[other] or at_ms[row] <= last[other]
        if jobs[row] == jobs[other] or not (at_ms[row] == at_ms[other] or overlap):
            return False
    return True


def usual_step_ms(codes: Places, at_ms: Places) -> int | None:
    """How far apart the rows of a GPU usually are; ``None`` where none has rows of two times."""
    order = np.lexsort((at_ms, codes))
    steps = np.diff(at_ms[order])[np.diff(codes[order]) == 0]
    return int(np.median(steps[steps > 0])) if (steps > 0).any() else None
