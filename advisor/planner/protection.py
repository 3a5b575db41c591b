"""Whether a running job may be disturbed, asked the same way by planner and guard. Pure.

The first rule that protects it is the answer; cheap questions come first. What is not known protects.
"""

from dataclasses import dataclass

from advisor.planner.limits import Limits
from advisor.planner.plan import Rule
from advisor.state.model import MAY_BE_SAT_AT, ActionClass, ClusterState, Job, Telemetry
from analytics import text
from collector.model import GpuUuid, JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a job is left alone, and what would have to change for that."""

    rule: Rule
    reason: str
    would_change: str = ""


def against_protected(job: Job, gpus: tuple[GpuUuid, ...], state: ClusterState) -> Objection | None:
    """The site's word that this job, or one of these GPUs, is never touched; ``None`` where it said none."""
    if job.protected:
        reason = "the site protects it: nothing is ever done to it"
        return Objection(rule=Rule.PROTECTED, reason=reason, would_change="another [protect] of the site")
    return against_protected_gpus(gpus, state)


def against_protected_gpus(gpus: tuple[GpuUuid, ...], state: ClusterState) -> Objection | None:
    """The site's word that one of these GPUs is left alone; ``None`` where it said none."""
    for uuid in gpus:
        if uuid in state.gpus and state.gpus[uuid].protected:
            reason = f"the site protects GPU {uuid}: nothing is ever done there"
            return Objection(rule=Rule.PROTECTED, reason=reason, would_change="another [protect] of the site")
    return None


def against_touching(
    job: Job, gpus: tuple[GpuUuid, ...], action: ActionClass, state: ClusterState
) -> Objection | None:
    """The rule against any change to a running job on these GPUs, a mere resize included; or ``None``."""
    protected = against_protected(job, gpus, state)
    if protected is not None:
        return protected
    if job.kind is JobKind.INFERENCE:
        return Objection(rule=Rule.INFERENCE, reason="it serves inference, which is never disturbed")
    if job.attached or (job.attached is None and job.kind in MAY_BE_SAT_AT):
        return _sat_at(job)
    if action in job.opted_out:
        return Objection(
            rule=Rule.OPTED_OUT,
            reason=f"its owner opted out of {action.value}",
            would_change="the owner's consent",
        )
    if job.keep_until_ms is not None and job.keep_until_ms > state.as_of_ms:
        return Objection(
            rule=Rule.KEPT,
            reason=f"its owner keeps it for {_span(job.keep_until_ms - state.as_of_ms)} more",
            would_change="the end of that time",
        )
    return _unseen(gpus, state)


def against_disturbing(
    job: Job, gpus: tuple[GpuUuid, ...], action: ActionClass, state: ClusterState, limits: Limits
) -> Objection | None:
    """The rule against pausing, requeueing, moving or ending a running job; or ``None``.

    Whether its quota covers it is not asked here: that depends on who wants its place (``arithmetic.quota``).
    """
    protected = against_protected(job, gpus, state)
    if protected is not None:
        return protected
    if not job.preemptible:
        return Objection(
            rule=Rule.NOT_PREEMPTIBLE,
            reason="it is not preemptible",
            would_change="its owner declaring it preemptible",
        )
    ran_ms = state.as_of_ms - (job.started_ms if job.started_ms is not None else state.as_of_ms)
    if ran_ms < limits.min_runtime_s * 1000:
        return Objection(
            rule=Rule.MIN_RUNTIME,
            reason=f"it started {_span(ran_ms)} ago, under {_span(limits.min_runtime_s * 1000)}",
            would_change=f"{_span(limits.min_runtime_s * 1000 - ran_ms)} more",
        )
    if job.acted_ms is not None and state.as_of_ms - job.acted_ms < limits.cooldown_s * 1000:
        left = limits.cooldown_s * 1000 - (state.as_of_ms - job.acted_ms)
        return Objection(
            rule=Rule.COOLDOWN,
            reason=f"it was disturbed {_span(state.as_of_ms - job.acted_ms)} ago",
            would_change=f"{_span(left)} more",
        )
    return against_touching(job, gpus, action, state)


def disturbed_lately(state: ClusterState) -> int:
    """How many disturbing actions the last hour saw in the whole cluster."""
    return sum(1 for action in state.actions if state.as_of_ms - action.at_ms < 3_600_000)


def _sat_at(job: Job) -> Objection:
    unknown = "it is interactive" if job.kind is not None else "nobody knows what kind of job it is"
    return Objection(
        rule=Rule.ATTACHED,
        reason="somebody sits at it" if job.attached else f"{unknown}, and nobody knows who sits at it",
        would_change="the person leaving it" if job.attached else "knowing that nobody does",
    )


def _unseen(gpus: tuple[GpuUuid, ...], state: ClusterState) -> Objection | None:
    for uuid in gpus:
        gpu = state.gpus[uuid]
        if gpu.telemetry is not Telemetry.GOOD:
            return Objection(
                rule=Rule.TELEMETRY,
                reason=f"what is measured of GPU {uuid} is {gpu.telemetry.value}",
                would_change="good telemetry of all its GPUs",
            )
        node = state.nodes.get(gpu.node)
        if node is not None and node.in_flight:
            return Objection(
                rule=Rule.IN_FLIGHT,
                reason=f"another action is in flight on {gpu.node}",
                would_change="its end",
            )
    return None


def _span(ms: float) -> str:
    return text.length(ms / 1000)
