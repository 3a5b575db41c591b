"""What to do about memory that is taken and not needed: settings for the next launch, or a release now. Pure.

Seen from outside, a hog is a *suspicion* (analytics' finding): the advice names the setting and frees an
unknown amount. *Confirmed* only from inside: the job's own library reports the peak that tensors needed, and
what is reserved exceeds it by ``max(hog_excess_bytes, hog_excess * GPU)``. A gain in GPU-hours is claimed
only then: the part of the GPU that another job could have, in memory and in compute, whichever is less, for
as long as the job is expected to run (``run_lengths``).

A job that saves itself when asked, and shares its GPU, is started again with the setting at once when
somebody waits who could lie beside it; once, so that a job that takes as much again is left alone.
"""

from dataclasses import dataclass

from advisor.actions import Action, Move, Notify, ReleaseMemory, SetEnvAtRestart
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import JobUse, Observed
from advisor.planner.placement import may_share
from advisor.planner.plan import Abstain, Advice
from advisor.planner.quota import quota_cover
from advisor.policies.exemptions import restraint, silence
from advisor.policies.framework_memory import LaunchSettings, family, launch_settings
from advisor.policies.phrases import job_name, money_of, places
from advisor.state.model import ActionClass, ClusterState, Job, Phase
from analytics import text
from analytics.model import Evidence, Finding, FindingKind

# From outside alone a cache and a need look the same.
SUSPECTED_CONFIDENCE = 0.5
# The job's own library told what it holds and what it needs.
CONFIRMED_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A job under suspicion; ``excess`` is ``None`` when only the job could say what it does not need."""

    job: Job
    use: JobUse | None
    finding: Finding | None
    excess: int | None
    restrained: str | None


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """One answer for each running job that is suspected or known to take more memory than it needs."""
    cover = quota_cover(state)
    answers: list[Advice | Abstain] = []
    for job_id in sorted(state.placements):
        job, use = state.jobs[job_id], observed.uses.get(job_id)
        finding = next((f for f in observed.findings_of(job_id) if f.kind is FindingKind.MEMORY_HOG), None)
        excess = _excess(state, job, use, rules)
        if finding is None and not excess:
            continue
        silent = silence(state, job, ActionClass.CAP_MEMORY, limits, rules)
        if silent is not None:
            answers.append(_abstain(state, job, silent.reason, silent.would_change))
            continue
        objection = restraint(state, job, ActionClass.CAP_MEMORY, limits, cover)
        restrained = None if objection is None else objection.reason
        case = _Case(job=job, use=use, finding=finding, excess=excess, restrained=restrained)
        answers.append(_judged(state, observed, rules, case))
    return tuple(answers)


def cap_bytes(use: JobUse, total: int, rules: PlannerConfig) -> int | None:
    """The memory that a job is to get by: its peak need, a margin and its context; ``None``: not known."""
    if use.memory_needed_bytes is None:
        return None
    needed = int(use.memory_needed_bytes * (1 + rules.memory_margin))
    return min(total, needed + rules.context_bytes)


def freed_part(state: ClusterState, job: Job, use: JobUse | None, rules: PlannerConfig) -> float:
    """What of each of a running job's GPUs another could have, were its memory capped, 0..1."""
    return _part(state, job, use, _excess(state, job, use, rules))


def _judged(state: ClusterState, observed: Observed, rules: PlannerConfig, case: _Case) -> Advice | Abstain:
    total = _total(state, case.job)
    if total is None:
        return _abstain(state, case.job, "how much memory the GPU has is not known", "a driver that says it")
    cap = cap_bytes(case.use, total, rules) if case.excess and case.use is not None else None
    setting = launch_settings(case.job.framework, cap, total)
    if setting is None:
        what = case.job.framework or "an unknown framework"
        return _abstain(state, case.job, f"its memory is taken by {what}, which has no setting for it", "one")
    return _advice(state, observed, rules, case, setting)


def _advice(
    state: ClusterState, observed: Observed, rules: PlannerConfig, case: _Case, setting: LaunchSettings
) -> Advice:
    job, where = case.job, places(state, state.placements[case.job.id].gpus)
    rest_s = observed.endings.all_run_s(state, (job,), rules.horizon_s)
    boards = sum(state.gpus[uuid].part for uuid in state.placements[job.id].gpus)
    gain = _part(state, job, case.use, case.excess) * boards * rest_s / 3600
    frees = (
        text.size(case.excess) if case.excess else "what it does not need (only the job can tell how much)"
    )
    return Advice(
        action=ActionClass.CAP_MEMORY,
        what=f"Launch {job_name(job)} with {_text(setting)} next time; frees {frees} on {where}",
        why=_why(case, setting),
        job=job.id,
        gpus=state.placements[job.id].gpus,
        steps=_steps(state, case, setting),
        evidence=(*_evidence(case), Evidence(name="expected_left_s", value=round(rest_s))),
        gain_gpu_hours=gain,
        gain_money=money_of(state, observed, state.placements[job.id].gpus, gain),
        gain_is_known=bool(case.excess),
        horizon_s=float(rules.horizon_s),
        risk="a job that needs more than it seemed to runs out of memory after its next launch",
        risk_to=() if job.user is None else (job.user,),
        confidence=CONFIRMED_CONFIDENCE if case.excess else SUSPECTED_CONFIDENCE,
    )


def _text(setting: LaunchSettings) -> str:
    return " ".join(f"{name}={value}" for name, value in setting.settings)


def _steps(state: ClusterState, case: _Case, setting: LaunchSettings) -> tuple[Action, ...]:
    """Restrained jobs are only spoken of; a release now is PyTorch's alone, and only the job can do it."""
    job, text = case.job, _text(setting)
    if case.restrained is not None:
        return (
            Notify(job=job.id, message=f"Launch it with {text} next time: {setting.limits}.", reason=text),
        )
    cap = SetEnvAtRestart(
        job=job.id,
        settings=setting.settings,
        frees_bytes=case.excess,
        reason="it holds memory that it does not need",
    )
    if case.excess and family(job.framework) == "PyTorch":
        release = ReleaseMemory(job=job.id, frees_bytes=case.excess, reason="cached memory that nothing uses")
        return (release, cap)
    if not _restarts(state, job, setting):
        return (cap,)
    again = Move(
        job=job.id,
        gpus=state.placements[job.id].gpus,
        action=ActionClass.CAP_MEMORY,
        reason=f"goes on from its checkpoint with {text}, so that a job that waits fits beside it",
    )
    return (cap, again)


def _restarts(state: ClusterState, job: Job, setting: LaunchSettings) -> bool:
    """Whether it is worth a restart now: it loses nothing, was not tried, and makes room for a neighbour."""
    tried = job.acted_ms is not None and set(setting.settings) <= set(job.next_launch)
    if not job.checkpointable or tried or state.placements[job.id].share >= 1:
        return False
    waiting = (other for other in state.jobs.values() if other.phase is Phase.PENDING and other.share < 1)
    return any(may_share(job, other) for other in waiting)


def _why(case: _Case, setting: LaunchSettings) -> str:
    if case.excess and case.use is not None and case.use.memory_needed_bytes is not None:
        needed, spare = text.size(case.use.memory_needed_bytes), text.size(case.excess)
        return (
            f"Its own library reports a peak need of {needed}, {spare} less than it holds; {setting.limits}."
        )
    sentence = "" if case.finding is None else case.finding.sentence
    return f"{sentence} With this setting it {setting.limits}."


def _excess(state: ClusterState, job: Job, use: JobUse | None, rules: PlannerConfig) -> int | None:
    """Bytes held beyond the peak needed, when they are many enough to confirm a hog; ``None``: not known."""
    total = _total(state, job)
    if use is None or use.memory_needed_bytes is None or job.memory_held_bytes is None or total is None:
        return None
    excess = job.memory_held_bytes - use.memory_needed_bytes - rules.context_bytes
    return excess if excess >= max(rules.hog_excess_bytes, rules.hog_excess * total) else 0


def _part(state: ClusterState, job: Job, use: JobUse | None, excess: int | None) -> float:
    """What of each of its GPUs another job could have then, 0..1; 0 where that is not known."""
    total = _total(state, job)
    busy = None if use is None else use.utilization_p95_ratio
    if not excess or busy is None or total is None:
        return 0.0
    return min(excess / total, max(0.0, 1.0 - busy), _unshared(state, job))


def _unshared(state: ClusterState, job: Job) -> float:
    """What nobody was given of the GPUs that a job shares; all of them where it shares none."""
    mine = state.placements[job.id]
    if mine.share >= 1:
        return 1.0
    allocated = (sum(p.share for p in state.placements.values() if uuid in p.gpus) for uuid in mine.gpus)
    return max(0.0, 1.0 - max(allocated))


def _total(state: ClusterState, job: Job) -> int | None:
    sizes = [state.gpus[uuid].memory_bytes for uuid in state.placements[job.id].gpus]
    sizes_in_bytes = [size for size in sizes if size is not None]
    return min(sizes_in_bytes) if sizes_in_bytes and len(sizes_in_bytes) == len(sizes) else None


def _abstain(state: ClusterState, job: Job, reason: str, would_change: str) -> Abstain:
    gpus = state.placements[job.id].gpus
    return Abstain(
        action=ActionClass.CAP_MEMORY, reason=reason, would_change=would_change, job=job.id, gpus=gpus
    )


def _evidence(case: _Case) -> tuple[Evidence, ...]:
    use = case.use
    return (
        *(() if case.finding is None else case.finding.evidence),
        Evidence(name="memory_held_bytes", value=case.job.memory_held_bytes),
        Evidence(name="memory_needed_bytes", value=None if use is None else use.memory_needed_bytes),
        Evidence(name="frees_bytes", value=case.excess or None),
        Evidence(name="confirmed_from_inside", value=bool(case.excess)),
        Evidence(name="only_told_because", value=case.restrained),
    )
