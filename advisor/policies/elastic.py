"""Elastic jobs grow onto GPUs that nobody waits for, where that pays for the resize. Pure.

(They shrink in ``preemption``, before anybody is paused.) GPUs go one growth at a time to the largest
marginal goodput: with ``S(n) = t(min) / t(n)`` the speed on ``n`` GPUs against the smallest world,

    gain(n -> m) = (S(m) - S(n)) / (m - n)          per GPU, the best m a job can have

first to jobs whose project still deserves them, then to the others, whose growth is borrowed and goes back
when asked for. Nobody grows while somebody waits who is under quota and could use the same GPUs. How fast a
job is on more GPUs than it ever had is found out by giving it some: towards what its owner asked for,
doubling each time, after all growth that was measured, and where it would pay if its speed went on as it did
so far.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from advisor.planner.free_gpus import Pool
from advisor.planner.limits import Mode
from advisor.planner.placement import works
from advisor.planner.plan import Rule
from advisor.planner.protection import against_touching
from advisor.planner.throughput import amplification, base_gpus, growth_pays, hoped, speedup
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.state.model import ActionClass, Job, Phase, Placement
from collector.model import JobId


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Wish:
    """A growth that would pay; the best sorts first."""

    borrowed: bool
    unmeasured: bool
    loss: float
    before: int
    job: JobId
    after: int


def grow(round: WorkingState) -> None:
    """Let elastic jobs have what is left over."""
    if round.board.free_gpus:
        sizes = Sizes(round)
        sizes.settle()
        sizes.apply()


class Sizes:
    """Sizes that elastic jobs are to have; nothing is placed before all are known.

    Of equals nobody grows twice before the others have. ``guaranteed``: as far as quotas cover them, whoever
    has the GPUs now.
    """

    def __init__(self, round: WorkingState, *, guaranteed: bool = False) -> None:
        self._round, self._guaranteed = round, guaranteed
        self._jobs: dict[JobId, tuple[Job, Pool]] = {}
        closed = set() if guaranteed else _awaited(round)
        waiting = {job.project for job in _refused(round)} if guaranteed else ()
        for job, pool in _growable(round):
            if pool not in closed and job.project not in waiting:
                self._jobs[job.id] = (job, pool)
        self.size = {id: len(round.placements[id].gpus) for id in self._jobs}
        pools = [pool for _, pool in self._jobs.values()]
        self._free = Counter({pool: pool.size if guaranteed else pool.free for pool in pools})
        self._given = dict(round.given)

    def settle(self) -> None:
        """Hand the free GPUs out, the best growth first, until none pays."""
        wishes = [wish for id in self._jobs if (wish := self._wish(id)) is not None]
        heapify(wishes)
        while wishes:
            wish = heappop(wishes)
            again = self._wish(wish.job)
            if again != wish:
                if again is not None:
                    heappush(wishes, again)
                continue
            job, pool = self._jobs[wish.job]
            more = wish.after - wish.before
            self.size[wish.job] = wish.after
            self._free[pool] -= more
            for name in self._round.tree.paths[job.project]:
                self._given[name] += more
            if (again := self._wish(wish.job)) is not None:
                heappush(wishes, again)

    def apply(self) -> None:
        """Place what was settled."""
        for id, size in self.size.items():
            own = self._round.placements[id].gpus
            job, _ = self._jobs[id]
            more = size - len(own)
            result = self._round.board.find_beside(job, own, more) if more else None
            if result is not None:
                self._round.resize(job, own + result, _reason(job, len(own), size))

    def _wish(self, id: JobId) -> _Wish | None:
        """The growth that this job would have next, ``None`` when it wants or may have none."""
        job, pool = self._jobs[id]
        before = self.size[id]
        room = self._room(job)
        most = min(job.max_gpus, before + self._free[pool], before + room)
        if job.on_one_node:
            own = self._round.placements[id].gpus
            most = min(most, len(own) + self._round.board.room_beside(own, ever=self._guaranteed))
        best: _Wish | None = None
        for after, gain in _gains(self._round, job, before, most):
            fair = self._round.fair
            borrowed = not all(
                self._given[name] + (after - before) <= fair[name] + SHARE_SLACK
                for name in self._round.tree.paths[job.project]
            )
            wish = _Wish(
                borrowed=borrowed,
                unmeasured=gain is None,
                loss=-(gain or 0.0),
                job=id,
                before=before,
                after=after,
            )
            best = wish if best is None else min(best, wish)
        return best

    def _room(self, job: Job) -> int:
        """GPUs that the limits above it still allow, or what is guaranteed it within its fair shares."""
        tree, path, allocated = self._round.tree, self._round.tree.paths[job.project], self._given
        room = self._guarantee(job) if self._guaranteed else float(job.max_gpus)
        for name in path:
            limit = tree.projects[name].limit_gpus
            if limit is not None:
                room = min(room, limit - allocated[name])
        return max(int(room + SHARE_SLACK), 0)

    def _guarantee(self, job: Job) -> float:
        """GPUs that a quota leaves for it, on the level that leaves most, within the fair shares below that.

        What the levels above lent to others counts as returned once these give way (``preemption``).
        """
        most, fair = 0.0, float(job.max_gpus)
        for name in self._round.tree.paths[job.project]:
            fair = min(fair, self._round.fair[name] - self._given[name])
            most = max(most, min(fair, self._round.tree.quotas[name] - self._given[name]))
        return most


def _growable(round: WorkingState) -> Iterator[tuple[Job, Pool]]:
    """Running and newly started elastic jobs that may be resized now, with the kind of GPU they are on."""
    for id, placement in round.placements.items():
        job = round.state.jobs[id]
        if not job.elastic or job.share < 1 or len(placement.gpus) >= job.max_gpus or id in round.resized:
            continue
        if not all(works(round.state.gpus[uuid]) for uuid in placement.gpus):
            continue
        pool = round.board.pool_of(placement.gpus[0])
        if pool is not None and pool.part_of_device is None and _may_be_resized(round, job, placement):
            yield job, pool


def _may_be_resized(round: WorkingState, job: Job, placement: Placement) -> bool:
    projects = round.state.projects
    if job.id in round.new:  # nobody is resized who is started larger
        off = round.limits.mode_for(ActionClass.RESIZE, job.project, projects) is Mode.OFF
        return not off and job.phase is Phase.PENDING and ActionClass.RESIZE not in job.opted_out
    if round.limits.is_off(ActionClass.RESIZE, job.project, projects):
        return False
    pause_ms = round.limits.resize_pause_s * 1000
    if job.resized_ms is not None and round.now_ms - job.resized_ms < pause_ms:
        return False
    return against_touching(job, placement.gpus, ActionClass.RESIZE, round.state) is None


def _awaited(round: WorkingState) -> set[Pool]:
    """Kinds of GPU that somebody under quota waits for, and could get."""
    awaited: set[Pool] = set()
    for job in _refused(round):
        size = job.min_gpus * job.share
        if round.given[job.project] + size <= round.tree.quotas[job.project] + SHARE_SLACK:
            awaited.update(pool for pool in round.board.may_use(job) if pool.most(job) >= job.min_gpus)
    return awaited


def _refused(round: WorkingState) -> Iterator[Job]:
    """Who is told to go on waiting."""
    refused = (
        each for each in round.refused if each.action is ActionClass.SCHEDULE and each.rule is not Rule.AFTER
    )
    return (round.state.jobs[each.job] for each in refused)


def _gains(round: WorkingState, job: Job, before: int, most: int) -> Iterator[tuple[int, float | None]]:
    """Sizes that pay, each with its gain a GPU; beyond what was measured the doubled size, gain unknown."""
    new = job.id in round.new
    if most > before and _is_tried(round, job, before, min(2 * before, most), new=new):
        yield min(2 * before, most), None
    if job.profile is None:
        return
    for after in range(before + 1, most + 1):
        gain = speedup(job.profile, before, after)
        base = speedup(job.profile, base_gpus(job), before)
        if gain is not None and base is not None and _pays(round, job, before, after, new=new):
            yield after, base * (gain - 1) / (after - before)


def _is_tried(round: WorkingState, job: Job, before: int, after: int, *, new: bool) -> bool:
    """Whether to find out how fast it is there: it has been measured on what it has, and on no more."""
    if job.profile is None:
        return True
    if before != max(job.profile.step_s):
        return False
    hopeful = replace(job, profile=hoped(job.profile, after))
    return _pays(round, hopeful, before, after, new=new)


def _pays(round: WorkingState, job: Job, before: int, after: int, *, new: bool) -> bool:
    if not new:
        return growth_pays(job, len(round.placements[job.id].gpus), after, round.limits) is True
    assert job.profile is not None
    gain = speedup(job.profile, before, after)
    grown = amplification(job.profile, after, base_gpus(job))
    return gain is not None and gain > 1 and grown is not None and grown <= round.limits.amplification


def _reason(job: Job, before: int, after: int) -> str:
    gain = None if job.profile is None else speedup(job.profile, before, after)
    if gain is None:
        return f"{after - before} more GPUs are free, and its owner asked for up to {job.max_gpus}"
    return (
        f"{after - before} more GPUs are free, and on {after} it is {gain:.2f} times as fast as on {before}"
        f"{_by(job, before, after)}"
    )


def _by(job: Job, *sizes: int) -> str:
    """What is not measured is said to be a prediction."""
    guessed = job.profile is not None and not job.profile.predicted.isdisjoint(sizes)
    return " (predicted from its layers, not measured)" if guessed else ""
