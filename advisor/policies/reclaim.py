"""Who gives way when a waiting job finds no room: by which right, in which order, and how few. Pure.

The right. A job's project must be *entitled* to it: with the job, no level of its tree, up to where it meets
its victim's, is above its fair share. It takes from a project that is above its own fair share, and there only
what no quota covers. The two are compared just below their common ancestor. So whoever takes ends at a
saturation (given over fair share) of at most 1, and whoever loses was above 1: nobody can take back what was taken from him (KAI, Kueue). Within
one project a job takes from those of strictly lower priority, and from elastic siblings what they have beyond
their smallest world.

The order (docs/decide.md): first elastic jobs shrink; then held-idle jobs are paused, or requeued when they
cannot be; then others are requeued. Within each: the lowest priority, the most idle GPU-hours, the most
recently started. Then the set is thinned from its end: nobody gives way who needn't.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from math import ceil

from advisor.limits import Mode
from advisor.model import ActionClass, Job, Placement, ProjectName, Use
from advisor.placement import shrunk
from advisor.plan import Rule
from advisor.protection import against_disturbing, against_touching
from advisor.quota import Cover, quota_cover
from advisor.round import Round
from advisor.steps import Pause, Requeue
from advisor.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId

SOON = (Rule.MIN_RUNTIME, Rule.COOLDOWN, Rule.IN_FLIGHT, Rule.RATE)
"""Objections that time alone removes."""

Order = tuple[int, int, float, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """Why no room could be made; ``soon`` when time alone will make it."""

    rule: Rule
    reason: str
    would_change: str
    entitled: bool
    soon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A running job that could go down to ``floor`` GPUs; 0: it leaves."""

    job: Job
    order: Order
    floor: int


@dataclass(slots=True, kw_only=True)
class _Source:
    """What one project could give up to another, the first to go first; ``level`` is what counts of it."""

    level: ProjectName | None
    candidates: deque[_Candidate] = field(default_factory=deque)
    objections: Counter[Rule] = field(default_factory=Counter)


class Reclaimer:
    """Makes room for waiting jobs out of what runs; reads each project's running jobs once."""

    def __init__(self, round: Round) -> None:
        self._round = round
        self._running: dict[ProjectName, list[Job]] | None = None
        self._cover: Cover | None = None
        self._sources: dict[tuple[ProjectName, ProjectName | None], _Source] = {}
        self._hopeless: dict[tuple[object, ...], Short] = {}
        self._gone: set[JobId] = set()

    def make_room(self, job: Job, *, may_reclaim: bool = True) -> Short | None:
        """Have others give way until the job fits, or say why not; then nothing was changed."""
        entitled = self._round.entitled(job, job.min_gpus * job.share) if may_reclaim else 0
        shape = (
            job.project,
            job.priority,
            job.min_gpus,
            job.share,
            job.gpu_models,
            job.memory_bytes,
            entitled,
        )
        known = self._hopeless.get(shape)
        if known is not None:
            return known
        sources = self._eligible(job, entitled)
        room = _Room(self._round, job)
        held = self._round.board.held_for(job.id)
        self._round.board.fulfil(job.id)
        if self._search(job, sources, room):
            self._commit(job, room)
            return None
        room.undo()
        if held:
            self._round.board.promise(job.id, self._round.state.reservations[job.id].start_ms, held)
        self._hopeless[shape] = self._why(job, entitled, sources)
        return self._hopeless[shape]

    def _search(self, job: Job, sources: list[_Source], room: "_Room") -> bool:
        """Let candidates give way one by one, first the first in order, until the job fits; then thin out."""
        bound = self._round.limits.actions_per_hour
        braked = bound is not None and self._round.disturbed >= bound
        taken: defaultdict[ProjectName, float] = defaultdict(float)
        streams = [_stream(source) for source in sources]
        for candidate, level in merge(*streams, key=lambda each: each[0].order):
            if candidate.job.id in self._gone:
                continue
            if candidate.floor == 0 and (braked or candidate.job.id in self._round.resized):
                continue
            if not self._may_lose(candidate, level, job, taken):
                continue
            freed = room.shrink(candidate.job, candidate.floor)
            if level is not None:
                taken[level] += freed
            if freed and room.is_enough():
                room.thin_out()
                return True
        return False

    def _may_lose(
        self, candidate: _Candidate, level: ProjectName | None, job: Job, taken: dict[ProjectName, float]
    ) -> bool:
        if level is None:
            rank = candidate.job.priority - job.priority
            return rank <= 0 if candidate.floor else rank < 0
        return self._round.given[level] - taken[level] > self._round.fair[level] + SHARE_SLACK

    def _commit(self, job: Job, room: "_Room") -> None:
        room.undo()
        for id, kept in room.chosen():
            victim = self._round.state.jobs[id]
            if kept:
                self._round.resize(
                    victim, kept, f"shrinks so that {job.id} of {job.project} can start", job.id
                )
                continue
            self._gone.add(id)
            reason = _reason(self._round, victim, job)
            if victim.use is Use.IDLE and victim.checkpointable:
                self._round.give_way(
                    Pause(job=id, for_job=job.id, action=ActionClass.FAIR_SHARE, reason=reason)
                )
            else:
                self._round.give_way(Requeue(job=id, for_job=job.id, reason=reason))

    def _eligible(self, job: Job, entitled: int) -> list[_Source]:
        """Whom the job may take from, now."""
        round, sources = self._round, []
        for name in self._runners():
            if name == job.project:
                sources.append(self._source(name, None, job))
            elif entitled:
                mine, theirs = round.tree.paths[job.project], round.tree.paths[name]
                level = _below_common(theirs, mine)
                if entitled < len(mine) and _below_common(mine, theirs) not in mine[:entitled]:
                    continue
                if round.given[level] > round.fair[level] + SHARE_SLACK:
                    sources.append(self._source(name, level, job))
        return sources

    def _runners(self) -> dict[ProjectName, list[Job]]:
        if self._running is None:
            self._running = {}
            for id in self._round.state.placements:
                job = self._round.state.jobs[id]
                self._running.setdefault(job.project, []).append(job)
        return self._running

    def _source(self, name: ProjectName, level: ProjectName | None, job: Job) -> _Source:
        source = self._sources.get((name, level))
        if source is None:
            source = self._sources[name, level] = self._read(name, level, job)
        while source.candidates and source.candidates[0].job.id in self._gone:
            source.candidates.popleft()
        return source

    def _read(self, name: ProjectName, level: ProjectName | None, asker: Job) -> _Source:
        if self._cover is None:
            self._cover = quota_cover(self._round.state, self._round.tree)
        source, found = _Source(level=level), []
        for job in self._runners()[name]:
            covered = self._cover.gpus(job, None if level is None else asker.project)
            for candidate in (self._shrinking(job, level, covered), self._leaving(job, covered)):
                if isinstance(candidate, _Candidate):
                    found.append(candidate)
                elif candidate is not None:
                    source.objections[candidate] += 1
        source.candidates = deque(sorted(found, key=lambda each: each.order))
        return source

    def _shrinking(self, job: Job, level: ProjectName | None, covered: float) -> _Candidate | Rule | None:
        round, gpus = self._round, self._round.state.placements[job.id].gpus
        floor = job.min_gpus if level is None else max(job.min_gpus, ceil(covered / job.share - SHARE_SLACK))
        if not job.elastic or job.share < 1 or len(gpus) <= floor:
            return None
        if round.limits.mode(ActionClass.RESIZE) is Mode.OFF:
            return Rule.MODE
        if job.resized_ms is not None and round.now_ms - job.resized_ms < round.limits.resize_pause_s * 1000:
            return Rule.COOLDOWN
        objection = against_touching(job, gpus, ActionClass.RESIZE, round.state)
        if objection is not None:
            return objection.rule
        return _Candidate(job=job, order=(0, *_victim_order(job)), floor=floor)

    def _leaving(self, job: Job, covered: float) -> _Candidate | Rule:
        round, gpus = self._round, self._round.state.placements[job.id].gpus
        if covered > 0:
            return Rule.IN_QUOTA
        if round.limits.mode(ActionClass.FAIR_SHARE) is Mode.OFF:
            return Rule.MODE
        objection = against_disturbing(job, gpus, ActionClass.FAIR_SHARE, round.state, round.limits)
        if objection is not None:
            return objection.rule
        return _Candidate(job=job, order=(1 if job.use is Use.IDLE else 2, *_victim_order(job)), floor=0)

    def _why(self, job: Job, entitled: int, sources: list[_Source]) -> Short:
        round = self._round
        counted: Counter[Rule] = sum((source.objections for source in sources), Counter())
        bound = round.limits.actions_per_hour
        if bound is not None and round.disturbed >= bound and any(source.candidates for source in sources):
            counted[Rule.RATE] += 1
        free = sum(pool.free for pool in round.board.may_use(job))
        asks = f"it needs {job.min_gpus * job.share:g} GPUs at once and {free} that it can use are free whole"
        if not round.board.may_use(job):
            asks = "no GPU of the cluster has the model and memory it asks for"
        if not entitled:
            given, fair = round.given[job.project], round.fair[job.project]
            return Short(
                rule=Rule.NO_ROOM,
                reason=f"{asks}; {job.project} has {given:g} of its fair share of {fair:.3g} GPUs, "
                "so others need not give way",
                would_change="jobs ending, or others wanting less",
                entitled=False,
            )
        kept = ", ".join(f"{count} {rule.value}" for rule, count in sorted(counted.items()))
        return Short(
            rule=Rule.NO_ROOM,
            reason=f"{asks}; those over their fair share cannot give way for it"
            + (f" ({kept})" if kept else ""),
            would_change="time" if any(rule in SOON for rule in counted) else "jobs ending",
            entitled=True,
            soon=any(rule in SOON for rule in counted),
        )


class _Room:
    """What would be free for a job if some gave way: tried on the round's board, and undone."""

    def __init__(self, round: Round, job: Job) -> None:
        self._round, self._job = round, job
        self._before: dict[JobId, Placement] = {}
        self._after: dict[JobId, Placement | None] = {}

    def is_enough(self) -> bool:
        """Whether the job fits now."""
        return self._round.board.fits(self._job, self._job.min_gpus)

    def shrink(self, victim: Job, floor: int) -> float:
        """Have a running job go down towards ``floor`` GPUs, no further than is needed; GPUs freed."""
        board, before = self._round.board, self._now(victim.id)
        if before is None or not board.is_useful(before.gpus, self._job):
            return 0.0
        keep = floor
        if floor:
            lacking = self._job.min_gpus - board.free_beside(before.gpus)
            keep = max(floor, len(before.gpus) - lacking)
        if keep >= len(before.gpus):
            return 0.0
        after = None
        if keep:
            gpus = shrunk(self._round.state, before.gpus, keep)
            after = Placement(gpus=gpus, share=before.share)
        self._before.setdefault(victim.id, before)
        self._swap(victim, before, after)
        return before.size_gpus - (0.0 if after is None else after.size_gpus)

    def thin_out(self) -> None:
        """Let everybody stay who needn't go, the last chosen first."""
        for id in reversed(tuple(self._after)):
            victim, after = self._round.state.jobs[id], self._after[id]
            self._swap(victim, after, self._before[id])
            if self.is_enough():
                del self._after[id]
            else:
                self._swap(victim, self._before[id], after)

    def chosen(self) -> tuple[tuple[JobId, tuple[GpuUuid, ...]], ...]:
        """Who gives way, and what each goes on with; nothing for those that leave."""
        return tuple((id, () if after is None else after.gpus) for id, after in self._after.items())

    def undo(self) -> None:
        """Put everybody back on the board."""
        for id, after in self._after.items():
            self._restore(self._round.state.jobs[id], after, self._before[id])

    def _now(self, id: JobId) -> Placement | None:
        return self._after[id] if id in self._after else self._round.placements.get(id)

    def _swap(self, victim: Job, before: Placement | None, after: Placement | None) -> None:
        self._restore(victim, before, after)
        self._after[victim.id] = after

    def _restore(self, victim: Job, before: Placement | None, after: Placement | None) -> None:
        board = self._round.board
        if before is not None:
            board.vacate(victim.id, before)
        if after is not None:
            board.occupy(victim, after)


def _stream(source: _Source) -> Iterator[tuple[_Candidate, ProjectName | None]]:
    for candidate in source.candidates:
        yield candidate, source.level


def _victim_order(job: Job) -> tuple[int, float, int, str]:
    return (job.priority, -(job.idle_gpu_hours or 0.0), -(job.started_ms or 0), job.id)


def _below_common(path: tuple[ProjectName, ...], other: tuple[ProjectName, ...]) -> ProjectName:
    """The highest project of ``path`` that is not also above ``other``."""
    above = set(other)
    return next((name for name in reversed(path) if name not in above), path[0])


def _reason(round: Round, victim: Job, job: Job) -> str:
    if victim.project == job.project:
        return f"{job.id} of the same project has priority {job.priority}, above its {victim.priority}"
    idle = "it is held idle, and " if victim.use is Use.IDLE else ""
    mine, fair = round.given[victim.project], round.fair[victim.project]
    return (
        f"{idle}{victim.project} has {mine:g} GPUs of a fair share of {fair:.3g}; {job.project}, with "
        f"{round.given[job.project]:g} of {round.fair[job.project]:.3g}, starts {job.id} there"
    )
