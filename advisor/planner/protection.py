"""Whether a running job may be disturbed, asked the same way by planner and guard. Pure.

The first rule that protects it is the answer; cheap questions come first. What is not known protects.
"""

from dataclasses import dataclass

from advisor.planner.limits import Limits
from advisor.planner.plan import Rule
from advisor.planner.transition import memory_charged
from advisor.state.model import MAY_BE_SAT_AT, ActionClass, ClusterState, Job, Telemetry
from analytics import text
from analytics.thresholds import SHARED_RESERVE_BYTES
from collector.model import GpuUuid, JobId, JobKind

MANAGERS_OWN = frozenset(
    {ActionClass.SCHEDULE, ActionClass.FAIR_SHARE, ActionClass.PACK, ActionClass.CONSOLIDATE}
)
"""Classes of action that are a workload manager's, where a job has one: who gets which GPU, and when."""


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


def against_manager(job: Job, action: ActionClass) -> Objection | None:
    """The rule that a workload manager decides who gets the GPUs of its jobs; ``None`` where none does."""
    if job.manager is None or action not in MANAGERS_OWN:
        return None
    return Objection(
        rule=Rule.UNSUPPORTED,
        reason=f"{job.manager} gave it its GPUs, and decides who gets them",
        would_change=f"the configuration of {job.manager}",
    )


def against_touching(
    job: Job, gpus: tuple[GpuUuid, ...], action: ActionClass, state: ClusterState
) -> Objection | None:
    """The rule against any change to a running job on these GPUs, a mere resize included; or ``None``."""
    first = against_protected(job, gpus, state) or against_manager(job, action)
    if first is not None:
        return first
    if job.kind is JobKind.INFERENCE:
        return Objection(rule=Rule.INFERENCE, reason="it serves inference, which is never disturbed")
    if job.attached or (job.attached is None and job.kind in MAY_BE_SAT_AT and job.idle_rule is None):
        unknown = "it is interactive" if job.kind is not None else "nobody knows what kind of job it is"
        return Objection(
            rule=Rule.ATTACHED,
            reason="somebody sits at it" if job.attached else f"{unknown}, and nobody knows who sits at it",
            would_change="the person leaving it" if job.attached else "knowing that nobody does",
        )
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


def against_background(job: JobId, beside: JobId, gpu: GpuUuid, state: ClusterState) -> Objection | None:
    """The rule against a background job in the idle gaps that ``beside`` has on ``gpu``; or ``None``.

    It takes nothing from ``beside``, whose quota, clocks and telemetry are therefore not asked.
    """
    guest, host = state.background.get(job), state.jobs.get(beside)
    if guest is None or host is None or gpu not in state.gpus:
        return Objection(rule=Rule.STALE, reason=f"{job} or {beside} has ended", would_change="a new plan")
    protected = against_protected(host, (gpu,), state)
    if protected is not None:
        return protected
    if ActionClass.BACKGROUND in host.opted_out:
        return Objection(
            rule=Rule.OPTED_OUT,
            reason=f"the owner of {beside} wants nobody in its idle gaps",
            would_change="the owner's consent: `fallow consent --allow background`",
        )
    if guest.user is None or guest.user != host.user:
        if guest.user is None or host.user is None:
            return Objection(
                rule=Rule.OPTED_OUT, reason=f"nobody knows whose {job if guest.user is None else beside} is"
            )
        # Nothing isolates the two: a fault of one can end the other, so both owners must have said yes.
        for side, owner in ((host, host.user), (guest, guest.user)):
            if not side.may_share:
                return Objection(
                    rule=Rule.OPTED_OUT,
                    reason=f"{beside} is {host.user}'s, and {owner} has not let {side.id} share a GPU",
                    would_change=f"{owner}'s consent: `fallow consent --allow share`",
                )
    gaps = host.idle_gaps.get(gpu)
    if gaps is None or not gaps.page:
        return Objection(
            rule=Rule.NOT_MEASURED,
            reason=f"{beside} announces no idle gaps",
            would_change="a training that uses fallow's trainer",
        )
    return _against_memory(guest, host, gpu, state)


def _against_memory(guest: Job, host: Job, gpu: GpuUuid, state: ClusterState) -> Objection | None:
    """Unknown memory is too much: a background job that runs out of memory takes the foreground along."""
    needs = [memory_charged(each) for each in (guest, host)]
    total = state.gpus[gpu].memory_bytes
    if needs[0] is None:
        return Objection(
            rule=Rule.NOT_MEASURED, reason="nobody knows what memory it needs", would_change="--memory SIZE"
        )
    if needs[1] is None or total is None:
        return Objection(
            rule=Rule.NOT_MEASURED,
            reason=f"nobody knows what memory {host.id} needs",
            would_change="a report of its library, or --memory SIZE of that job",
        )
    if needs[0] + needs[1] > total - SHARED_RESERVE_BYTES:
        return Objection(
            rule=Rule.NO_ROOM,
            reason=f"it needs {text.size(needs[0])} beside {text.size(needs[1])} of {host.id}, and the GPU "
            f"has {text.size(total)}, of which {text.size(SHARED_RESERVE_BYTES)} stay free",
            would_change="a smaller job, or a larger GPU",
        )
    used = state.gpus[gpu].memory_used_bytes
    if used is not None and needs[0] + used > total - SHARED_RESERVE_BYTES:
        return Objection(
            rule=Rule.NO_ROOM,
            reason=f"it needs {text.size(needs[0])}, and of {text.size(total)} {text.size(used)} are in use "
            f"now; {host.id} was to need {text.size(needs[1])}",
            would_change="memory that comes free on the GPU",
        )
    return None


def against_disturbing(
    job: Job, gpus: tuple[GpuUuid, ...], action: ActionClass, state: ClusterState, limits: Limits
) -> Objection | None:
    """The rule against pausing, requeueing, moving or ending a running job; or ``None``.

    Whether its quota covers it is not asked here: that depends on who wants its place (``arithmetic.quota``).
    """
    first = against_protected(job, gpus, state) or against_manager(job, action)
    if first is not None:
        return first
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
        rest_ms = limits.cooldown_s * 1000 - (state.as_of_ms - job.acted_ms)
        return Objection(
            rule=Rule.COOLDOWN,
            reason=f"it was disturbed {_span(state.as_of_ms - job.acted_ms)} ago",
            would_change=f"{_span(rest_ms)} more",
        )
    return against_touching(job, gpus, action, state)


def against_unwarned(job: Job) -> Objection | None:
    """The rule that a site's own rule pauses nobody before its warnings; ``None`` where they were given.

    Nobody can see who sits at a notebook elsewhere; whoever does has been asked so often.
    """
    rule = job.idle_rule
    if rule is None or job.notifications >= rule.warnings:
        return None
    return Objection(
        rule=Rule.ATTACHED,
        reason=f"its owner was warned {job.notifications} of {rule.warnings} times",
        would_change="further warnings that reach the owner",
    )


def disturbed_lately(state: ClusterState) -> int:
    """How many disturbing actions the last hour saw in the whole cluster."""
    return sum(1 for action in state.actions if state.as_of_ms - action.at_ms < 3_600_000)


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
