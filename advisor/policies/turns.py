"""Lets the young jobs of a project have a turn on the GPUs of its old ones, where a site chose that. Pure.

Nobody knows how long a job that reports nothing will run. But most are short, and a job that has run long
will mostly run long: so the least attained service first (Tiresias, NSDI 2019; discretised, with one
boundary). While a project's jobs wait, those that have had less than ``QUANTUM_GPU_S`` each may take the
place of running ones that have had more. It stays within one project, so no project gets or loses anything;
nobody is disturbed within the minimal run time or the cooldown, and only right after a checkpoint
(``FRESH_S``), so hardly any work is lost. Who gave way waits at the end of its project's line.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from advisor.arithmetic.placement import Board
from advisor.limits import Limits
from advisor.model import ActionClass, ClusterState, Job, Phase, Placement, ProjectName
from advisor.protection import against_disturbing, disturbed_lately
from advisor.steps import Requeue, Start, Step

QUANTUM_GPU_S = 4 * 3600.0
FRESH_S = 120.0


def is_young(job: Job) -> bool:
    """Whether it has had less than the quantum of GPU time."""
    return job.attained_gpu_s < QUANTUM_GPU_S


def take_turns(state: ClusterState, limits: Limits) -> tuple[Step, ...]:
    """Steps by which old jobs of a project give way to its young ones that wait, gang by gang."""
    waiting: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for job in state.jobs.values():
        if job.phase is Phase.PENDING and job.share == 1 and is_young(job):
            waiting[job.project].append(job)
    if not waiting:
        return ()
    board = Board(state)
    old = _givers(state, limits, set(waiting))
    steps: list[Step] = []
    for project in sorted(waiting):
        line = sorted(waiting[project], key=lambda job: (-job.priority, job.submitted_ms, job.id))
        steps += _serve(state, board, line, old.get(project, []))
    return _under(limits.actions_per_hour, disturbed_lately(state), steps)


def _under(bound: int | None, lately: int, steps: list[Step]) -> tuple[Step, ...]:
    """The steps up to the last turn that the bound on disturbances in an hour leaves whole."""
    if bound is None:
        return tuple(steps)
    kept = disturbed = 0
    for at, step in enumerate(steps):
        disturbed += isinstance(step, Requeue)
        if lately + disturbed > bound:
            break
        if isinstance(step, Start):
            kept = at + 1
    return tuple(steps[:kept])


def _givers(state: ClusterState, limits: Limits, projects: set[ProjectName]) -> dict[ProjectName, list[Job]]:
    """The old jobs of each project that may be disturbed now, the one with most GPU time last."""
    found: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for name, placement in state.placements.items():
        job = state.jobs[name]
        if job.project not in projects or is_young(job) or placement.share < 1 or "requeue" in job.withheld:
            continue
        if not _is_fresh(job, state):
            continue
        objection = against_disturbing(job, placement.gpus, ActionClass.FAIR_SHARE, state, limits)
        if objection is None:
            found[job.project].append(job)
    for own in found.values():
        own.sort(key=lambda job: (job.attained_gpu_s, job.id))
    return found


def _is_fresh(job: Job, state: ClusterState) -> bool:
    return job.checkpoint_ms is not None and state.as_of_ms - job.checkpoint_ms <= FRESH_S * 1000


def _serve(state: ClusterState, board: Board, line: Iterable[Job], old: list[Job]) -> Iterator[Step]:
    for job in line:
        givers: list[Job] = []
        while board.find(job, job.min_gpus) is None and old and old[-1].priority <= job.priority:
            givers.append(old.pop())
            board.vacate(givers[-1].id, state.placements[givers[-1].id])
        gpus = board.find(job, job.min_gpus)
        if gpus is None or not givers:
            for giver in reversed(givers):
                board.occupy(giver, state.placements[giver.id])
                old.append(giver)
            return
        for giver in givers:
            yield Requeue(
                job=giver.id,
                for_job=job.id,
                reason=f"{job.id} of the same project has hardly run, and its own work was just saved",
            )
        board.occupy(job, Placement(gpus=gpus))
        yield Start(job=job.id, gpus=gpus, reason="its turn: it has hardly run yet")
