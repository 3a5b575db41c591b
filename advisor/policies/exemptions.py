"""Whom a policy leaves alone: two kinds of objection, asked before anything is advised. Pure.

*Silence*: nothing is said at all, because what was measured cannot be trusted, the job has only begun, its
owner asked to be left alone or sits at it. *Restraint*: the owner may be told, and nothing is done; these are
the rules of ``advisor.planner.protection``, which the guard asks again before anything is applied.
"""

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Rule
from advisor.planner.protection import Objection, against_disturbing, against_protected
from advisor.planner.quota import Cover
from advisor.state.model import ActionClass, ClusterState, Job, Telemetry, Use
from analytics import text

MS_PER_S = 1000


def silence(
    state: ClusterState, job: Job, action: ActionClass, limits: Limits, rules: PlannerConfig
) -> Objection | None:
    """Why nothing is said of ``job`` under this class of action; ``None`` when something may be."""
    if limits.is_off(action, job.project, state.projects):
        return Objection(
            rule=Rule.MODE,
            reason=f"{action.value} is switched off",
            would_change=f"another mode for {action.value}",
        )
    return _refused(state, job, action) or distrust(state, job) or _beginning(state, job, rules)


def restraint(
    state: ClusterState, job: Job, action: ActionClass, limits: Limits, cover: Cover
) -> Objection | None:
    """Why nothing may be done to ``job``, though its owner may be told; ``None`` when something may be."""
    gpus = state.placements[job.id].gpus
    protected = against_protected(job, gpus, state)
    if protected is not None:
        return protected
    if cover.gpus(job) > 0:
        return Objection(
            rule=Rule.IN_QUOTA, reason=f"the quota of {job.project} covers it", would_change="a smaller quota"
        )
    return against_disturbing(job, gpus, action, state, limits)


def distrust(state: ClusterState, job: Job) -> Objection | None:
    """Why what is measured of the job's GPUs cannot be acted on; ``None`` when it can."""
    placement = state.placements.get(job.id)
    for uuid in placement.gpus if placement is not None else ():
        gpu = state.gpus[uuid]
        if gpu.telemetry is Telemetry.SUSPECT:
            return _unseen(f"the counters of a GPU of it on {gpu.node} contradict each other")
        if gpu.telemetry is Telemetry.UNKNOWN:
            return _unseen(f"what a GPU of it on {gpu.node} does is not known well enough")
    return _unseen("what it does is not known well enough") if job.use is Use.UNKNOWN else None


def _unseen(reason: str) -> Objection:
    return Objection(rule=Rule.TELEMETRY, reason=reason, would_change="good telemetry of all its GPUs")


def _refused(state: ClusterState, job: Job, action: ActionClass) -> Objection | None:
    if action in job.opted_out:
        return Objection(
            rule=Rule.OPTED_OUT,
            reason=f"its owner opted out of {action.value}",
            would_change="the owner's consent",
        )
    if job.keep_until_ms is not None and job.keep_until_ms > state.as_of_ms:
        rest_s = (job.keep_until_ms - state.as_of_ms) / MS_PER_S
        return Objection(
            rule=Rule.KEPT,
            reason=f"its owner keeps it for {text.length(rest_s)} more",
            would_change="the end of that time",
        )
    return None


def _beginning(state: ClusterState, job: Job, rules: PlannerConfig) -> Objection | None:
    running_s = None if job.started_ms is None else (state.as_of_ms - job.started_ms) / MS_PER_S
    is_young = running_s is None or running_s < rules.startup_s
    if job.use is Use.STARTING and not is_young:
        return Objection(
            rule=Rule.MIN_RUNTIME,
            reason="it has not computed since it was last started",
            would_change="its first computation",
        )
    if job.use is Use.STARTING or (running_s is not None and is_young):
        since = "" if running_s is None else f", {text.length(running_s)} after it began"
        return Objection(
            rule=Rule.MIN_RUNTIME,
            reason=f"it is starting up{since}",
            would_change="its first computation, or the end of its grace"
            if running_s is None
            else f"the end of its first {text.length(rules.startup_s)}",
        )
    if job.attached:
        return Objection(
            rule=Rule.ATTACHED, reason="somebody sits at it", would_change="the person leaving it"
        )
    return None
