"""Gives elastic jobs their sizes and places: from a ``ClusterState`` to the steps that get there. Pure.

How many GPUs each should have is ``advisor.policies.elastic_sizes``; this file keeps the changes few and the
places good: growth that doesn't pay for its resize is left, so is a shrink that nobody needs, each change is
placed on as few nodes as can be, and a job that lies on more nodes than it needs is moved when that pays.
Jobs without a profile and jobs that may not be touched keep what they have; who may not be disturbed (minimal
run time, cooldown) is resized and never put back in the queue.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from advisor.actions import Action, Move, Requeue
from advisor.planner.limits import Limits
from advisor.planner.protection import against_disturbing, against_touching
from advisor.planner.quota import is_usable, quota_cover
from advisor.planner.throughput import growth_pays, remaining_s_of, step_s
from advisor.planner.working_state import WorkingState
from advisor.policies.borrowing import Firm
from advisor.policies.elastic_sizes import Claim, apportion, claim_of
from advisor.policies.promised_starts import Promises, end_by
from advisor.policies.time_slicing import stands_in_line
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Placement, ProjectName
from collector.model import GpuUuid, JobId


def reshape(state: ClusterState, limits: Limits) -> tuple[Action, ...]:
    """Steps that bring every elastic job to its size, those that make room first.

    What is promised to the head of a queue is not handed out, and who is on it keeps what he has.
    """
    round = WorkingState(state, limits)
    Promises(round)
    claims = _claims(round)
    _Placing(round).take(claims, _sizes(round, claims))
    return tuple(step for step in round.steps if step is not None)


def _budgets(round: WorkingState, ours: set[JobId]) -> dict[ProjectName, float]:
    """What these jobs of each project may hold together: what they have, and what is left of its fair share.

    GPUs that its other jobs hold or wait for are not left.
    """
    own: defaultdict[ProjectName, float] = defaultdict(float)
    others: defaultdict[ProjectName, float] = defaultdict(float)
    for id in sorted(round.state.jobs):
        job, placement = round.state.jobs[id], round.state.placements.get(id)
        if placement is not None:
            (own if id in ours else others)[job.project] += placement.size_gpus
        elif id not in ours:
            others[job.project] += job.min_gpus * job.share
    return {
        name: own[name] + max(round.fair.get(name, 0.0) - others[name] - own[name], 0.0)
        for name in {job.project for job in round.state.jobs.values()}
    }


def _to_give(round: WorkingState, ours: set[JobId]) -> int:
    """How many GPUs there are for these jobs: usable whole ones that no other job has, nor was promised."""
    state, board = round.state, round.board
    occupied = {uuid for name, placed in state.placements.items() if name not in ours for uuid in placed.gpus}
    return sum(
        1
        for gpu in state.gpus.values()
        if gpu.uuid not in occupied
        and gpu.part_of_device is None
        and is_usable(gpu, state)
        and ours.issuperset(board.promised_heads((gpu.uuid,)))
    )


def _claims(round: WorkingState) -> list[Claim]:
    state, limits, result = round.state, round.limits, []
    for job in sorted(state.jobs.values(), key=lambda job: (-job.priority, job.submitted_ms, job.id)):
        if job.phase is Phase.PAUSED or not job.preemptible or not _may_be_resized(round, job):
            continue
        placement = state.placements.get(job.id)
        claim = claim_of(job, 0 if placement is None else len(placement.gpus), limits)
        if claim is not None and job.on_one_node:
            largest = max((pool.largest for pool in round.board.may_use(job)), default=0)
            claim = replace(claim, speeds={n: speed for n, speed in claim.speeds.items() if n <= largest})
            claim = claim if claim.speeds else None
        if claim is not None:
            stays = claim.held and not _may_leave(round, job)
            result.append(replace(claim, floor=job.min_gpus) if stays else claim)
    return result


def _may_be_resized(round: WorkingState, job: Job) -> bool:
    state, limits = round.state, round.limits
    if limits.is_off(ActionClass.RESIZE, job.project, state.projects):
        return False
    placement = state.placements.get(job.id)
    if placement is None:
        return ActionClass.RESIZE not in job.opted_out and stands_in_line(round, job)
    if job.resized_ms is not None and state.as_of_ms - job.resized_ms < limits.resize_pause_s * 1000:
        return False
    unpartitioned = all(state.gpus[uuid].part_of_device is None for uuid in placement.gpus)
    if round.board.is_promised(placement.gpus) or not unpartitioned:
        return False
    return against_touching(job, placement.gpus, ActionClass.RESIZE, state) is None


def _may_leave(round: WorkingState, job: Job) -> bool:
    """Whether a running job may be put back in the queue for others of its project."""
    if "requeue" in job.withheld or "requeue" in job.cannot:
        return False
    gpus = round.state.placements[job.id].gpus
    return against_disturbing(job, gpus, ActionClass.RESIZE, round.state, round.limits) is None


def _sizes(round: WorkingState, claims: Sequence[Claim]) -> dict[JobId, int]:
    """What each is to have. Nobody leaves but for one of his project, and no more than the bound allows."""
    ours = {claim.job for claim in claims}
    gpus, budgets = _to_give(round, ours), _budgets(round, ours)
    bound = round.limits.actions_per_hour
    may_go = len(claims) if bound is None else max(bound - round.disturbed, 0)
    while True:
        targets = apportion(claims, gpus, budgets=budgets)
        sizes = _worthwhile(round.state, claims, targets, gpus, round.limits)
        heirs = {claim.project for claim in claims if sizes.get(claim.job, 0) > claim.held}
        leaving = [claim.job for claim in claims if claim.held and not sizes.get(claim.job, 0)]
        stay = {claim.job for claim in claims if claim.job in leaving and claim.project not in heirs}
        stay.update(leaving[: max(len(leaving) - may_go, 0)])
        if not stay:
            return sizes
        claims = [replace(claim, floor=min(claim.speeds)) if claim.job in stay else claim for claim in claims]


def _worthwhile(
    state: ClusterState, claims: Iterable[Claim], targets: Mapping[JobId, int], gpus: int, limits: Limits
) -> dict[JobId, int]:
    """The sizes without growth that doesn't pay and without shrinks whose GPUs nobody takes."""
    sizes = dict(targets)
    for claim in claims:
        size = sizes.get(claim.job, 0)
        if 0 < claim.held < size and growth_pays(state.jobs[claim.job], claim.held, size, limits) is False:
            sizes[claim.job] = claim.held
    rest = gpus - sum(sizes.values())
    for claim in sorted(claims, key=lambda each: (each.gpu_s_left, each.job)):
        size = sizes.get(claim.job, 0)
        back = claim.held - size
        if 0 < back <= rest and claim.speeds.get(claim.held, 0.0) >= claim.speeds.get(size, 0.0):
            sizes[claim.job] = claim.held
            rest -= back
    return sizes


class _Placing:
    """Finds places one change after the other, so that each step can be taken when its turn comes."""

    def __init__(self, round: WorkingState) -> None:
        self._round, self._state, self._board = round, round.state, round.board
        self._firm = Firm(round)

    def take(self, claims: Iterable[Claim], sizes: Mapping[JobId, int]) -> None:
        """Have the round take the steps to these sizes."""
        shrinking = [c for c in claims if 0 < sizes.get(c.job, 0) < c.held]
        leaving = [c for c in claims if c.held and not sizes.get(c.job, 0)]
        growing = [c for c in claims if sizes.get(c.job, 0) > c.held]
        for claim in leaving:
            heir = next(each.job for each in growing if each.project == claim.project)
            reason = "its GPUs bring shorter jobs further now; its work is saved"
            self._round.give_way(
                Requeue(job=claim.job, for_job=heir, action=ActionClass.RESIZE, reason=reason)
            )
        for claim in shrinking:
            self._replace(claim, sizes[claim.job])
        for claim in sorted(growing, key=lambda each: (-sizes[each.job], each.job)):
            self._replace(claim, sizes[claim.job])
        for claim in claims:
            if claim.held and sizes.get(claim.job, 0) == claim.held:
                self._gather(claim)

    def _replace(self, claim: Claim, size: int) -> None:
        job, before = self._state.jobs[claim.job], self._state.placements.get(claim.job)
        if self._round.over_limit(job, size - claim.held) is not None:
            return
        if before is not None:
            self._board.vacate(job.id, before)
        gpus = self._board.find(job, size) or self._board.find_reserved(
            job, size, end_by(job, self._round.now_ms if job.started_ms is None else job.started_ms)
        )
        if before is not None:
            self._board.occupy(job, before)
        if gpus is None:
            return
        if before is None:
            if self._firm.lack(job) is None:
                self._firm.note(job)
                self._round.start(job, gpus, f"{size} GPUs are the best use of what is free")
        elif size > len(before.gpus):
            self._round.resize(job, gpus, f"{size} GPUs pay for the resize")
        else:
            self._round.resize(job, gpus, "other jobs make more of its last GPUs")

    def _gather(self, claim: Claim) -> None:
        """A move onto fewer nodes when it brings the job on by more than it costs."""
        job, before = self._state.jobs[claim.job], self._state.placements[claim.job]
        nodes = self._nodes(before.gpus)
        if nodes == 1 or not self._may_move(job, before):
            return
        self._board.vacate(job.id, before)
        gpus = self._board.find(job, len(before.gpus))
        if gpus is not None and self._nodes(gpus) < nodes and self._move_pays(job, len(gpus)):
            self._board.occupy(job, Placement(gpus=gpus))
            self._round.placements[job.id] = Placement(gpus=gpus)
            self._round.disturbed += 1
            reason = f"{self._nodes(gpus)} nodes instead of {nodes}"
            self._round.steps.append(Move(job=job.id, gpus=gpus, reason=reason))
        else:
            self._board.occupy(job, before)

    def _may_move(self, job: Job, before: Placement) -> bool:
        """Whether the guard would let it be moved: by every rule that protects it, its quota included."""
        limits, bound = self._round.limits, self._round.limits.actions_per_hour
        return (
            (bound is None or self._round.disturbed < bound)
            and not limits.is_off(ActionClass.CONSOLIDATE, job.project, self._state.projects)
            and against_disturbing(job, before.gpus, ActionClass.CONSOLIDATE, self._state, limits) is None
            and quota_cover(self._state, self._round.tree).gpus(job) <= 0
        )

    def _move_pays(self, job: Job, size: int) -> bool:
        assert job.profile is not None
        apart, together = step_s(job.profile, size, spread=True), step_s(job.profile, size)
        rest_s = remaining_s_of(job, size)
        if apart is None or together is None or rest_s is None:
            return False
        cost = self._round.limits.resize_s if job.profile.resize_s is None else job.profile.resize_s
        slow = rest_s * apart / together
        return (
            slow >= self._round.limits.resize_costs_left * cost
            and slow / (rest_s + cost) >= self._round.limits.resize_speedup
        )

    def _nodes(self, gpus: Iterable[GpuUuid]) -> int:
        return len({self._state.gpus[uuid].node for uuid in gpus})
