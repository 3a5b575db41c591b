"""Who could give way, project by project, the first to go first; judged only when his turn comes. Pure.

Within one round nobody's protection changes, so each running job is judged at most once against each level of
the tree. The order is the one in ``preemption``: shrink, pause held-idle, requeue; then the lowest priority,
the most idle GPU-hours, the most recently started.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

from advisor.actions import Pause, Requeue
from advisor.planner.free_gpus import Pool
from advisor.planner.plan import Rule
from advisor.planner.protection import against_disturbing, against_touching
from advisor.planner.quota import Cover, quota_cover
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.state.model import ActionClass, Job, ProjectName, Use, held_gpus
from collector.model import JobId

HOUR_MS = 3_600_000
SHRINK, PAUSE, REQUEUE, OWN = range(4)
"""The order of means. OWN: who is covered by the quota of the asker's own project, the last to go."""

OWNERS = (Rule.OPTED_OUT, Rule.KEPT, Rule.NOT_PREEMPTIBLE, Rule.ATTACHED)
"""Objections that an owner's word removes."""
BLOCKERS = 2
"""So many who are in the way by their owners' word are named: enough to begin asking."""

Order = tuple[int, int, float, float, int, str]
Class = tuple[int, int, float]
"""Means, priority and idle GPU-hours: among those of one class the least harm decides."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running job that could go down to ``floor`` GPUs; 0: it leaves. ``level`` is what counts of it."""

    job: Job
    floor: int
    level: ProjectName | None
    rank: Class = (0, 0, 0.0)


class Source:
    """Running jobs of one or many projects in the order in which they give way.

    Where the asker is ``guaranteed`` its place, they need not be over their fair share.
    ``levels`` names the subtree whose fair share counts against each project, ``None`` for the asker's own.
    ``objections`` counts the rules that protected those whose turn has come; ``blockers`` are the first whom
    their owners protect. Whoever was passed over for good
    is never looked at again: ``_after`` leads past him. Whoever runs on GPUs that are promised to somebody is
    passed over as long as no promise ends, and ``promised`` counts them by head; ``_beyond`` leads past them.
    Not so among an asker's own project, where most cannot give way for him anyhow.
    """

    def __init__(
        self,
        round: WorkingState,
        jobs: Iterable[Job],
        levels: Mapping[ProjectName, ProjectName | None],
        cover: Cover,
        departed: set[JobId],
        *,
        guaranteed: bool = False,
    ) -> None:
        self._guaranteed = guaranteed
        self.objections: Counter[Rule] = Counter()
        self.blockers: list[tuple[Job, Rule]] = []
        self._round, self._levels, self._cover, self._gone = round, levels, cover, departed
        self._entries = sorted(self._ordered(jobs), key=lambda entry: entry[0])
        self._floors: dict[int, int | None] = {}
        self._after: dict[int, int] = {}
        self.promised: Counter[JobId] = Counter()
        self._beyond: dict[int, int] = {}
        self._released = round.board.released

    def next(self, at: int) -> int | None:
        """The next place in line from ``at`` on where somebody can give way; ``None`` at the end."""
        if self._released != self._round.board.released:
            self._released = self._round.board.released
            self._beyond, self.promised = {}, Counter()
        passed: list[int] = []
        at = self._standing(at)
        while at < len(self._entries) and self._is_promised(at):
            passed.append(at)
            at = self._standing(self._beyond.get(at, at + 1))
        self._beyond.update(dict.fromkeys(passed, at))
        return at if at < len(self._entries) else None

    def order(self, place: int) -> Order:
        """What the one at this place is sorted by."""
        return self._entries[place][0]

    def at(self, place: int) -> Candidate:
        """Who is at this place."""
        job, floor = self._entries[place][1], self._floor(place)
        assert floor is not None
        return Candidate(job, floor, self._levels[job.project], self._entries[place][0][:3])

    def _standing(self, at: int) -> int:
        """The first from ``at`` on who is not passed over for good."""
        passed = []
        while at < len(self._entries) and not self._stands(at):
            passed.append(at)
            at = self._after.get(at, at + 1)
        self._after.update(dict.fromkeys(passed, at))
        return at

    def _is_promised(self, place: int) -> bool:
        if place in self._beyond:
            return True
        job = self._entries[place][1]
        if self._levels[job.project] is None:
            return False
        heads = self._round.board.promised_heads(self._round.state.placements[job.id].gpus)
        self.promised.update(heads)
        return bool(heads)

    def _stands(self, place: int) -> bool:
        job = self._entries[place][1]
        if job.id in self._gone or self._floor(place) is None:
            return False
        level, round = self._levels[job.project], self._round
        if level is None or self._guaranteed or round.given[level] > round.fair[level] + SHARE_SLACK:
            return True
        self._floors[place] = None
        return False

    def _floor(self, place: int) -> int | None:
        if place not in self._floors:
            order, job = self._entries[place]
            result = self._shrinking(job) if order[0] == SHRINK else self._leaving(job)
            if isinstance(result, Rule):
                self.objections[result] += 1
                if result in OWNERS and len(self.blockers) < BLOCKERS:
                    self.blockers.append((job, result))
            self._floors[place] = None if isinstance(result, Rule) else result
        return self._floors[place]

    def _ordered(self, jobs: Iterable[Job]) -> Iterator[tuple[Order, Job]]:
        for job in jobs:
            idle, lost = -(job.idle_gpu_hours or 0.0), lost_gpu_hours(self._round, job)
            rest = (job.priority, idle, lost, -(job.started_ms or 0), job.id)
            kind = PAUSE if job.use is Use.IDLE else REQUEUE
            is_own = self._levels[job.project] is None
            yield (OWN if is_own and self._covered(job) > 0 else kind, *rest), job
            if job.max_gpus > job.min_gpus and job.share == 1:
                yield (SHRINK, *rest), job

    def _covered(self, job: Job) -> float:
        path, level = self._round.tree.paths[job.project], self._levels[job.project]
        levels = path[:1] if level is None else path[: path.index(level) + 1]
        return max(self._cover.covered[name].get(job.id, 0.0) for name in levels)

    def _shrinking(self, job: Job) -> int | Rule | None:
        round, gpus = self._round, self._round.state.placements[job.id].gpus
        floor = job.min_gpus
        if self._levels[job.project] is not None:
            floor = max(floor, ceil(self._covered(job) / job.share - SHARE_SLACK))
        if len(gpus) <= floor:
            return None
        if round.limits.is_off(ActionClass.RESIZE, job.project, round.state.projects):
            return Rule.MODE
        if job.resized_ms is not None and round.now_ms - job.resized_ms < round.limits.resize_pause_s * 1000:
            return Rule.COOLDOWN
        objection = against_touching(job, gpus, ActionClass.RESIZE, round.state)
        return floor if objection is None else objection.rule

    def _leaving(self, job: Job) -> int | Rule:
        round, gpus = self._round, self._round.state.placements[job.id].gpus
        if self._levels[job.project] is not None and self._covered(job) > 0:
            return Rule.IN_QUOTA
        if way_out(job) is None:
            return Rule.OPTED_OUT
        if round.limits.is_off(ActionClass.FAIR_SHARE, job.project, round.state.projects):
            return Rule.MODE
        objection = against_disturbing(job, gpus, ActionClass.FAIR_SHARE, round.state, round.limits)
        return 0 if objection is None else objection.rule


def way_out(job: Job) -> type[Pause | Requeue] | None:
    """How it gives way, as its owner allows: paused where it is idle and can be, else put back in line."""
    paused = job.use is Use.IDLE and job.checkpointable
    ways: tuple[type[Pause | Requeue], ...] = (Pause, Requeue) if paused else (Requeue,)
    return next((way for way in ways if way.__name__.lower() not in job.withheld), None)


def lost_gpu_hours(round: WorkingState, job: Job) -> float:
    """The work that a job loses when it leaves: none if it is paused, else all since its checkpoint."""
    if way_out(job) is Pause:
        return 0.0
    since_ms = max(job.started_ms or 0, job.checkpoint_ms or 0)
    return (
        max(0, round.now_ms - since_ms)
        / HOUR_MS
        * held_gpus(round.state.placements[job.id], round.state.gpus)
    )


class Candidates:
    """All that runs; ``gone`` are those that this round has made give way.

    Projects under the asker's own root are asked one by one, because what counts of each depends on where the
    two meet in the tree. Everybody else meets him above all roots, so they stand in one line for all askers,
    a line for each kind of GPU.
    """

    def __init__(self, round: WorkingState) -> None:
        self._round = round
        self.gone: set[JobId] = set()
        self._running: dict[ProjectName, list[Job]] | None = None
        self._cover: Cover | None = None
        self._near: dict[tuple[ProjectName, ProjectName | None, bool], Source] = {}
        self._abroad: dict[bool, dict[Pool | None, Source]] = {}

    def sources(self, job: Job, entitled: int, *, guaranteed: bool = False) -> list[Source]:
        """Whom the job may take from now, when it is entitled to it on that many levels of the tree.

        ``guaranteed``: whoever borrows, over his fair share or not.
        """
        runners, paths = self._runners(), self._round.tree.paths
        mine, result = paths[job.project], []
        if job.project in runners:
            result.append(self._source(job.project, None))
        if entitled and len(mine) > 1:
            for name in runners:
                if name != job.project and paths[name][-1] == mine[-1]:
                    level, depth = levels(paths[name], mine)
                    if entitled >= depth:
                        result.append(self._source(name, level, guaranteed=guaranteed))
        if entitled == len(mine):
            lines = self._lines(guaranteed=guaranteed)
            result += [lines[pool] for pool in self._round.board.may_use(job) if pool in lines]
        return result

    def _runners(self) -> dict[ProjectName, list[Job]]:
        if self._running is None:
            self._running = {}
            for id in self._round.state.placements:
                job = self._round.state.jobs[id]
                self._running.setdefault(job.project, []).append(job)
        return self._running

    def _covers(self) -> Cover:
        if self._cover is None:
            self._cover = quota_cover(self._round.state, self._round.tree)
        return self._cover

    def _source(self, name: ProjectName, level: ProjectName | None, *, guaranteed: bool = False) -> Source:
        source = self._near.get((name, level, guaranteed))
        if source is None:
            jobs, of = self._runners()[name], {name: level}
            source = Source(self._round, jobs, of, self._covers(), self.gone, guaranteed=guaranteed)
            self._near[name, level, guaranteed] = source
        return source

    def _lines(self, *, guaranteed: bool) -> dict[Pool | None, Source]:
        if guaranteed not in self._abroad:
            round, by_kind = self._round, defaultdict(list)
            for jobs in self._runners().values():
                for job in jobs:
                    by_kind[round.board.kind_of(round.state.placements[job.id].gpus)].append(job)
            roots = {name: round.tree.paths[name][-1] for name in self._runners()}
            self._abroad[guaranteed] = {
                kind: Source(round, jobs, roots, self._covers(), self.gone, guaranteed=guaranteed)
                for kind, jobs in by_kind.items()
            }
        return self._abroad[guaranteed]


class Line:
    """Those who could give way, over all sources, the first in order first; sources may join meanwhile."""

    def __init__(self) -> None:
        self._heap: list[tuple[Order, int, int]] = []
        self.sources: list[Source] = []

    def join(self, sources: Iterable[Source]) -> None:
        """Let these take part, who do not yet."""
        for source in sources:
            if source not in self.sources:
                self.sources.append(source)
                self._push(len(self.sources) - 1, 0)

    def __iter__(self) -> Iterator[Candidate]:
        while self._heap:
            _, number, place = heappop(self._heap)
            yield self.sources[number].at(place)
            self._push(number, place + 1)

    def _push(self, number: int, at: int) -> None:
        place = self.sources[number].next(at)
        if place is not None:
            heappush(self._heap, (self.sources[number].order(place), number, place))


def levels(theirs: tuple[ProjectName, ...], mine: tuple[ProjectName, ...]) -> tuple[ProjectName, int]:
    """The highest project of ``theirs`` that is not above ``mine``; how many of ``mine`` are not common."""
    common = set(theirs) & set(mine)
    level = next((name for name in reversed(theirs) if name not in common), theirs[0])
    return level, sum(1 for name in mine if name not in common)
