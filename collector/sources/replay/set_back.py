"""Rows of a log whose times run back over time that earlier rows have: its clock was set back. Pure.

A log is written in the order in which things happened, so of one GPU (and one holder of it) each row is later
than the one before. Where a row is earlier, the clock was set back (by hand, by a time server, at the end of
summer time, for nvidia-smi writes local times), or the same rows were written twice. Of what two stretches of
a log say of one time the first is kept: which of the two clocks was right nobody knows.

Tables need not be logs: rows that are in no order at all, whose stretches don't overlap, or that come late
and fill a hole are as good as any.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

MOST_STEPS_BACK = 0.05
"""Of the rows of one GPU and holder; where more run back, the table is in another order than that of time."""
NEAR_STEPS = 0.75
"""A row has the time of another that lies nearer than so many of the log's usual steps: of even steps any
time between two rows is within half a one. A late row that fills a hole is a whole one away."""
SAME_STEP_MS = 120_000
"""GPUs of one machine are logged one after another: steps back so near to each other are one."""

Marks = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """A step back: from which time to which (UTC ms), at which line, and how many rows it cost."""

    from_ms: int
    to_ms: int
    line: int
    rows: int

    def __str__(self) -> str:
        many = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return (
            f"{many} skipped because time runs back, from {_clock(self.from_ms)} to {_clock(self.to_ms)} at "
            f"line {self.line}, over time that earlier rows have: the clock was set back (as at the end of "
            "summer time), or rows are there twice"
        )


def overlapping(codes: Places, jobs: Places, at_ms: Places, good: Marks) -> tuple[Marks, tuple[Places, ...]]:
    """The rows that have the time of rows before a step back, and the places of each step.

    ``codes`` are the GPUs', ``jobs`` their holders', in the order of the file; a step is (row before it, row
    after it). Rows of no GPU (-1) and rows that aren't ``good`` have no say.
    """
    over = np.zeros(len(at_ms), np.bool_)
    rows = np.flatnonzero(good & (codes >= 0))
    if (np.diff(at_ms[rows]) >= 0).all():  # as most files are; sorting millions of rows takes seconds
        return over, ()
    rows = rows[np.lexsort((rows, jobs[rows], codes[rows]))]
    same = (np.diff(codes[rows]) == 0) & (np.diff(jobs[rows]) == 0)
    steps: list[Places] = []
    if not (same & (np.diff(at_ms[rows]) < 0)).any():
        return over, ()
    for own in np.split(rows, np.flatnonzero(~same) + 1):
        times = at_ms[own]
        back = np.flatnonzero(np.diff(times) < 0)
        if not len(back) or len(back) > max(1.0, MOST_STEPS_BACK * len(own)):
            continue
        ahead = np.diff(times)
        near_ms = NEAR_STEPS * float(np.median(ahead[ahead > 0])) if (ahead > 0).any() else 0.0
        before = np.zeros(0, np.int64)
        for stretch in np.split(np.arange(len(own)), back + 1):
            again = _distance(before, times[stretch]) <= near_ms
            over[own[stretch[again]]] = True
            if again.any():
                steps.append(np.array([own[stretch[0] - 1], own[stretch[0]]]))
            before = np.sort(np.concatenate([before, times[stretch[~again]]]))
    return over, tuple(steps)


def _distance(known: Places, times: Places) -> npt.NDArray[np.float64]:
    """How far each of ``times`` is from the nearest of ``known``, which ascend; infinite where none is."""
    padded = np.concatenate([[-np.inf], known.astype(np.float64), [np.inf]])
    place = np.searchsorted(padded, times, side="left")
    nearest: npt.NDArray[np.float64] = np.minimum(times - padded[place - 1], padded[place] - times)
    return nearest


def summed(steps: tuple[Places, ...], at_ms: Places, over: Marks, lines: Places) -> Iterator[SetBack]:
    """One for each time that the clock was set back, with the rows that it cost on all GPUs together."""
    ordered = sorted(steps, key=lambda step: int(step[1]))
    groups: list[list[Places]] = []
    for step in ordered:
        near = groups and np.abs(at_ms[step] - at_ms[groups[-1][0]]).max() <= SAME_STEP_MS
        if near:
            groups[-1].append(step)
        else:
            groups.append([step])
    lost = np.flatnonzero(over)
    for number, group in enumerate(groups):
        first = int(group[0][1])
        after = int(groups[number + 1][0][1]) if number + 1 < len(groups) else len(over)
        yield SetBack(
            from_ms=max(int(at_ms[step[0]]) for step in group),
            to_ms=min(int(at_ms[step[1]]) for step in group),
            line=int(lines[first]),
            rows=int(((lost >= first) & (lost < after)).sum()),
        )


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
