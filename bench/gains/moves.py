"""Expected gain of moving fractions so that a gang fits, beside how long it then waits without the moves.

Fractions, single GPUs and gangs come by chance to four nodes of eight GPUs and run as long as jobs of
Philly's did. Fallow schedules them, and nobody follows the advice. When a gang is first advised moves, what
they are expected to bring is kept; what they would have brought is known when it starts by itself: the GPU
time that it would have had instead of waiting, less what the moves cost, within the horizon. That the moves
let it start at once is tried with ``advisor.planner.transition``.

``TOLD``: jobs report what is left of them, as trainings under the library do. ``GUESSED``: they don't: their
age is known, and how long those ran that came before them (``advisor.planner.run_lengths``).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.decide import decide
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Advice
from advisor.planner.run_lengths import RunLength, RunLengths
from advisor.planner.transition import replay
from advisor.policies import consolidate
from advisor.sim.cluster import Cluster
from advisor.sim.job import MS, Life
from advisor.sim.traces.philly import read_philly
from advisor.sim.workload import TraceJob, Work, Workload
from advisor.sim.world import Physics, World
from advisor.state.model import ClusterState, Phase, Profile
from bench.gains.case import GUESSED, TOLD, Case
from collector.model import JobId, JobKind

CLUSTER = Cluster(nodes=4, gpus_per_node=8)
RULES, LIMITS = PlannerConfig(), Limits()
EVERY_S = 1900.0
KINDS = ((1, 0.25, 40), (1, 0.5, 20), (1, 1.0, 20), (2, 1.0, 8), (4, 1.0, 8), (8, 1.0, 4))
"""GPUs, share of each, and how often of a hundred."""
SHORTEST_S, LONGEST_S = 600.0, 2 * 86_400.0
TICK_S = 60.0
LOOKS_MS = 1_800_000


@dataclass(slots=True)
class Watched:
    """A world that Fallow schedules; ``reports`` when its jobs tell what is left of them."""

    world: World
    reports: bool
    looked_ms: int = 0
    endings: RunLengths = field(default_factory=RunLengths.of)

    def state(self) -> ClusterState:
        """A snapshot, with what jobs report of themselves."""
        seen = self.world.observe()
        if not self.reports:
            return seen
        told = {
            name: replace(
                job, profile=Profile(step_s={job.min_gpus: 1.0}, steps_left=self.world.left_s(name))
            )
            for name, job in seen.jobs.items()
        }
        return replace(seen, jobs=told)

    def observed(self) -> Observed:
        """How long jobs ran, or run so far, that came before this half-hour; nothing else was measured."""
        now_ms = self.world.now_ms()
        if now_ms - self.looked_ms >= LOOKS_MS:
            begun = (life for life in self.world.lives.values() if life.first_start_ms is not None)
            self.looked_ms, self.endings = now_ms, RunLengths.of(_run_length(life, now_ms) for life in begun)
        return Observed(endings=self.endings)

    def tick(self) -> ClusterState:
        """A minute on, or to the next event while nobody waits; the state after the decision."""
        event = self.world.next_event_ms()
        if self.world.totals.waiting_jobs or event is None:
            self.world.sleep(TICK_S)
        else:
            self.world.advance(event)
        self.world.do_all(decide(self.state(), LIMITS).steps)
        return self.state()


def cases(folder: Path, seeds: Sequence[int], *, jobs: int = 700) -> list[Case]:
    """Every gang's first advice, told and guessed, of so many jobs a seed."""
    lengths = _lengths(folder)
    return [
        case
        for seed in seeds
        for reports in (True, False)
        for case in _advised(workload(seed, lengths, jobs), reports)
    ]


def workload(seed: int, lengths: dict[int, list[float]], count: int) -> Workload:
    """Jobs by chance, as long as Philly's of as many GPUs."""
    chance, at_s, jobs = random.Random(seed), 0.0, []
    for number in range(count):
        at_s += chance.expovariate(1 / EVERY_S)
        gpus, share, _ = chance.choices(KINDS, [often for *_, often in KINDS])[0]
        work = Work(steps=chance.choice(lengths[gpus]))
        jobs.append(
            TraceJob(
                name=f"job-{number:04d}", project="pool", submitted_s=at_s, gpus=gpus, share=share, work=work
            )
        )
    return Workload(origin=f"seed {seed}", jobs=tuple(jobs))


def _advised(coming: Workload, reports: bool) -> Iterator[Case]:
    physics = Physics(resize_s=lambda _: float(RULES.move_s), saves_on_request=True)
    watched = Watched(World(CLUSTER, coming, physics), reports)
    first: dict[JobId, tuple[int, Advice]] = {}
    while not watched.world.finished:
        state = watched.tick()
        if not watched.world.totals.waiting_jobs:
            continue
        for advice in consolidate.advise(state, watched.observed(), LIMITS, RULES):
            if isinstance(advice, Advice) and advice.job is not None and advice.job not in first:
                assert replay(state, advice.steps).jobs[advice.job].phase is Phase.RUNNING
                first[advice.job] = (state.as_of_ms, advice)
    kind = TOLD if reports else GUESSED
    for job, (at_ms, advice) in first.items():
        yield Case(
            kind=kind, expected=advice.gain_gpu_hours, came=_came(watched.world.lives[job], at_ms, advice)
        )


def _run_length(life: Life, now_ms: int) -> RunLength:
    began_ms = now_ms if life.first_start_ms is None else life.first_start_ms
    ended_ms = now_ms if life.end_ms is None else life.end_ms
    return RunLength(
        kind=JobKind.BATCH,
        gpus=life.job.gpus,
        length_s=(ended_ms - began_ms) / MS,
        open=life.end_ms is None,
    )


def _came(gang: Life, at_ms: int, advice: Advice) -> float:
    """GPU-hours that the gang would have had instead of waiting on from ``at_ms``, less what moves cost."""
    assert gang.first_start_ms is not None
    waited_s = (gang.first_start_ms - at_ms) / MS
    spared_s = min(waited_s, gang.job.work.steps, RULES.horizon_s)
    cost_h = next(each.value for each in advice.evidence if each.name == "cost_gpu_hours")
    return max(0.0, spared_s * gang.job.gpus / 3600 - float(cost_h or 0.0))


def _lengths(folder: Path) -> dict[int, list[float]]:
    """Seconds that Philly's jobs ran, by their GPUs."""
    found: dict[int, list[float]] = {}
    for job in read_philly(folder / "philly_jobs.csv.gz", "2017-10-03..2017-10-16").jobs:
        if SHORTEST_S < job.work.steps < LONGEST_S:
            found.setdefault(job.gpus, []).append(job.work.steps)
    return found
