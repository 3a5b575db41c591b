"""Lets the young jobs of a project have a turn on the GPUs of its old ones, where a site chose that. Pure.

Nobody knows how long a job that reports nothing will run. But most are short, and a job that has run long
will mostly run long: so the least attained service first (Tiresias, NSDI 2019; discretised, with one
boundary). While a project's jobs wait, those that have had less than ``QUANTUM_GPU_S`` each may take the
place of running ones that have had more. It stays within one project, so no project gets or loses anything;
nobody is disturbed within the minimal run time or the cooldown, and only right after a checkpoint
(``FRESH_S``), so hardly any work is lost. Who gave way waits at the end of its project's line.
"""

from collections import defaultdict
from collections.abc import Iterable

from advisor.actions import Action, Requeue, Start
from advisor.planner.limits import Limits
from advisor.planner.protection import against_disturbing, disturbed_lately
from advisor.planner.working_state import WorkingState
from advisor.policies.borrowing import Firm
from advisor.policies.promised_starts import Promises
from advisor.state.model import ActionClass, ClusterState, Job, Phase, ProjectName, Use

# With more GPU time than this a job counts as old (docs/simulator.md, YOUNGEST).
QUANTUM_GPU_S = 4 * 3600.0
# So much work, at most, is lost by giving way.
FRESH_S = 120.0


def is_young(job: Job) -> bool:
    """Whether it has had less than the quantum of GPU time."""
    return job.attained_gpu_s < QUANTUM_GPU_S


def stands_in_line(round: WorkingState, job: Job) -> bool:
    """Whether a waiting job may start now: its project's queue is served, and it does not rest."""
    return not rests(round, job) and not round.limits.is_off(
        ActionClass.SCHEDULE, job.project, round.state.projects
    )


def rests(round: WorkingState, job: Job) -> bool:
    """Whether it is held, or was disturbed just now; one paused for idling rests for the whole cooldown."""
    if job.held or job.after:
        return True
    if job.acted_ms is None:
        return False
    rest_s = round.limits.cooldown_s if job.use is Use.IDLE and job.phase is Phase.PAUSED else 0.0
    return round.now_ms - job.acted_ms < max(1.0, rest_s * 1000)


def take_turns(state: ClusterState, limits: Limits) -> tuple[Action, ...]:
    """Steps by which old jobs of a project give way to its young ones that wait, gang by gang."""
    young = [job for job in state.jobs.values() if job.phase is Phase.PENDING and is_young(job)]
    if not young:
        return ()
    round = WorkingState(state, limits)
    Promises(round)
    waiting: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for job in young:
        if job.share == 1 and stands_in_line(round, job):
            waiting[job.project].append(job)
    firm, old = Firm(round), _givers(state, limits, set(waiting))
    for project in sorted(waiting):
        line = sorted(waiting[project], key=lambda job: (-job.priority, job.submitted_ms, job.id))
        for job in line:
            if firm.lack(job) is not None or not _serve(round, job, old.get(project, [])):
                break
            firm.note(job)
    steps = [step for step in round.steps if step is not None]
    return _under(limits.actions_per_hour, disturbed_lately(state), steps)


def _under(bound: int | None, lately: int, steps: list[Action]) -> tuple[Action, ...]:
    """The steps up to the last turn that the bound on disturbances in an hour leaves whole."""
    if bound is None:
        return tuple(steps)
    staying = disturbed = 0
    for at, step in enumerate(steps):
        disturbed += isinstance(step, Requeue)
        if lately + disturbed > bound:
            break
        if isinstance(step, Start):
            staying = at + 1
    return tuple(steps[:staying])


def _givers(state: ClusterState, limits: Limits, projects: set[ProjectName]) -> dict[ProjectName, list[Job]]:
    """The old jobs of each project that may be disturbed now, the one with most GPU time last."""
    result: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for name, placement in state.placements.items():
        job = state.jobs[name]
        if job.project not in projects or is_young(job) or placement.share < 1:
            continue
        if "requeue" in job.withheld or "requeue" in job.cannot:
            continue
        if limits.is_off(ActionClass.FAIR_SHARE, job.project, state.projects):
            continue
        if not _is_fresh(job, state):
            continue
        objection = against_disturbing(job, placement.gpus, ActionClass.FAIR_SHARE, state, limits)
        if objection is None:
            result[job.project].append(job)
    for own in result.values():
        own.sort(key=_oldest_last)
    return result


def _is_fresh(job: Job, state: ClusterState) -> bool:
    return job.checkpoint_ms is not None and state.as_of_ms - job.checkpoint_ms <= FRESH_S * 1000


def _serve(round: WorkingState, job: Job, old: list[Job]) -> bool:
    """Have old jobs give way until the job fits within its limits, and start it; else nothing is changed."""
    board, places = round.board, round.state.placements
    givers: list[Job] = []
    useless: list[Job] = []
    while not _fits(round, job, givers) and old and old[-1].priority <= job.priority:
        giver = old.pop()
        if board.is_useful(places[giver.id].gpus, job):
            board.vacate(giver.id, places[giver.id])
            givers.append(giver)
        else:
            useless.append(giver)
    fits = _fits(round, job, givers)
    for giver in tuple(givers):
        others = [each for each in givers if each is not giver]
        board.occupy(giver, places[giver.id])
        if fits and _fits(round, job, others):
            givers = others
            useless.append(giver)
        else:
            board.vacate(giver.id, places[giver.id])
    for giver in givers:
        board.occupy(giver, places[giver.id])
    served = fits and bool(givers)
    old += useless if served else useless + givers
    old.sort(key=_oldest_last)
    if served:
        _change(round, job, givers)
    return served


def _fits(round: WorkingState, job: Job, givers: Iterable[Job]) -> bool:
    """Whether it finds a place, and stays within every limit of its project, when these have left."""
    less = sum(round.state.placements[giver.id].size_gpus for giver in givers)
    return round.over_limit(job, job.min_gpus - less) is None and round.board.fits(job, job.min_gpus)


def _change(round: WorkingState, job: Job, givers: Iterable[Job]) -> None:
    reason = f"{job.id} of the same project has hardly run, and its own work was just saved"
    for giver in givers:
        round.give_way(Requeue(job=giver.id, for_job=job.id, reason=reason))
    gpus = round.board.find(job, job.min_gpus)
    assert gpus is not None, "others gave way for it"
    round.start(job, gpus, "its turn: it has hardly run yet")


def _oldest_last(job: Job) -> tuple[float, str]:
    return (job.attained_gpu_s, job.id)
