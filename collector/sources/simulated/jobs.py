"""What a plan says of a window of time: who held what, which processes lived, what broke, and the truth.

Pure: plans in, the collector's nouns out. A window is half-open, ``[from_ms, to_ms)``; events and readings
belong to the end of their time, ``(from_ms, to_ms]``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from collector.model import Allocation, Event, Gap, Holder, Intrusion, Process
from collector.sources.simulated.hardware import Board
from collector.sources.simulated.labels import KINDS, Label, LabelKind, findings_together
from collector.sources.simulated.node_plan import NodePlan, PlannedProcess
from collector.sources.simulated.timeline import Stretches

XID_OFF_THE_BUS = 79
"""NVIDIA's XID catalogue: "GPU has fallen off the bus"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One GPU's allocation over the whole of its job, whatever the window."""

    allocation: Allocation
    from_ms: int
    to_ms: int


def held(plan: NodePlan, boards: tuple[Board, ...], from_ms: int, to_ms: int) -> Iterator[Held]:
    """Every allocation that touches the window."""
    for job in plan.jobs:
        if job.from_ms < to_ms and job.to_ms > from_ms:
            for gpu in job.gpus:
                claim = Allocation(
                    uuid=boards[gpu].gpu.uuid, holder=job.holder, share=job.share, source=job.source
                )
                yield Held(allocation=claim, from_ms=job.from_ms, to_ms=job.to_ms)


def living(plan: NodePlan, from_ms: int, to_ms: int) -> Iterator[PlannedProcess]:
    """Every process that lives at some time of the window."""
    for process in plan.processes:
        if process.process.key.started_ms < to_ms and process.to_ms > from_ms:
            yield process


def intruded(
    plan: NodePlan, boards: tuple[Board, ...], from_ms: int, to_ms: int
) -> Iterator[tuple[Intrusion, int, int]]:
    """Every intrusion that touches the window, over the whole of its visit: (what, from, to)."""
    for process in living(plan, from_ms, to_ms):
        if process.job < 0:
            key = process.process.key
            yield Intrusion(key=key, uuid=boards[process.gpu].gpu.uuid), key.started_ms, process.to_ms


def begun(plan: NodePlan, from_ms: int, to_ms: int, *, since_ms: int) -> Iterator[Process]:
    """Processes of the window that were not yet there in an earlier one, which began at ``since_ms``."""
    for process in living(plan, from_ms, to_ms):
        if max(process.process.key.started_ms, since_ms) >= from_ms:
            yield process.process


def events(
    plan: NodePlan, boards: tuple[Board, ...], from_ms: int, to_ms: int, *, first_look: bool
) -> Iterator[Event]:
    """Falls off the bus and returns in ``(from_ms, to_ms]``.

    At a ``first_look`` a fall from before is told too, with its own time, while it lasts: whoever begins to
    look finds the GPU lost.
    """
    for gpu, begin, end in _times_of(plan, LabelKind.LOST):
        uuid = boards[gpu].gpu.uuid
        if from_ms < begin <= to_ms or (first_look and begin <= from_ms < end):
            yield Event(
                uuid=uuid, at_ms=begin, kind="xid", detail=f"{XID_OFF_THE_BUS}: GPU has fallen off the bus"
            )
            yield Event(uuid=uuid, at_ms=begin, kind="gpu-lost", detail="the driver no longer finds it")
        if from_ms < end <= to_ms:
            yield Event(uuid=uuid, at_ms=end, kind="gpu-returned", detail="the driver finds it again")


def gaps(plan: NodePlan, boards: tuple[Board, ...], source: str, from_ms: int, to_ms: int) -> Iterator[Gap]:
    """The node's reboots and its lost GPUs, clipped to the window."""
    node = boards[0].gpu.node
    for gpu, begin, end in _times_of(plan, LabelKind.LOST):
        low, high = max(begin, from_ms), min(end, to_ms)
        if low < high:
            yield Gap(
                source=source,
                from_ms=low,
                to_ms=high,
                reason="the GPU fell off the bus",
                uuid=boards[gpu].gpu.uuid,
                node=node,
            )
    low, high = max(plan.from_ms, from_ms), min(int(plan.lanes[0]["start_ms"][1]), to_ms)
    if low < high:
        yield Gap(
            source=source, from_ms=low, to_ms=high, reason="the node was rebooted for maintenance", node=node
        )


def truths(plan: NodePlan, boards: tuple[Board, ...], from_ms: int, to_ms: int) -> Iterator[Label]:
    """The labels of every GPU of the node in the window, in time order for each."""
    low, high = max(from_ms, plan.from_ms), min(to_ms, plan.to_ms)
    for gpu, board in enumerate(boards):
        lanes = [rows for rows, owner in zip(plan.lanes, plan.lane_gpus, strict=True) if owner == gpu]
        cuts = sorted({low, high}.union(*(_cuts(rows, low, high) for rows in lanes)))
        for begin, end in pairwise(cuts):
            now = [_at(plan, rows, begin) for rows in lanes]
            together = findings_together(frozenset(kind for kind, _ in now))
            shown = [pair for pair in now if pair[1] is not None] or now[:1]
            for kind, holder in shown:
                yield Label(
                    uuid=board.gpu.uuid,
                    from_ms=begin,
                    to_ms=end,
                    kind=kind,
                    holder=holder,
                    findings=together,
                )


def _times_of(plan: NodePlan, kind: LabelKind) -> Iterator[tuple[int, int, int]]:
    for rows, gpu in zip(plan.lanes, plan.lane_gpus, strict=True):
        for place in np.flatnonzero(rows["kind"] == KINDS.index(kind)):
            after = rows["start_ms"][place + 1] if place + 1 < len(rows) else plan.to_ms
            yield gpu, int(rows["start_ms"][place]), int(after)


def _cuts(rows: Stretches, from_ms: int, to_ms: int) -> set[int]:
    changed = (rows["kind"][1:] != rows["kind"][:-1]) | (rows["job"][1:] != rows["job"][:-1])
    starts = rows["start_ms"][1:][changed]
    return {int(start) for start in starts[(starts > from_ms) & (starts < to_ms)]}


def _at(plan: NodePlan, rows: Stretches, at_ms: int) -> tuple[LabelKind, Holder | None]:
    row = rows[int(np.searchsorted(rows["start_ms"], at_ms, side="right")) - 1]
    holder = plan.jobs[int(row["job"])].holder if row["job"] >= 0 else None
    return KINDS[int(row["kind"])], holder
