"""Idle times that come again and again: whose, how many hours, and what a limit would give back. Pure.

Advice speaks of who is idle now; a week's waste is mostly of times that have ended. The same people are often
idle in the same way each night, and a limit on idle time helps against that whoever runs now.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch
from advisor.policies.idle_escalation import Rung, clock_s
from advisor.whatif.idle_times import given_back_after
from collector.model import JobId, JobKind

DAY_MS = 86_400_000
LEAST_TIMES, LEAST_DAYS = 3, 2
"""Once is a day, twice a repetition; three times on at least two days is a habit."""
WORTH_GPU_HOURS = 1.0
"""Less is not worth a limit to anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A person's idle times of one kind of job over a window, and what a limit of ``limit_s`` gives back.

    They are those that a finding would have called idle (``advisor.whatif.idle_clocks``), and what is given
    back is counted from there where that is later than the limit.
    Only idle times after which the job did not work again, as far as the window tells, give anything back: of
    others a limit would have ended work to come. ``ended_jobs`` are the jobs that it would have ended so, and
    ``ended_gpu_hours`` what of their idle times lies past it.
    Jobs of which no person is named are nobody's habit together: each stands for itself, and ``job`` names it
    where ``user`` is ``None``. ``days`` are UTC days on which one began.
    ``idle_gpu_hours`` are those of the times themselves, in which all GPUs of a job did nothing.
    """

    user: str | None
    kind: JobKind | None
    times: int
    days: int
    jobs: int
    idle_gpu_hours: float
    limit_s: float
    gives_back_gpu_hours: float
    ended_jobs: int = 0
    ended_gpu_hours: float = 0.0
    job: JobId | None = None


def recurring(stretches: Sequence[IdleStretch], rules: PlannerConfig) -> tuple[Recurring, ...]:
    """The habits among idle times that are worth a limit, the largest gain first.

    The limit is the time after which the ladder would put a job back in its queue, so that it surprises
    nobody who knows the ladder; hours are counted as ``fallow whatif`` counts them. Servers have no limit:
    what waits for a caller scales to zero.
    """
    groups: defaultdict[tuple[str | None, JobId | None, JobKind | None], list[IdleStretch]]
    groups = defaultdict(list)
    for each in stretches:
        if each.kind is not JobKind.INFERENCE and each.length_s >= each.found_s:
            # two jobs whose owners nobody knows may be two people's
            groups[each.user, each.job if each.user is None else None, each.kind].append(each)
    result = [_of(user, job, kind, each, rules) for (user, job, kind), each in groups.items()]
    worth = [
        each
        for each in result
        if each.times >= LEAST_TIMES
        and each.days >= LEAST_DAYS
        and each.gives_back_gpu_hours + each.ended_gpu_hours >= WORTH_GPU_HOURS
    ]
    return tuple(sorted(worth, key=_rank))


def _rank(habit: Recurring) -> tuple[float, float, str, str, str]:
    whose = (habit.user or "", habit.job or "", habit.kind or "")
    return -habit.gives_back_gpu_hours, -habit.ended_gpu_hours, *whose


def _of(
    user: str | None,
    job: JobId | None,
    kind: JobKind | None,
    stretches: Sequence[IdleStretch],
    rules: PlannerConfig,
) -> Recurring:
    limit_s = float(clock_s(Rung.REQUEUE, kind, rules))
    ended = [each for each in stretches if each.worked_after and each.length_s > limit_s]
    unused = [each for each in stretches if not each.worked_after]
    return Recurring(
        user=user,
        job=job,
        kind=kind,
        times=len(stretches),
        days=len({each.from_ms // DAY_MS for each in stretches}),
        jobs=len({each.job for each in stretches}),
        idle_gpu_hours=sum(each.length_s / 3600 * each.gpus for each in stretches),
        limit_s=limit_s,
        gives_back_gpu_hours=given_back_after(unused, lambda _: limit_s),
        ended_jobs=len({each.job for each in ended}),
        ended_gpu_hours=given_back_after(ended, lambda _: limit_s),
    )
