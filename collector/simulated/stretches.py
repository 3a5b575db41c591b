"""The score that a simulated GPU plays: rows that say what goes on from one moment to the next.

A stretch lasts until the next one of its lane starts. Levels are means; ``signal`` adds what varies. One row
is one record of ``STRETCH``, so that a whole epoch is a single array. Pure.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collector.simulated.noise import Ints
from collector.simulated.truth import KINDS, LabelKind

STRETCH = np.dtype(
    [
        ("start_ms", np.int64),
        ("memory_bytes", np.int64),
        ("kind", np.int16),  # place in truth.KINDS
        ("run", np.int32),  # which run of its job, -1 without a process
        ("job", np.int32),  # place in the plan's jobs, -1 for nobody's
        ("process", np.int32),  # place in the plan's processes, -1 for none
        ("dip_period_ms", np.int32),  # a pause for checkpoint or evaluation comes this often, 0 for never
        ("dip_ms", np.int32),  # and lasts this long
        ("sm", np.float32),
        ("util", np.float32),
        ("duty", np.float32),  # share of the 10 s bins with any work at all
        ("jitter", np.float32),  # relative deviation of sm
        ("controller", np.float32),
        ("tensor", np.float32),
        ("occupancy", np.float32),
    ]
)
Stretches = npt.NDArray[np.void]
"""An array of STRETCH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a program makes of a GPU while it computes; ratios 0..1."""

    sm: float
    util: float
    controller: float
    tensor: float = 0.0
    occupancy: float = 0.2
    duty: float = 1.0
    jitter: float = 0.06
    dip_period_ms: int = 0
    dip_ms: int = 0


STILL = Work(sm=0.0, util=0.0, controller=0.0, occupancy=0.0, jitter=0.0)
"""No work at all."""


def stretch(
    starts_ms: int | Ints,
    kind: LabelKind,
    *,
    work: Work = STILL,
    memory_bytes: int | Ints = 0,
    run: int | npt.NDArray[np.int64] = -1,
) -> Stretches:
    """One stretch for each start, all doing the same; memory and run may differ."""
    rows = np.zeros(np.size(starts_ms), STRETCH)
    rows["start_ms"] = starts_ms
    rows["memory_bytes"] = memory_bytes
    rows["kind"] = KINDS.index(kind)
    rows["run"] = run
    rows["job"] = -1
    rows["process"] = -1
    for name in ("sm", "util", "duty", "jitter", "controller", "tensor", "occupancy"):
        rows[name] = getattr(work, name)
    rows["dip_period_ms"] = work.dip_period_ms
    rows["dip_ms"] = work.dip_ms
    return rows


def joined(*parts: Stretches, to_ms: int) -> Stretches:
    """All parts in order of their start, without those that start at ``to_ms`` or later."""
    rows = chained(*parts)
    rows = rows[rows["start_ms"] < to_ms]
    return rows[np.argsort(rows["start_ms"], kind="stable")]


def chained(*parts: Stretches) -> Stretches:
    """All parts, one after the other; ``np.concatenate`` takes ten times as long over records."""
    rows = np.empty(sum(len(part) for part in parts), STRETCH)
    at = 0
    for part in parts:
        rows[at : at + len(part)] = part
        at += len(part)
    return rows
