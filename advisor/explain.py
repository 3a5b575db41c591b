"""Why something is advised, done or left alone, and what would change it: one answer about one subject.

Pure. It gathers what policies, planner and guard have said already; no rule is asked anew here, so that an
explanation can never differ from the decision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from advisor.actions import Action
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice, Plan
from advisor.planner.quota import known_as
from advisor.policies.phrases import kind_noun
from advisor.state.model import ClusterState, Gpu, Job, Telemetry, Use
from analytics import text
from analytics.model import IDLENESS, FindingKind
from collector.model import GpuUuid, JobId

Name = TypeVar("Name", JobId, GpuUuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """Something that is not done or not advised: of which class, why, and what would change it."""

    action: str
    reason: str
    would_change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that was said of one subject; ``kind`` is job, gpu or advice. ``facts`` are sentences."""

    kind: str
    name: str
    facts: tuple[str, ...]
    advice: tuple[Advice, ...] = ()
    steps: tuple[Action, ...] = ()
    why_not: tuple[WhyNot, ...] = ()


KIND_UNKNOWN = (
    "Whether it is a terminal, a server or a batch job is not known: it has the clocks of a batch job, which "
    "are the longer ones."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuch:
    """Nothing has this name; ``near`` are names that it may have meant."""

    name: str
    near: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """All that was decided about one snapshot."""

    state: ClusterState
    observed: Observed
    answers: tuple[Advice | Abstain, ...]
    plan: Plan


def explain(name: str, said: Said, places: dict[str, GpuUuid]) -> Explanation | NoSuch:
    """The answer about ``name``: an advice's id, a job's id (or its end), a GPU's UUID or its place."""
    for each in said.answers:
        if isinstance(each, Advice) and advice_id(each) == name:
            return _of_advice(each, said)
    job = _only(job for job in said.state.jobs if job == name or job.split(":")[-1] == name)
    if job is not None:
        return _of_job(said.state.jobs[job], said)
    uuid = places.get(name) or _only(uuid for uuid in said.state.gpus if uuid.startswith(name))
    if uuid is not None:
        return _of_gpu(said.state.gpus[uuid], said, places)
    known = [*said.state.jobs, *places, *(advice_id(a) for a in said.answers if isinstance(a, Advice))]
    return NoSuch(name=name, near=tuple(each for each in known if name.lower() in each.lower())[:5])


def advice_id(advice: Advice | Abstain) -> str:
    """What an advice is called: its class and its job, for example ``reclaim/slurm:812``."""
    return f"{advice.action.value}/{advice.job or ','.join(advice.gpus)}"


def _of_advice(advice: Advice, said: Said) -> Explanation:
    job = None if advice.job is None else said.state.jobs.get(advice.job)
    facts = (advice.what, advice.why, *(() if job is None else job_facts(job, said)))
    inner = () if job is None else _why_not((job.id,), said, action=advice.action.value)
    return Explanation(
        kind="advice",
        name=advice_id(advice),
        facts=facts,
        advice=(advice,),
        steps=_steps((advice.job,), said.plan),
        why_not=(*_held_back(advice), *inner),
    )


def _of_job(job: Job, said: Said) -> Explanation:
    given = tuple(each for each in said.answers if isinstance(each, Advice) and _concerns(each, (job.id,)))
    back = tuple(entry for advice in given for entry in _held_back(advice))
    return Explanation(
        kind="job",
        name=job.id,
        facts=job_facts(job, said),
        advice=given,
        steps=_steps((job.id,), said.plan),
        why_not=(*back, *_why_not((job.id,), said)),
    )


def _of_gpu(gpu: Gpu, said: Said, places: dict[str, GpuUuid]) -> Explanation:
    jobs = tuple(job for job, placement in said.state.placements.items() if gpu.uuid in placement.gpus)
    place = next((name for name, uuid in places.items() if uuid == gpu.uuid), gpu.uuid)
    facts = [f"{place} is a {gpu.model or 'GPU'}, UUID {gpu.uuid}."]
    if not jobs:
        facts.append("Nobody holds it." if not gpu.occupied else "Nobody was given it, and somebody uses it.")
    facts += [f"{fact}" for job in jobs for fact in job_facts(said.state.jobs[job], said)]
    facts += [f.sentence for f in said.observed.analysis.findings if f.uuid == gpu.uuid and f.holder is None]
    facts += ["Not judged lately: what it does is unknown."] if said.observed.analysis.overdue else []
    facts += [f"Not judged: {u.reason}." for u in said.observed.analysis.unknown if u.uuid == gpu.uuid]
    given = tuple(
        each
        for each in said.answers
        if isinstance(each, Advice) and (gpu.uuid in each.gpus or _concerns(each, jobs))
    )
    return Explanation(
        kind="gpu",
        name=place,
        facts=tuple(facts),
        advice=given,
        steps=_steps(jobs, said.plan),
        why_not=(*(entry for advice in given for entry in _held_back(advice)), *_why_not(jobs, said)),
    )


def job_facts(job: Job, said: Said) -> tuple[str, ...]:
    """What is known of a job, a sentence each."""
    placement = said.state.placements.get(job.id)
    size = f"{job.min_gpus}" if not job.elastic else f"{job.min_gpus} to {job.max_gpus}"
    what = kind_noun(job) if job.kind is None else f"{job.kind.value} job"
    facts = [
        f"{job.id} is {job.user or 'somebody'}'s {what} "
        f"{job.name or ''} of project {known_as(job.project)}, {job.phase.value}.".replace("  ", " "),
        *((KIND_UNKNOWN,) if job.kind is None else ()),
        f"It holds {text.many(placement.size_gpus, 'GPU')}."
        if placement is not None
        else f"It waits for {size} GPUs.",
    ]
    if job.idle_since_ms is not None:
        bound = "at least " if said.observed.is_bound(job.id, job.idle_since_ms) else ""
        idle = text.length((said.state.as_of_ms - job.idle_since_ms) / 1000)
        facts.append(f"It has been idle for {bound}{idle}.")
    else:
        facts.append(_use_of(job, said))
    use = said.observed.uses.get(job.id)
    if use is not None and use.utilization_p95_ratio is not None and use.memory_peak_bytes is not None:
        measured = text.coverage(use.coverage_ratio)
        facts.append(
            f"In its busiest minutes it fills {text.percent(use.utilization_p95_ratio)} of a GPU"
            f"{', with video engines at work beside,' if use.by_engines else ''} and "
            f"{'all who hold it take' if use.others else 'takes'} {text.size(use.memory_peak_bytes)} "
            f"({measured} of its time was measured)."
        )
    facts += said.observed.told_of(job.id)
    return tuple(facts)


def _use_of(job: Job, said: Said) -> str:
    """What a job that no finding calls idle is doing, as far as it was judged."""
    placement = said.state.placements.get(job.id)
    gpus = () if placement is None else placement.gpus
    if said.observed.analysis.overdue:
        return "What it does is not known: nobody has judged it lately."
    match job.use:
        case Use.STARTING:
            return "It has not computed since it was last started, so it counts as starting."
        case Use.UNKNOWN:
            reasons = dict.fromkeys(each for uuid in gpus for each in _doubts_of(uuid, said))
            why = f": {'; '.join(reasons)}" if reasons else ""
            return f"What it does is not known{why}. Unknown is never idle."
        case Use.ACTIVE | Use.IDLE:
            return NOT_IDLE


def _doubts_of(uuid: GpuUuid, said: Said) -> tuple[str, ...]:
    """Why nobody can tell what a GPU does now: what the judgement says of it, else that it is silent."""
    analysis, gpu = said.observed.analysis, said.state.gpus.get(uuid)
    told = tuple(each.reason for each in analysis.unknown if each.uuid == uuid and IDLENESS & set(each.kinds))
    fell = tuple(
        each.sentence.rstrip(".")
        for each in analysis.findings
        if each.uuid == uuid and each.kind is FindingKind.FALLING_GPU
    )
    if told or fell:
        return (*told, *fell)
    silent = gpu is not None and gpu.telemetry is Telemetry.UNKNOWN
    return ("a GPU of it was not measured in the last 10 min",) if silent else ()


NOT_IDLE = (
    "Nothing calls it idle now: it works, or rests for less time than it may before anything is said, by the "
    "clock of its kind or by its own usual silences."
)


def _held_back(advice: Advice) -> Iterable[WhyNot]:
    """The rungs above the one that is advised: which are due and may not be, and which comes next."""
    known = {each.name: each.value for each in advice.evidence}
    for part in str(known.get("rungs_held_back") or "").split("; "):
        rung, _, reason = part.partition(": ")
        if reason:
            yield WhyNot(action=rung, reason=reason, would_change="")
    if known.get("next_rung"):
        yield WhyNot(
            action=str(known["next_rung"]),
            reason="its clock has not run out",
            would_change="time, if it stays idle",
        )


def _why_not(jobs: Sequence[JobId], said: Said, action: str | None = None) -> tuple[WhyNot, ...]:
    abstained = [
        WhyNot(action=each.action.value, reason=each.reason, would_change=each.would_change)
        for each in said.answers
        if isinstance(each, Abstain) and each.job in jobs
    ]
    refused = [
        WhyNot(action=each.action.value, reason=each.reason, would_change=each.would_change)
        for each in said.plan.refused
        if each.job in jobs
    ]
    result = [each for each in (*abstained, *refused) if action is None or each.action == action]
    return tuple(dict.fromkeys(result))


def _concerns(advice: Advice, jobs: Sequence[JobId]) -> bool:
    return advice.job in jobs or any(step.job in jobs for step in advice.steps)


def _steps(jobs: Sequence[JobId | None], plan: Plan) -> tuple[Action, ...]:
    return tuple(step for step in plan.steps if step.job in jobs)


def _only(names: Iterable[Name]) -> Name | None:
    result = list(names)
    return result[0] if len(result) == 1 else None
