"""One node's plan from one reboot to the next: which jobs it runs, and the stretches they fill.

An epoch (four weeks, its phase differs by node) begins with a maintenance reboot, which ends every job and
restarts the energy counters. That is what lets any instant be planned without its whole past. Pure: a plan
is a function of (seed, node, epoch).
"""

from dataclasses import dataclass
from uuid import UUID

import numpy as np

from collector.model import Process, ProcessKey
from collector.sources.simulated.hardware import Board
from collector.sources.simulated.intruders import Visit, visits
from collector.sources.simulated.labels import LabelKind
from collector.sources.simulated.people import DAY_MS, HOUR_MS, MINUTE_MS
from collector.sources.simulated.timeline import Stretches, joined, key_of, stretch
from collector.sources.simulated.workload import PlannedJob, Table, deal, slots_of

EPOCH_DAYS = 28
EPOCH_MS = EPOCH_DAYS * DAY_MS
MAINTENANCE_MS = 6 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcess:
    """A process on one GPU; ``job`` and ``lane`` are places in the plan's. An intruder's ``job`` is -1."""

    process: Process
    gpu: int
    lane: int
    job: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What a node does in ``[from_ms, to_ms)``; ``lanes`` has the stretches of each lane in order.

    The first lanes are the GPUs, the others second holders and intruders: ``lane_gpus`` says of which GPU.
    """

    node: int
    from_ms: int
    to_ms: int
    jobs: tuple[PlannedJob, ...]
    processes: tuple[PlannedProcess, ...]
    lanes: tuple[Stretches, ...]
    lane_gpus: tuple[int, ...]


def epoch_of(seed: int, node: int, at_ms: int) -> int:
    """The number of the epoch that ``at_ms`` falls into on this node."""
    return (at_ms - _phase_ms(seed, node)) // EPOCH_MS


def lane_gpus_of(node: int, gpus_per_node: int) -> tuple[int, ...]:
    """The GPU of each of the node's lanes: every GPU once, then those with second holders or intruders."""
    second = [s.gpus[0] for s in slots_of(node, gpus_per_node) for _ in range(s.lanes - 1 + s.intruded)]
    return (*range(gpus_per_node), *second)


def plan_node(seed: int, node: int, epoch: int, boards: tuple[Board, ...]) -> NodePlan:
    """The plan of one node, whose boards are given, for one epoch."""
    from_ms = _phase_ms(seed, node) + epoch * EPOCH_MS
    up_ms, to_ms = from_ms + MAINTENANCE_MS, from_ms + EPOCH_MS
    lane_gpus = lane_gpus_of(node, len(boards))
    idle = [stretch(from_ms, LabelKind.MAINTENANCE), stretch(up_ms, LabelKind.FREE)]
    rows: dict[int, list[Stretches]] = {lane: list(idle) for lane in range(len(lane_gpus))}
    jobs: list[PlannedJob] = []
    processes: list[PlannedProcess] = []
    second = len(boards)
    for slot in slots_of(node, len(boards)):
        for place in range(slot.lanes):
            lanes = slot.gpus if place == 0 else (second,)
            second += place > 0
            table = Table(
                seed=seed, node=node, slot=slot, place=place, boards=boards, from_ms=up_ms, to_ms=to_ms
            )
            for job, filled in deal(table):
                for gpu, lane in zip(slot.gpus, lanes, strict=True):
                    rows[lane].append(_laid(filled, job, (len(jobs), lane), boards[gpu], processes))
                jobs += [] if job is None else [job]
        if slot.intruded:
            own = [job for job in jobs if job.gpus == slot.gpus]
            for visit in visits((seed, node), own, boards[slot.gpus[0]]):
                rows[second].append(_visited(visit, second, boards[slot.gpus[0]], processes))
            second += 1
    return NodePlan(
        node=node,
        from_ms=from_ms,
        to_ms=to_ms,
        jobs=tuple(jobs),
        processes=tuple(processes),
        lanes=tuple(_settled(rows[lane], to_ms) for lane in range(len(lane_gpus))),
        lane_gpus=lane_gpus,
    )


def _phase_ms(seed: int, node: int) -> int:
    return key_of(seed, "maintenance", node) % EPOCH_DAYS * DAY_MS + 3 * HOUR_MS


def _visited(visit: Visit, lane: int, board: Board, processes: list[PlannedProcess]) -> Stretches:
    """A visit's stretches in its lane; appends its process."""
    filled = visit.filled.copy()
    filled["process"][0] = len(processes)
    gpu = int(board.gpu.index or 0)
    processes.append(
        PlannedProcess(process=visit.process, gpu=gpu, lane=lane, job=-1, to_ms=int(filled["start_ms"][1]))
    )
    return filled


def _laid(
    filled: Stretches,
    job: PlannedJob | None,
    place: tuple[int, int],
    board: Board,
    processes: list[PlannedProcess],
) -> Stretches:
    """A job's stretches at its ``place`` (number of the job, lane); appends the processes they belong to."""
    number, lane = place
    mine = filled.copy()
    if job is None:
        return mine
    mine["job"][:-1] = number
    for run in np.unique(mine["run"][mine["run"] >= 0]):
        places = np.flatnonzero(mine["run"] == run)
        mine["process"][places] = len(processes)
        processes.append(
            PlannedProcess(
                process=_process(job, board, int(run), int(mine["start_ms"][places[0]])),
                gpu=int(board.gpu.index or 0),
                lane=lane,
                job=number,
                to_ms=int(mine["start_ms"][places[-1] + 1]),
            )
        )
    return mine


def _process(job: PlannedJob, board: Board, run: int, started_ms: int) -> Process:
    """As a collector outside would see it: a pod by its UID and host name, a Slurm job by its number."""
    name = str(job.holder.job)
    pid = 10_000 + key_of(name, str(board.gpu.uuid), run) % 4_000_000
    prefix, _, rest = name.partition(":")
    pod = rest.partition("/")[2] if prefix == "pod" else None
    return Process(
        key=ProcessKey(node=board.gpu.node, pid=pid, started_ms=started_ms),
        user=job.person.user,
        uid=job.person.uid,
        name=(job.card.command.split() or ["python"])[0],
        command=job.card.command,
        frameworks=(job.card.framework,) if job.card.framework else (),
        container="".join(f"{key_of(name, part):016x}" for part in range(4)) if pod else None,
        pod=str(UUID(int=key_of(name, "low") + (key_of(name, "high") << 64), version=4)) if pod else None,
        namespace=job.person.project if pod else None,
        slurm_job=rest if prefix == "slurm" else None,
        notebook=f"kernel-{key_of(name) % 16**8:08x}" if job.card.name == "notebook" else None,
        environment=(("HOSTNAME", pod),) if pod else (("SLURM_JOB_ID", rest),),
    )


def _settled(parts: list[Stretches], to_ms: int) -> Stretches:
    """In order of time; of two that start together the later laid one counts."""
    rows = joined(*parts, to_ms=to_ms)
    last = np.append(rows["start_ms"][1:] != rows["start_ms"][:-1], True)
    settled: Stretches = rows[last]
    return settled
