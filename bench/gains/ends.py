"""Expected gain of what lasts until a job ends, beside what came, for jobs as long as Philly's ran.

*Memory*: a hog on half of a V100 is asked to give back what it does not need. What comes is the part of the
GPU that then finds a place beside it and found none before (``arithmetic.placement``), for as long as the hog
really runs. *Pairs*: two jobs of which Gavel's table knows the speed side by side; what comes is what the
pair adds, for as long as both really run. Each is asked once, as soon as it was measured for long enough.

``TOLD``: jobs report what is left of them. ``GUESSED``: they don't; their age is known, and how long the
trace's jobs ran that were submitted in the week before theirs.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import JobUse, Observed
from advisor.planner.pairing import Experience, PairingRules, Trial
from advisor.planner.placement import Board
from advisor.planner.plan import Abstain, Advice
from advisor.planner.run_lengths import RunLength, RunLengths
from advisor.planner.transition import replay
from advisor.policies import memory_cap, pack
from advisor.sim.traces.philly import read_philly
from advisor.state.model import (
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Profile,
    Project,
    ProjectName,
    Telemetry,
    Use,
)
from analytics.thresholds import SHARED_RESERVE_BYTES
from bench.gains.case import GUESSED, TOLD, Case
from bench.packing import Table
from collector.model import Basis, GpuUuid, JobId, JobKind, NodeName

RULES, LIMITS = PlannerConfig(), Limits()
GIB, MODEL = 1 << 30, "V100"
NODE, LAB = NodeName("n0"), ProjectName("lab")
AGE_S = max(RULES.startup_s, RULES.pack_window_s)
NOW_MS = 1_767_225_600_000
PARTS = 20
"""Of a GPU: how finely a place beside a hog is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """``asked``: seconds that the jobs ran which are advised on; ``known``: what is known of those before."""

    asked: Sequence[float]
    known: RunLengths


def lengths(folder: Path) -> Lengths:
    """Of Philly's one-GPU jobs: of a week those that ran long enough to be advised on; of the week before."""
    before, after = (_ran(folder, days) for days in ("2017-10-03..2017-10-09", "2017-10-10..2017-10-16"))
    return Lengths(
        asked=[length_s for length_s in after if length_s > AGE_S],
        known=RunLengths.of(RunLength(kind=JobKind.BATCH, gpus=1, length_s=length_s) for length_s in before),
    )


def memory(ran: Lengths, seed: int, count: int) -> Iterator[Case]:
    """So many hogs, each told and guessed."""
    draw = random.Random(seed)
    for _ in range(count):
        length_s, needs, busy = draw.choice(ran.asked), draw.uniform(2, 9), draw.uniform(0.05, 0.6)
        for kind in (TOLD, GUESSED):
            yield _freed(kind, length_s, _use("hog", busy, needed=int(needs * GIB)), ran.known)


def pairs(table: Table, ran: Lengths, seed: int, count: int) -> Iterator[Case]:
    """So many pairs of the table that are worth it, each told and guessed."""
    draw = random.Random(seed)
    floor = PairingRules().foreground_floor
    good = sorted(couple for couple, speeds in table.items() if max(speeds) >= floor and sum(speeds) > 1.1)
    for _ in range(count):
        couple, both = draw.choice(good), (draw.choice(ran.asked), draw.choice(ran.asked))
        for kind in (TOLD, GUESSED):
            mine = [_job(f"job-{at}", name, kind, both[at]) for at, name in enumerate(couple)]
            yield Case(
                kind=kind,
                expected=_joined(mine, table[couple], ran.known).gain_gpu_hours,
                came=(sum(table[couple]) - 1) * _runs_h(min(both)),
            )


def _ran(folder: Path, days: str) -> list[float]:
    coming = read_philly(folder / "philly_jobs.csv.gz", days)
    return [job.work.steps for job in coming.jobs if job.gpus == 1]


def _freed(kind: str, length_s: float, use: JobUse, known: RunLengths) -> Case:
    hog = replace(_job("hog", "hog", kind, length_s), share=0.5, memory_held_bytes=14 * GIB)
    state = _cluster(hog)
    advice = _only(memory_cap.advise(state, Observed(uses={hog.id: use}, endings=known), LIMITS, RULES))
    room = _room_beside(replay(state, advice.steps)) - _room_beside(state)
    part = min(room, 1 - (use.utilization_p95_ratio or 0.0))
    return Case(kind=kind, expected=advice.gain_gpu_hours, came=part * _runs_h(length_s))


def _joined(both: Sequence[Job], speeds: tuple[float, float], known: RunLengths) -> Advice:
    """What is advised on two that were measured side by side."""
    names = pack.profile_of(both[0]), pack.profile_of(both[1])
    trial = Trial(first=names[0], second=names[1], first_speed=speeds[0], second_speed=speeds[1], windows=9)
    seen = Observed(
        endings=known,
        uses={job.id: _use(job.id, 0.3) for job in both},
        experience={MODEL: Experience(gpu_model=MODEL, trials={names: trial})},
    )
    return _only(pack.advise(_cluster(*both), seen, LIMITS, RULES))


def _runs_h(length_s: float) -> float:
    """Hours from the advice to the end, within the horizon."""
    return min(length_s - AGE_S, RULES.horizon_s) / 3600


def _job(job: str, name: str, kind: str, length_s: float) -> Job:
    """One that has run for ``AGE_S`` of its ``length_s``."""
    told = Profile(step_s={1: 1.0}, steps_left=length_s - AGE_S) if kind == TOLD else None
    return Job(
        id=JobId(job),
        project=LAB,
        user="ann",
        name=name,
        framework="PyTorch",
        phase=Phase.RUNNING,
        preemptible=True,
        checkpointable=True,
        attached=False,
        use=Use.ACTIVE,
        memory_bytes=4 * GIB,
        profile=told,
        started_ms=NOW_MS - AGE_S * 1000,
    )


def _cluster(*jobs: Job) -> ClusterState:
    """Each on a GPU of its own."""
    uuids = [GpuUuid(f"g{at}") for at in range(len(jobs))]
    return ClusterState(
        as_of_ms=NOW_MS,
        nodes={NODE: Node(name=NODE)},
        gpus={
            uuid: Gpu(uuid=uuid, node=NODE, model=MODEL, memory_bytes=16 * GIB, telemetry=Telemetry.GOOD)
            for uuid in uuids
        },
        projects={LAB: Project(name=LAB)},
        jobs={job.id: job for job in jobs},
        placements={
            job.id: Placement(gpus=(uuid,), share=job.share) for job, uuid in zip(jobs, uuids, strict=True)
        },
    )


def _use(job: str, busy: float, needed: int | None = None) -> JobUse:
    return JobUse(
        job=JobId(job),
        from_ms=NOW_MS - AGE_S * 1000,
        to_ms=NOW_MS,
        coverage_ratio=1.0,
        rung=Basis.SM_ACTIVE,
        held_gpu_hours=AGE_S / 3600,
        utilization_p95_ratio=busy,
        memory_peak_bytes=4 * GIB,
        gpus_used=1,
        memory_needed_bytes=needed,
    )


def _room_beside(state: ClusterState) -> float:
    """The largest part of the GPU, with as much of its memory, for which somebody else finds a place."""
    guest = replace(
        state.jobs[JobId("hog")], id=JobId("guest"), phase=Phase.PENDING, user="bob", memory_held_bytes=None
    )
    places = (
        at / PARTS
        for at in range(PARTS - 1, 0, -1)
        if Board(state).find(
            replace(
                guest, share=at / PARTS, memory_bytes=int((16 * GIB - SHARED_RESERVE_BYTES) * at / PARTS)
            ),
            1,
        )
    )
    return next(places, 0.0)


def _only(answers: Sequence[Advice | Abstain]) -> Advice:
    (advice,) = (each for each in answers if isinstance(each, Advice))
    return advice
