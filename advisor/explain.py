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
class Decisions:
    """All that was decided about one snapshot."""

    state: ClusterState
    observed: Observed
    answers: tuple[Advice | Abstain, ...]
    plan: Plan


def explain(name: str, decisions: Decisions, places: dict[str, GpuUuid]) -> Explanation | NoSuch:
    """The answer about ``name``: an advice's id, a job's id (or its end), a GPU's UUID or its place."""
    for each in decisions.answers:
        if isinstance(each, Advice) and advice_id(each) == name:
            return _of_advice(each, decisions)
    job = _only(job for job in decisions.state.jobs if job == name or job.split(":")[-1] == name)
    if job is not None:
        return _of_job(decisions.state.jobs[job], decisions)
    uuid = places.get(name) or _only(uuid for uuid in decisions.state.gpus if uuid.startswith(name))
    if uuid is not None:
        return _of_gpu(decisions.state.gpus[uuid], decisions, places)
    names = [
        *decisions.state.jobs,
        *places,
        *(advice_id(a) for a in decisions.answers if isinstance(a, Advice)),
    ]
    return NoSuch(name=name, near=tuple(each for each in names if name.lower() in each.lower())[:5])


def advice_id(advice: Advice | Abstain) -> str:
    """What an advice is called: its class and its job, for example ``reclaim/slurm:812``."""
    return f"{advice.action.value}/{advice.job or ','.join(advice.gpus)}"


def _of_advice(advice: Advice, decisions: Decisions) -> Explanation:
    job = None if advice.job is None else decisions.state.jobs.get(advice.job)
    facts = (advice.what, advice.why, *(() if job is None else job_facts(job, decisions)))
    inner = () if job is None else _why_not((job.id,), decisions, action=advice.action.value)
    return Explanation(
        kind="advice",
        name=advice_id(advice),
        facts=facts,
        advice=(advice,),
        steps=_steps((advice.job,), decisions.plan),
        why_not=(*_higher_levels(advice), *inner),
    )


def _of_job(job: Job, decisions: Decisions) -> Explanation:
    chosen = tuple(
        each for each in decisions.answers if isinstance(each, Advice) and _concerns(each, (job.id,))
    )
    back = tuple(entry for advice in chosen for entry in _higher_levels(advice))
    return Explanation(
        kind="job",
        name=job.id,
        facts=job_facts(job, decisions),
        advice=chosen,
        steps=_steps((job.id,), decisions.plan),
        why_not=(*back, *_why_not((job.id,), decisions)),
    )


def _of_gpu(gpu: Gpu, decisions: Decisions, places: dict[str, GpuUuid]) -> Explanation:
    jobs = tuple(job for job, placement in decisions.state.placements.items() if gpu.uuid in placement.gpus)
    place = next((name for name, uuid in places.items() if uuid == gpu.uuid), gpu.uuid)
    facts = [f"{place} is a {gpu.model or 'GPU'}, UUID {gpu.uuid}."]
    if not jobs:
        facts.append(_nobodys(gpu))
    facts += [f"{fact}" for job in jobs for fact in job_facts(decisions.state.jobs[job], decisions)]
    facts += [
        f.sentence for f in decisions.observed.analysis.findings if f.uuid == gpu.uuid and f.holder is None
    ]
    facts += ["Not judged lately: what it does is unknown."] if decisions.observed.analysis.overdue else []
    facts += [f"Not judged: {u.reason}." for u in decisions.observed.analysis.unknown if u.uuid == gpu.uuid]
    chosen = tuple(
        each
        for each in decisions.answers
        if isinstance(each, Advice) and (gpu.uuid in each.gpus or _concerns(each, jobs))
    )
    return Explanation(
        kind="gpu",
        name=place,
        facts=tuple(facts),
        advice=chosen,
        steps=_steps(jobs, decisions.plan),
        why_not=(
            *(entry for advice in chosen for entry in _higher_levels(advice)),
            *_why_not(jobs, decisions),
        ),
    )


def _nobodys(gpu: Gpu) -> str:
    """Of a GPU that no job in view was given: whether somebody uses it, as far as anybody saw."""
    if gpu.unseen:
        return (
            "Nobody is known to hold it, and whether somebody uses it is not known: it was not measured in "
            "the last 10 min, or its node is withheld from jobs."
        )
    return "Nobody was given it, and somebody uses it." if gpu.occupied else "Nobody holds it."


def job_facts(job: Job, decisions: Decisions) -> tuple[str, ...]:
    """What is known of a job, a sentence each."""
    placement = decisions.state.placements.get(job.id)
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
        bound = "at least " if decisions.observed.is_bound(job.id, job.idle_since_ms) else ""
        idle = text.length((decisions.state.as_of_ms - job.idle_since_ms) / 1000)
        facts.append(f"It has been idle for {bound}{idle}.")
    else:
        facts.append(_use_of(job, decisions))
    use = decisions.observed.uses.get(job.id)
    if use is not None and use.utilization_p95_ratio is not None and use.memory_peak_bytes is not None:
        measured = text.coverage(use.coverage_ratio)
        facts.append(
            f"In 19 of 20 minutes of its work it fills at most {text.percent(use.utilization_p95_ratio)} of "
            f"a GPU"
            f"{', with video engines at work beside,' if use.by_engines else ''} and "
            f"{'all who hold it take' if use.others else 'takes'} {text.size(use.memory_peak_bytes)} "
            f"({measured} of its time was measured)."
        )
    facts += decisions.observed.sentences_of(job.id)
    return tuple(facts)


def _use_of(job: Job, decisions: Decisions) -> str:
    """What a job that no finding calls idle is doing, as far as it was judged."""
    placement = decisions.state.placements.get(job.id)
    gpus = () if placement is None else placement.gpus
    if decisions.observed.analysis.overdue:
        return "What it does is not known: nobody has judged it lately."
    match job.use:
        case Use.STARTING:
            return STARTS
        case Use.UNKNOWN:
            reasons = dict.fromkeys(each for uuid in gpus for each in _doubts_of(uuid, decisions))
            why = f": {'; '.join(reasons)}" if reasons else ""
            return f"What it does is not known{why}. Unknown is never idle."
        case Use.ACTIVE | Use.IDLE:
            quiet = any(each.kind in PART_IDLE_KINDS for each in decisions.observed.findings_of(job.id))
            return PART_IDLE if quiet and len(gpus) > 1 else NOT_IDLE


def _doubts_of(uuid: GpuUuid, decisions: Decisions) -> tuple[str, ...]:
    """Why nobody can tell what a GPU does now: what the judgement says of it, else that it is silent."""
    analysis, gpu = decisions.observed.analysis, decisions.state.gpus.get(uuid)
    doubts = tuple(
        each.reason for each in analysis.unknown if each.uuid == uuid and IDLENESS & set(each.kinds)
    )
    fell = tuple(
        each.sentence.rstrip(".")
        for each in analysis.findings
        if each.uuid == uuid and each.kind is FindingKind.FALLING_GPU
    )
    if doubts or fell:
        return (*doubts, *fell)
    silent = gpu is not None and gpu.telemetry is Telemetry.UNKNOWN
    return ("a GPU of it was not measured in the last 10 min",) if silent else ()


PART_IDLE_KINDS = IDLENESS | {FindingKind.USES_PART}
PART_IDLE = "It is not idle as a whole, but not all of its GPUs are in use."

STARTS = (
    "It counts as starting: nothing is called idle in its first half hour, and longer while it has not "
    "computed since it was last started."
)
NOT_IDLE = (
    "Nothing calls it idle now: it works, or rests for less time than it may before anything is said, by the "
    "clock of its kind or by its own usual silences."
)


def _higher_levels(advice: Advice) -> Iterable[WhyNot]:
    """The rungs above the one that is advised: which are due and may not be, and which comes next."""
    evidence = {each.name: each.value for each in advice.evidence}
    for part in str(evidence.get("rungs_held_back") or "").split("; "):
        rung, _, reason = part.partition(": ")
        if reason:
            yield WhyNot(action=rung, reason=reason, would_change="")
    if evidence.get("next_rung"):
        yield WhyNot(
            action=str(evidence["next_rung"]),
            reason="its clock has not run out",
            would_change="time, if it stays idle",
        )


def _why_not(jobs: Sequence[JobId], decisions: Decisions, action: str | None = None) -> tuple[WhyNot, ...]:
    abstained = [
        WhyNot(action=each.action.value, reason=each.reason, would_change=each.would_change)
        for each in decisions.answers
        if isinstance(each, Abstain) and each.job in jobs
    ]
    refused = [
        WhyNot(action=each.action.value, reason=each.reason, would_change=each.would_change)
        for each in decisions.plan.refused
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
