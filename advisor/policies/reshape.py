"""Gives elastic jobs their sizes and places: from a ``ClusterState`` to the steps that get there. Pure.

How many GPUs each should have is ``advisor.policies.apportion``; this file keeps the changes few and the
places good: growth that doesn't pay for its resize is left, so is a shrink that nobody needs, each change is
placed on as few nodes as can be, and a job that lies on more nodes than it needs is moved when that pays.
Jobs without a profile and jobs that may not be touched keep what they have.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from advisor.arithmetic.goodput import growth_pays, step_s, time_left_s
from advisor.arithmetic.placement import Board
from advisor.arithmetic.projects import is_usable
from advisor.limits import Limits
from advisor.model import ActionClass, ClusterState, Job, Phase, Placement, ProjectName
from advisor.policies.apportion import Claim, apportion, claim_of
from advisor.policies.fair_share import fair_shares
from advisor.protection import against_touching
from advisor.steps import Move, Requeue, Resize, Start, Step
from collector.model import GpuUuid, JobId


def reshape(
    state: ClusterState, limits: Limits, budgets: Mapping[ProjectName, float] | None = None
) -> tuple[Step, ...]:
    """Steps that bring every elastic job to its size, those that make room first.

    ``budgets`` bound what each project's elastic jobs may hold together; none: one pool for all.
    """
    claims = _claims(state, limits)
    ours = {claim.job for claim in claims}
    taken = {uuid for name, placed in state.placements.items() if name not in ours for uuid in placed.gpus}
    gpus = sum(1 for gpu in state.gpus.values() if gpu.uuid not in taken and is_usable(gpu, state))
    wanted = apportion(claims, gpus, budgets=budgets)
    sizes = _worthwhile(state, claims, wanted, gpus, limits)
    return tuple(_Placing(state, limits).steps(claims, sizes))


def budgets(state: ClusterState, limits: Limits) -> dict[ProjectName, float]:
    """What each project's elastic jobs may hold together: what they have, and what is left of its fair share.

    GPUs that its other jobs hold or wait for are not left.
    """
    fair = fair_shares(state, limits).fair_gpus
    elastic: defaultdict[ProjectName, float] = defaultdict(float)
    spoken: defaultdict[ProjectName, float] = defaultdict(float)
    for job in state.jobs.values():
        placement = state.placements.get(job.id)
        ours = job.elastic and job.profile is not None
        if placement is not None:
            (elastic if ours else spoken)[job.project] += placement.size_gpus
        elif not ours:
            spoken[job.project] += job.min_gpus * job.share
    return {
        name: elastic[name] + max(fair.get(name, 0.0) - spoken[name] - elastic[name], 0.0)
        for name in {job.project for job in state.jobs.values()}
    }


def _claims(state: ClusterState, limits: Limits) -> list[Claim]:
    found = []
    for job in sorted(state.jobs.values(), key=lambda job: (-job.priority, job.submitted_ms, job.id)):
        if job.phase is Phase.PAUSED or not job.preemptible or not _may_be_resized(state, job, limits):
            continue
        claim = claim_of(job, _held(state, job.id), limits)
        if claim is not None:
            found.append(claim)
    return found


def _may_be_resized(state: ClusterState, job: Job, limits: Limits) -> bool:
    if limits.is_off(ActionClass.RESIZE, job.project, state.projects):
        return False
    placement = state.placements.get(job.id)
    if placement is None:
        return ActionClass.RESIZE not in job.opted_out
    if job.resized_ms is not None and state.as_of_ms - job.resized_ms < limits.resize_pause_s * 1000:
        return False
    return against_touching(job, placement.gpus, ActionClass.RESIZE, state) is None


def _held(state: ClusterState, job: JobId) -> int:
    placement = state.placements.get(job)
    return 0 if placement is None else len(placement.gpus)


def _worthwhile(
    state: ClusterState, claims: Iterable[Claim], wanted: Mapping[JobId, int], gpus: int, limits: Limits
) -> dict[JobId, int]:
    """The sizes without growth that doesn't pay and without shrinks whose GPUs nobody takes."""
    sizes = dict(wanted)
    for claim in claims:
        size = sizes.get(claim.job, 0)
        if 0 < claim.held < size and growth_pays(state.jobs[claim.job], claim.held, size, limits) is False:
            sizes[claim.job] = claim.held
    left = gpus - sum(sizes.values())
    for claim in sorted(claims, key=lambda each: (each.gpu_s_left, each.job)):
        size = sizes.get(claim.job, 0)
        back = claim.held - size
        if 0 < back <= left and claim.speeds.get(claim.held, 0.0) >= claim.speeds.get(size, 0.0):
            sizes[claim.job] = claim.held
            left -= back
    return sizes


class _Placing:
    """Finds places one change after the other, so that each step can be taken when its turn comes."""

    def __init__(self, state: ClusterState, limits: Limits) -> None:
        self._state, self._limits = state, limits
        self._board = Board(state)

    def steps(self, claims: Iterable[Claim], sizes: Mapping[JobId, int]) -> Iterable[Step]:
        shrinking = [c for c in claims if 0 < sizes.get(c.job, 0) < c.held]
        leaving = [c for c in claims if c.held and not sizes.get(c.job, 0)]
        growing = [c for c in claims if sizes.get(c.job, 0) > c.held]
        for claim in leaving:
            self._board.vacate(claim.job, self._state.placements[claim.job])
            heir = next((each.job for each in growing if each.project == claim.project), None)
            yield Requeue(
                job=claim.job,
                for_job=heir,
                action=ActionClass.RESIZE,
                reason="its GPUs bring shorter jobs further now; its work is saved",
            )
        for claim in shrinking:
            yield from self._replace(claim, sizes[claim.job])
        for claim in sorted(growing, key=lambda each: (-sizes[each.job], each.job)):
            yield from self._replace(claim, sizes[claim.job])
        for claim in claims:
            if claim.held and sizes.get(claim.job, 0) == claim.held:
                yield from self._gather(claim)

    def _replace(self, claim: Claim, size: int) -> Iterable[Step]:
        job, before = self._state.jobs[claim.job], self._state.placements.get(claim.job)
        if before is not None:
            self._board.vacate(job.id, before)
        gpus = self._board.find(job, size)
        if gpus is None:
            if before is not None:
                self._board.occupy(job, before)
            return
        self._board.occupy(job, Placement(gpus=gpus))
        if before is None:
            yield Start(job=job.id, gpus=gpus, reason=f"{size} GPUs are the best use of what is free")
        elif size > len(before.gpus):
            yield Resize(job=job.id, gpus=gpus, reason=f"{size} GPUs pay for the resize")
        else:
            yield Resize(job=job.id, gpus=gpus, reason="other jobs make more of its last GPUs")

    def _gather(self, claim: Claim) -> Iterable[Step]:
        """A move onto fewer nodes when it brings the job on by more than it costs."""
        job, before = self._state.jobs[claim.job], self._state.placements[claim.job]
        nodes = self._nodes(before.gpus)
        if nodes == 1:
            return
        self._board.vacate(job.id, before)
        gpus = self._board.find(job, len(before.gpus))
        if gpus is not None and self._nodes(gpus) < nodes and self._move_pays(job, len(gpus)):
            self._board.occupy(job, Placement(gpus=gpus))
            yield Move(job=job.id, gpus=gpus, reason=f"{self._nodes(gpus)} nodes instead of {nodes}")
        else:
            self._board.occupy(job, before)

    def _move_pays(self, job: Job, size: int) -> bool:
        assert job.profile is not None
        apart, together = step_s(job.profile, size, spread=True), step_s(job.profile, size)
        left = time_left_s(job, size)
        if apart is None or together is None or left is None:
            return False
        cost = self._limits.resize_s if job.profile.resize_s is None else job.profile.resize_s
        slow = left * apart / together
        return (
            slow >= self._limits.resize_costs_left * cost
            and slow / (left + cost) >= self._limits.resize_speedup
        )

    def _nodes(self, gpus: Iterable[GpuUuid]) -> int:
        return len({self._state.gpus[uuid].node for uuid in gpus})
