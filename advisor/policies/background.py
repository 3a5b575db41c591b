"""Which background job computes in whose idle gaps. Pure.

A background job is given no GPU and counts to nobody's quota: it waits in a queue of its own, by priority and
arrival, for a job that announces idle gaps and whose owner lets it. The one with the largest gaps is
filled first. What it gains is expected by what that job's gaps are in its own steps; nothing is expected, and
nothing started, before those were counted (`Abstain`).
"""

from collections.abc import Iterator

from advisor.actions import StartBackground
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice, Rule
from advisor.planner.protection import Objection, against_background
from advisor.policies.phrases import job_name
from advisor.state.model import ActionClass, ClusterState, IdleGaps, Job, Telemetry
from analytics import text
from analytics.model import Evidence
from collector.model import GpuUuid, JobId

LEAST_STEPS = 16
"""Steps that a foreground must have counted: eight of them are controls, from which its gaps are known."""

HARVESTED = 0.5
"""The part of the gap time that a background job can be expected to fill: 0.44 of 0.50 and 0.24 of 0.51 of
its own speed on a model of an H100 (decision 0078), 45% of the time of gaps of 60 ms between two trainings on
one processor."""

LEAST_PART = 0.02
"""A foreground that waits for a smaller part of its step is no place: switching costs as much."""

CONFIDENCE = 0.7
"""What the next hours' gaps are is taken from the last steps'."""

TOO_SLOW, SURE_STEPS = 1.1, 400
"""A foreground that its guard could not keep within this ratio over so many steps is left alone: twenty of
those steps were controls."""

Place = tuple[float, JobId, GpuUuid, IdleGaps]


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """A start for each background job that finds a place, and for every other that waits why it doesn't."""
    waiting = sorted(
        (job for id, job in state.background.items() if id not in state.beside and not job.held),
        key=lambda each: (-each.priority, each.submitted_ms, each.id),
    )
    occupied = {gpu for _, gpu in state.beside.values()}
    answers: list[Advice | Abstain] = []
    for job in waiting:
        places, objections = [], []
        for place in _places(state):
            objection = _against(job, place, occupied, state)
            if objection is None:
                places.append(place)
            else:
                objections.append(objection)
        if places:
            best = max(places, key=lambda each: (each[0], each[1], each[2]))
            occupied.add(best[2])
            answers.append(_advice(state, job, best, rules))
        else:
            answers.append(_abstain(job, objections))
    return tuple(answers)


def _places(state: ClusterState) -> Iterator[Place]:
    """Every GPU of a running job that announces idle gaps, with the part of its steps that they are."""
    for id in sorted(state.placements):
        host = state.jobs[id]
        for gpu in state.placements[id].gpus:
            gaps = host.idle_gaps.get(gpu)
            if gaps is not None and gaps.page:
                yield _part(gaps) or 0.0, id, gpu, gaps


def _part(gaps: IdleGaps) -> float | None:
    """The part of a step that its gaps are, 0 to 1; ``None`` where that was not measured."""
    if gaps.steps < LEAST_STEPS or gaps.alone_s is None or gaps.gaps_s is None:
        return None
    return min(1.0, gaps.gaps_s / gaps.alone_s)


def _against(job: Job, place: Place, occupied: set[GpuUuid], state: ClusterState) -> Objection | None:
    part, beside, gpu, gaps = place
    objection = against_background(job.id, beside, gpu, state)
    if objection is not None:
        return objection
    if gpu in occupied:
        return Objection(
            rule=Rule.NO_ROOM,
            reason=f"another job is in the idle gaps of {beside} already",
            would_change="its end",
        )
    if job.gpu_models and state.gpus[gpu].model not in job.gpu_models:
        return Objection(rule=Rule.NO_ROOM, reason=f"the GPU of {beside} is of another model")
    if state.gpus[gpu].telemetry is not Telemetry.GOOD:
        return Objection(
            rule=Rule.TELEMETRY,
            reason=f"what is measured of the GPU of {beside} is {state.gpus[gpu].telemetry.value}",
            would_change="good telemetry",
        )
    if _part(gaps) is None:
        return Objection(
            rule=Rule.NOT_MEASURED,
            reason=f"{beside} has not counted enough of its steps yet ({gaps.steps} of {LEAST_STEPS})",
            would_change="a few more of its steps",
        )
    if part < LEAST_PART:
        return Objection(
            rule=Rule.DOES_NOT_PAY,
            reason=f"{beside} waits for {text.percent(part)} of its steps only",
            would_change="a job with larger idle gaps",
        )
    return None


def too_slow(gaps: IdleGaps) -> bool:
    """Whether a foreground is slower beside others than its guard should ever let it be."""
    return gaps.steps >= SURE_STEPS and (gaps.slowdown_ratio or 0.0) > TOO_SLOW


def _advice(state: ClusterState, job: Job, place: Place, rules: PlannerConfig) -> Advice:
    part, beside, gpu, gaps = place
    host = state.jobs[beside]
    where = state.gpus[gpu]
    gain = part * where.part * HARVESTED * rules.horizon_s / 3600
    return Advice(
        action=ActionClass.BACKGROUND,
        what=f"Start {job_name(job)} in the idle gaps of {job_name(host)} on {where.node}",
        why=f"{job_name(host)} lets its GPU wait for {text.percent(part)} of each of its steps; a background "
        f"job computes then and at no other time, and {text.percent(HARVESTED)} of that is expected to be "
        "used.",
        job=job.id,
        gpus=(gpu,),
        steps=(
            StartBackground(
                job=job.id,
                beside=beside,
                gpus=(gpu,),
                reason=f"in the idle gaps of {beside}, {text.percent(part)} of its steps",
            ),
        ),
        evidence=(
            Evidence(name="foreground_job", value=beside),
            Evidence(name="foreground_steps", value=gaps.steps),
            Evidence(name="foreground_step_s", value=gaps.alone_s),
            Evidence(name="idle_gaps_s", value=gaps.gaps_s),
        ),
        gain_gpu_hours=gain,
        horizon_s=float(rules.horizon_s),
        risk=f"{host.user or 'the owner'} may be slowed down until the guard, which compares steps with and "
        "without it, has lowered its share; nothing isolates the two, and a fault of one can end both",
        risk_to=(host.user,) if host.user is not None else (),
        confidence=CONFIDENCE,
    )


def _abstain(job: Job, objections: list[Objection]) -> Abstain:
    """The objection that is nearest to being lifted stands for all: the last one asked about."""
    order = [Rule.NO_ROOM, Rule.NOT_MEASURED, Rule.TELEMETRY, Rule.OPTED_OUT, Rule.PROTECTED]
    objection = min(
        objections,
        key=lambda each: order.index(each.rule) if each.rule in order else len(order),
        default=Objection(
            rule=Rule.NO_ROOM,
            reason="no job here announces idle gaps",
            would_change="a training under `fallow run --elastic` that uses fallow's trainer",
        ),
    )
    return Abstain(
        action=ActionClass.BACKGROUND,
        reason=objection.reason,
        would_change=objection.would_change,
        job=job.id,
    )
