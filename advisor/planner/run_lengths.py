"""When a job ends: what it reports of itself, else what its age and the site's past jobs tell. Pure.

A job that reports what is left of it ends then, and every job at its time limit. Of another the chance to end
follows from how long past jobs of its kind and size ran that got as old: of those at risk in a step of an
eighth of an octave, how many ended in it, those that still run counted until now (the life table's form of
Kaplan and Meier's estimator, 1958). Where few got as old, jobs of the same kind and any size are
asked, and where these are few, Gott ("Implications of the Copernican principle for our future prospects",
1993): the chance that it ends within ``x`` is ``x / (TYPICAL_S + age + x)``, so that an old one lasts as long
again as likely as not, and one that just began half an hour. Each counts for ``FEW`` jobs in the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, expm1, log, log1p, log2, prod

from advisor.planner.throughput import remaining_s_of
from advisor.state.model import ClusterState, Job
from collector.model import JobKind

MS_PER_S = 1000
TYPICAL_S = 1800.0
"""As likely as not a batch job that just began runs so long: Philly's one-GPU jobs did (25 to 59 minutes)."""
# The prior counts as much as so many recorded jobs: with less of them, the record says little.
FEW = 5.0
SHORTEST_S, STEPS_AN_OCTAVE, STEPS = 60.0, 8, 128
"""Steps of age: from a minute to 45 days. Older jobs are Gott's."""
EDGES_S = (0.0, *(SHORTEST_S * 2 ** (at / STEPS_AN_OCTAVE) for at in range(STEPS)))
GOTT = tuple(log(TYPICAL_S + edge) for edge in EDGES_S)
"""What his hazard sums up to at each of them, but for a constant."""
# Instants on a logarithmic scale from the first: dense where waits are short, and few enough to sum.
SOONEST_S, INSTANTS = 30.0, 48


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLength:
    """So many past ``jobs`` held ``gpus`` GPUs about so long; ``open``: they do still, so it is cut short."""

    kind: JobKind | None
    gpus: int
    length_s: float
    open: bool = False
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class RunLengths:
    """What is known of how long jobs run: the hazard summed up to each of ``EDGES_S``, by kind and size."""

    summed: Mapping[tuple[JobKind | None, int | None], Sequence[float]]

    @classmethod
    def of(cls, runs: Iterable[RunLength] = ()) -> "RunLengths":
        """From the site's past jobs; from none, Gott alone."""
        counted: dict[tuple[JobKind | None, int | None], _Counts] = {}
        for run in runs:
            for key in ((run.kind, None), (run.kind, run.gpus.bit_length())):
                counted.setdefault(key, _Counts()).add(run)
        gott = [end - start for start, end in pairwise(GOTT)]
        of_kind = {kind: counts.hazards(gott) for (kind, size), counts in counted.items() if size is None}
        summed = {
            (kind, size): of_kind[kind] if size is None else counts.hazards(of_kind[kind])
            for (kind, size), counts in counted.items()
        }
        return cls({key: (0.0, *accumulate(hazards)) for key, hazards in summed.items()})

    def ended_by(self, state: ClusterState, job: Job, times_s: Sequence[float]) -> list[float]:
        """The chances 0..1 that a running job has ended so many seconds from now."""
        rest_s = remaining_s_of(job, len(state.placements[job.id].gpus))
        if rest_s is not None:
            return [float(at_s >= rest_s) for at_s in times_s]
        if job.started_ms is None:
            return [0.0] * len(times_s)
        ran_s = (state.as_of_ms - job.started_ms) / MS_PER_S
        return [1.0 - lasts for lasts in self._lasts(job, ran_s, times_s)]

    def lasts_after(self, job: Job, times_s: Sequence[float]) -> list[float]:
        """The chances 0..1 that a job which begins on its fewest GPUs still runs so many seconds later."""
        reported = remaining_s_of(job, job.min_gpus)
        if reported is not None:
            return [float(at_s < reported) for at_s in times_s]
        return self._lasts(job, 0.0, times_s)

    def all_run_s(self, state: ClusterState, jobs: Iterable[Job], horizon_s: float) -> float:
        """Expected seconds from now until the first of these running jobs ends, ``horizon_s`` at most."""
        horizons, guessed = [horizon_s], []
        for job in jobs:
            rest_s = remaining_s_of(job, len(state.placements[job.id].gpus))
            if rest_s is None:
                guessed.append(job)
            else:
                horizons.append(rest_s)
        times = instants(max(0.0, min(horizons)))
        ended = [self.ended_by(state, job, times) for job in guessed]
        lasting = [prod(1 - chance for chance in chances) for chances in zip(*ended, strict=True)]
        return integral(times, lasting or [1.0] * len(times), [1.0] * len(times))

    def _lasts(self, job: Job, age_s: float, times_s: Sequence[float]) -> list[float]:
        """The chances that it gets so many seconds older than ``age_s``, within its time limit."""
        summed = self.summed.get((job.kind, job.min_gpus.bit_length())) or self.summed.get((job.kind, None))
        until_s = float("inf") if job.limit_s is None else job.limit_s - age_s
        so_far = _hazard_to(summed, age_s)
        return [exp(so_far - _hazard_to(summed, age_s + at_s)) if at_s < until_s else 0.0 for at_s in times_s]


class _Counts:
    """Of one kind and size, per step of age: how many ended in it, and how many were last seen in it."""

    def __init__(self) -> None:
        self.ended, self.open = [0.0] * STEPS, [0.0] * STEPS

    def add(self, run: RunLength) -> None:
        """Count jobs of one length; those beyond the last step are at risk all along."""
        step = _step(run.length_s)
        if step < STEPS:
            (self.open if run.open else self.ended)[step] += run.jobs
        else:
            self.open[-1] += run.jobs

    def hazards(self, before: Sequence[float]) -> list[float]:
        """Of each step, ``before`` counting for ``FEW`` jobs; who was last seen in it is there half of it."""
        at_risk, result = sum(self.ended) + sum(self.open), []
        for ended, unfinished, guess in zip(self.ended, self.open, before, strict=True):
            chance = (ended - FEW * expm1(-guess)) / (at_risk - unfinished / 2 + FEW)
            result.append(-log1p(-chance))
            at_risk -= ended + unfinished
        return result


def _step(age_s: float) -> int:
    """The step in which an age lies; ``STEPS`` beyond the last."""
    if age_s < SHORTEST_S:
        return 0
    return min(STEPS, 1 + int(log2(age_s / SHORTEST_S) * STEPS_AN_OCTAVE))


def _hazard_to(summed: Sequence[float] | None, age_s: float) -> float:
    """Up to an age; within a step, and where nothing is known, it goes as Gott's does."""
    so_far = log(TYPICAL_S + age_s)
    if summed is None:
        return so_far
    step = _step(age_s)
    beyond = so_far - GOTT[step]
    if step == STEPS:
        return summed[step] + beyond
    return summed[step] + (summed[step + 1] - summed[step]) * beyond / (GOTT[step + 1] - GOTT[step])


def instants(horizon_s: float) -> tuple[float, ...]:
    """Seconds from now at which chances are reckoned, 0 and ``horizon_s`` included, denser at first."""
    if horizon_s <= SOONEST_S:
        return (0.0, horizon_s)
    ratio = (horizon_s / SOONEST_S) ** (1 / (INSTANTS - 1))
    return (0.0, *(SOONEST_S * ratio**at for at in range(INSTANTS - 1)), horizon_s)


def integral(times_s: Sequence[float], one: Sequence[float], two: Sequence[float]) -> float:
    """Of the product of two curves, by trapezoids."""
    points = [(at_s, a * b) for at_s, a, b in zip(times_s, one, two, strict=True)]
    return sum((end - start) * (low + high) / 2 for (start, low), (end, high) in pairwise(points))
