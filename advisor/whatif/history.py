"""A recorded window, and the cluster as it lay at any instant of it. Pure.

Who held which GPUs is measured; what jobs asked for is known of those that were submitted here. A job that
was submitted waits from then until it first got GPUs: what it waited later, paused or put back, is not
counted. Everybody is taken to have worked, and all GPUs to have been well: what idle times would have given
back is asked for itself.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from advisor.jobs.slowdown_watchdog import Pair
from advisor.planner.observed import IdleStretch, PastJob, Price
from advisor.planner.quota import housed
from advisor.planner.run_lengths import RunLength, RunLengths
from advisor.state.model import ClusterState, Gpu, Job, Node, Phase, Placement, Project, ProjectName, Use
from advisor.state.site_protection import Protect, with_protection
from collector.model import GpuUuid, JobId, JobKind

MOST_LOOKS = 1000
"""Of more instants at which something changed, evenly as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What was asked for with a job. ``rigid``: it cannot be moved, paused or resized."""

    job: Job
    rigid: bool
    memory_needed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A GPU that a job had for a time, a ``share`` 0..1 of it; at the longest until the window's end."""

    job: JobId
    uuid: GpuUuid
    share: float
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A GPU that was there for a time, at ``place``, its node and index; ``to_ms`` ``None``: still there."""

    gpu: Gpu
    place: str
    from_ms: int
    to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A recorded window: idle times and jobs, what was asked for, who held what when, and prices by model.

    ``earlier`` and ``later`` are the jobs of its two halves, ``pairs`` those that were put on one GPU.
    """

    from_ms: int = 0
    to_ms: int = 0
    stretches: Sequence[IdleStretch] = ()
    jobs: Sequence[PastJob] = ()
    earlier: Sequence[PastJob] = ()
    later: Sequence[PastJob] = ()
    pairs: Sequence[Pair] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    submitted: Mapping[JobId, Submitted] = field(default_factory=dict)
    holdings: Sequence[Holding] = ()
    installed: Sequence[Installed] = ()
    projects: Mapping[ProjectName, Project] = field(default_factory=dict)
    protect: Protect = field(default_factory=Protect)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """From a job's first GPU to its last: the stretches in which it had any, and the most at once."""

    stretches: tuple[tuple[int, int], ...]
    gpus: int

    @classmethod
    def of(cls, holdings: Iterable[Holding]) -> "_Span":
        """Of what one job had."""
        changes: Counter[int] = Counter()
        for each in holdings:
            changes[each.from_ms] += 1
            changes[each.to_ms] -= 1
        stretches, held, most = list[tuple[int, int]](), 0, 0
        for from_ms, to_ms in pairwise(sorted(changes)):
            held += changes[from_ms]
            most = max(most, held)
            if held and stretches and stretches[-1][1] == from_ms:
                stretches[-1] = (stretches[-1][0], to_ms)
            elif held:
                stretches.append((from_ms, to_ms))
        at_ms = min(changes)
        return cls(stretches=tuple(stretches) or ((at_ms, at_ms),), gpus=max(most, 1))

    @property
    def begins_ms(self) -> int:
        return self.stretches[0][0]

    @property
    def ends_ms(self) -> int:
        return self.stretches[-1][1]

    def held_ms(self, by_ms: int) -> int:
        """For how long it had any, seen at ``by_ms``."""
        return sum(min(to_ms, by_ms) - from_ms for from_ms, to_ms in self.stretches if from_ms < by_ms)


@dataclass(frozen=True)
class Moments:
    """The cluster at the instants of a window. ``allowed`` says who would have consented to be touched."""

    past: Past
    allowed: Callable[[Job], bool]

    def looks(self, rests_s: float = 0.0) -> tuple[int, ...]:
        """The instants within the window at which somebody asked, got GPUs or gave some back; in order.

        Also when those who got some had them for ``rests_s``: what is not done to jobs that just began.
        """
        rests_ms = round(rests_s * 1000)
        edges = {self.past.from_ms, *(each.from_ms + rests_ms for each in self.past.holdings)}
        edges |= {each.job.submitted_ms for each in self.past.submitted.values()}
        edges |= {edge for each in self.past.holdings for edge in (each.from_ms, each.to_ms)}
        within = sorted(edge for edge in edges if self.past.from_ms <= edge < self.past.to_ms)
        if len(within) <= MOST_LOOKS:
            return tuple(within)
        return tuple(within[at * len(within) // MOST_LOOKS] for at in range(MOST_LOOKS))

    def began_ms(self, job: JobId) -> int | None:
        """When it first got GPUs; ``None``: not within the window."""
        span = self._spans.get(job)
        return None if span is None else span.begins_ms

    def left_ms(self, job: JobId) -> int:
        """When it gave its last one back, or the end of the window."""
        return self._spans[job].ends_ms

    def waiting(self, at_ms: int) -> tuple[Job, ...]:
        """Who had been submitted by then and got its first GPU later."""
        return tuple(job for job, began_ms in self._waiters if job.submitted_ms <= at_ms < began_ms)

    def there(self, at_ms: int) -> set[JobId]:
        """Who held a GPU then."""
        return {each.job for each in self._begun_by(at_ms) if each.to_ms > at_ms}

    def next_waiter_ms(self, at_ms: int) -> int:
        """When somebody next asked for GPUs and did not get them at once, or the window's end."""
        at = bisect_right(self._asked, at_ms)
        return self._asked[at] if at < len(self._asked) else self.past.to_ms

    def next_comer_ms(self, gpus: Iterable[GpuUuid], at_ms: int, known: Container[JobId]) -> int:
        """When one of these GPUs was next gone, or given to somebody not ``known``, or the window's end."""
        comers = (
            each.from_ms
            for uuid in gpus
            for each in self._on.get(uuid, ())
            if each.from_ms > at_ms and each.job not in known
        )
        ends = (self._gone[uuid] for uuid in gpus if uuid in self._gone)
        return min((*comers, *ends), default=self.past.to_ms)

    def at(self, at_ms: int, instead: Mapping[JobId, Placement] | None = None) -> ClusterState:
        """The cluster then; the jobs that are named in ``instead`` run there, wherever they were.

        Unless one of the GPUs is gone by then.
        """
        gpus = {
            each.gpu.uuid: each.gpu
            for each in self.past.installed
            if each.from_ms <= at_ms and (each.to_ms is None or each.to_ms > at_ms)
        }
        moved = {id: each for id, each in (instead or {}).items() if gpus.keys() >= set(each.gpus)}
        placements = {**self._placed(at_ms, gpus), **moved}
        waiting = {job.id: job for job in self.waiting(at_ms) if job.id not in placements}
        running = {id: self._running(id, at_ms, placed) for id, placed in placements.items()}
        state = ClusterState(
            as_of_ms=at_ms,
            nodes={gpu.node: Node(name=gpu.node) for gpu in gpus.values()},
            gpus=gpus,
            projects=self.past.projects,
            jobs={**running, **waiting},
            placements=placements,
        )
        return housed(with_protection(state, self.past.protect, self._places))

    def endings(self, at_ms: int) -> RunLengths:
        """How long jobs run, as far as that had been seen by then."""
        return RunLengths.of(
            RunLength(
                kind=self._kind(id),
                gpus=span.gpus,
                length_s=span.held_ms(at_ms) / 1000,
                open=span.ends_ms > at_ms,
            )
            for id, span in self._spans.items()
            if span.begins_ms < at_ms
        )

    def _placed(self, at_ms: int, gpus: Mapping[GpuUuid, Gpu]) -> dict[JobId, Placement]:
        """Who held what; where more of a GPU was given away than there is, each has its part of it."""
        there = [each for each in self._begun_by(at_ms) if each.to_ms > at_ms and each.uuid in gpus]
        given: defaultdict[GpuUuid, float] = defaultdict(float)
        mine: defaultdict[JobId, dict[GpuUuid, float]] = defaultdict(dict)
        for each in there:
            if each.uuid not in mine[each.job]:
                given[each.uuid] += each.share
                mine[each.job][each.uuid] = each.share
        return {
            job: Placement(
                gpus=tuple(sorted(shares)),
                share=min(share / max(1.0, given[uuid]) for uuid, share in shares.items()),
            )
            for job, shares in mine.items()
        }

    def _running(self, id: JobId, at_ms: int, placed: Placement) -> Job:
        began = self.began_ms(id)
        begun_ms, size = at_ms if began is None else min(began, at_ms), len(placed.gpus)
        key = (id, begun_ms, size, placed.share)
        if key not in self._made:
            job = self._known(id)
            self._made[key] = replace(
                job,
                phase=Phase.RUNNING,
                use=Use.ACTIVE,
                started_ms=begun_ms,
                min_gpus=min(job.min_gpus, size) if job.elastic else size,
                max_gpus=max(job.max_gpus, size) if job.elastic else size,
                share=placed.share,
            )
        return self._made[key]

    def _known(self, id: JobId) -> Job:
        """The job with the word of its owner, had everybody been asked who would have been."""
        submitted, sampled = self.past.submitted.get(id), self._jobs.get(id)
        job = self._jobs[id] if submitted is None else submitted.job
        if job.memory_bytes is None and sampled is not None:
            job = replace(job, memory_bytes=sampled.memory_bytes)
        if (submitted is None or not submitted.rigid) and self.allowed(job):
            job = replace(job, preemptible=True, checkpointable=True)
        return replace(job, attached=None if job.kind is JobKind.INTERACTIVE else False)

    def _begun_by(self, at_ms: int) -> Sequence[Holding]:
        return self._by_start[: bisect_right(self._starts, at_ms)]

    def _kind(self, id: JobId) -> JobKind | None:
        submitted = self.past.submitted.get(id)
        return self._jobs[id].kind if submitted is None else submitted.job.kind

    @cached_property
    def _made(self) -> dict[tuple[JobId, int, int, float], Job]:
        """Running jobs that were made already: most are the same from one instant to the next."""
        return {}

    @cached_property
    def _by_start(self) -> Sequence[Holding]:
        return sorted(self._usable, key=lambda each: (each.from_ms, each.job, each.uuid))

    @cached_property
    def _starts(self) -> Sequence[int]:
        return [each.from_ms for each in self._by_start]

    @cached_property
    def _usable(self) -> Sequence[Holding]:
        """Of jobs of which something is known."""
        jobs = {*self._jobs, *self.past.submitted}
        return [each for each in self.past.holdings if each.job in jobs]

    @cached_property
    def _spans(self) -> Mapping[JobId, _Span]:
        held: dict[JobId, list[Holding]] = {}
        for each in self._usable:
            held.setdefault(each.job, []).append(each)
        return {job: _Span.of(mine) for job, mine in held.items()}

    @cached_property
    def _waiters(self) -> Sequence[tuple[Job, int]]:
        """Who waited, and until when."""
        begun = ((each.job, self.began_ms(id)) for id, each in self.past.submitted.items())
        return [(job, at_ms) for job, at_ms in begun if at_ms is not None and at_ms > job.submitted_ms]

    @cached_property
    def _gone(self) -> Mapping[GpuUuid, int]:
        """When GPUs went that did not stay."""
        return {each.gpu.uuid: each.to_ms for each in self.past.installed if each.to_ms is not None}

    @cached_property
    def _asked(self) -> Sequence[int]:
        return sorted(job.submitted_ms for job, _ in self._waiters)

    @cached_property
    def _places(self) -> Mapping[GpuUuid, str]:
        return {each.gpu.uuid: each.place for each in self.past.installed}

    @cached_property
    def _on(self) -> Mapping[GpuUuid, Sequence[Holding]]:
        result: dict[GpuUuid, list[Holding]] = {}
        for each in self._usable:
            result.setdefault(each.uuid, []).append(each)
        return result

    @cached_property
    def _jobs(self) -> Mapping[JobId, Job]:
        return {past.job.id: past.job for past in self.past.jobs}
