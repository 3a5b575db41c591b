"""How far an idle job's clock has run, and what may be done about it: the ladder. Pure.

    show ─► tell ─► release caches ─► checkpoint or pause ─► requeue ─► terminate
            nothing is lost up to here ────────────────────┘   │             │
                       work since the last checkpoint ─────────┘             └─ off unless switched on

Each rung has its clock (longer for batch jobs than for interactive ones), its grace after the owner was told,
and its own consent. A rung that is due and not allowed is skipped with its reason; the rungs above it may
still be. Clocks and their origin are in ``advisor.planner.limits``.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.state.model import ActionClass, Job
from collector.model import JobKind

MS_PER_S = 1000
KEEP_HOURS = (4, 8, 24)
PROTECTED = "the site protects it: nothing is ever done to it"


class Rung(IntEnum):
    """The rungs, from what touches nothing to what destroys; drawn at the top of this file."""

    NONE = 0
    SHOW = 1
    TELL = 2
    RELEASE = 3
    PAUSE = 4
    REQUEUE = 5
    TERMINATE = 6


VERBS = {
    Rung.RELEASE: "release-memory",
    Rung.PAUSE: "pause",
    Rung.REQUEUE: "requeue",
    Rung.TERMINATE: "cancel",
}
"""The step behind each rung that does something to the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job stands: the highest rung that is due and allowed, and what comes next.

    ``skipped`` are rungs whose clock has run out and that are not allowed, with the reason. ``next_ms`` is
    when the clock of ``next`` runs out, ``None`` at the top. Ending a job is the next thing to nobody for
    whom no administrator switched it on.
    """

    due: Rung
    next: Rung | None
    next_ms: int | None
    skipped: tuple[tuple[Rung, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """The owner's wish to keep an idle job could not be granted, and why."""

    reason: str


def standing(
    job: Job, now_ms: int, limits: Limits, rules: PlannerConfig, restrained: str | None = None
) -> Standing:
    """Where the idle ``job`` stands at ``now_ms``; ``restrained`` says why it may only be told.

    A job that is not known to be idle stands on no rung.
    """
    if job.idle_since_ms is None:
        return Standing(due=Rung.NONE, next=None, next_ms=None)
    due = Rung.NONE
    skipped: list[tuple[Rung, str]] = []
    for rung in tuple(Rung)[1:]:
        ready_ms = clock_ms(rung, job, rules)
        if ready_ms > now_ms:
            if rung is Rung.TERMINATE and limits.mode(ActionClass.TERMINATE) is Mode.OFF:
                break
            return Standing(due=due, next=rung, next_ms=ready_ms, skipped=tuple(skipped))
        refusal = _refusal(rung, job, now_ms, (limits, rules), restrained)
        if refusal is None:
            due = rung
        else:
            skipped.append((rung, refusal))
    return Standing(due=due, next=None, next_ms=None, skipped=tuple(skipped))


def clock_ms(rung: Rung, job: Job, rules: PlannerConfig) -> int:
    """When the clock of ``rung`` runs out for this idle job; the requeue's is also counted from its start."""
    idle_ms = job.idle_since_ms or 0
    if rung is Rung.PAUSE and job.idle_rule is not None:
        return idle_ms + job.idle_rule.idle_s * MS_PER_S
    at_ms = idle_ms + clock_s(rung, job.kind, rules) * MS_PER_S
    if rung >= Rung.REQUEUE and job.started_ms is not None:
        return max(at_ms, job.started_ms + rules.requeue_start_s * MS_PER_S)
    return at_ms


def clock_s(rung: Rung, kind: JobKind | None, rules: PlannerConfig) -> int:
    """How long a job has to be idle before the rung is due, in seconds.

    One of unknown kind has the clocks of batch jobs, which are the longer ones.
    """
    interactive = kind is JobKind.INTERACTIVE
    return {
        Rung.NONE: 0,
        Rung.SHOW: rules.show_s,
        Rung.TELL: rules.tell_interactive_s if interactive else rules.tell_batch_s,
        Rung.RELEASE: rules.release_interactive_s if interactive else rules.release_batch_s,
        Rung.PAUSE: rules.pause_interactive_s if interactive else rules.pause_batch_s,
        Rung.REQUEUE: rules.requeue_interactive_s if interactive else rules.requeue_batch_s,
        Rung.TERMINATE: rules.terminate_s,
    }[rung]


def told_too_late(rules: PlannerConfig) -> str:
    """Why a rung above telling waits though its clock has run out: the owner's grace has not."""
    return f"its owner must have been told {rules.grace_s // 60} min before"


def warned_too_little(job: Job, warnings: int) -> str:
    """Why the last rung waits, or a pause by a site's rule: warnings are missing."""
    return f"its owner was warned {job.notifications} of {warnings} times"


def keep(
    job: Job, hours: int, now_ms: int, rules: PlannerConfig, *, by_administrator: bool = False
) -> Job | NotKept:
    """The job as its owner wishes to keep it: for 4, 8 or 24 h, three times; then only an administrator."""
    if hours not in KEEP_HOURS:
        return NotKept(reason=f"a job is kept for {', '.join(map(str, KEEP_HOURS))} h, not for {hours}")
    if job.keep_count >= rules.keeps and not by_administrator:
        return NotKept(reason=f"it was kept {job.keep_count} times already; now an administrator has to")
    until_ms = max(job.keep_until_ms or 0, now_ms + hours * 3600 * MS_PER_S)
    return replace(job, keep_until_ms=until_ms, keep_count=job.keep_count + (not by_administrator))


def _refusal(
    rung: Rung, job: Job, now_ms: int, bounds: tuple[Limits, PlannerConfig], restrained: str | None
) -> str | None:
    limits, rules = bounds
    if rung is Rung.SHOW:
        return None
    if job.protected:
        return PROTECTED
    if rung is Rung.TELL:
        return None
    if restrained is not None:
        return restrained
    if (why := job.cannot.get(VERBS[rung]) or job.withheld.get(VERBS[rung])) is not None:
        return why
    if rung is Rung.RELEASE:
        has_sizes = job.memory_held_bytes is not None and job.memory_bytes is not None
        spare = has_sizes and (job.memory_held_bytes or 0) > (job.memory_bytes or 0)
        return None if spare else "only the job's own library could, and it reports no cache"
    if job.notified_ms is None or now_ms - job.notified_ms < rules.grace_s * MS_PER_S:
        return told_too_late(rules)
    if rung is Rung.PAUSE and (why := _unwarned(job, now_ms, rules)) is not None:
        return why
    if rung is Rung.PAUSE:
        return None if job.checkpointable else "it cannot be checkpointed"
    if rung is Rung.REQUEUE:
        return _not_fresh(job, now_ms, rules)
    if limits.mode(ActionClass.TERMINATE) not in (Mode.ASK, Mode.AUTO):
        return "no administrator switched terminating on"
    if job.notifications < rules.terminate_warnings:
        return warned_too_little(job, rules.terminate_warnings)
    return None


def _unwarned(job: Job, now_ms: int, rules: PlannerConfig) -> str | None:
    """What a site's rule lacks for its pause: warnings, or the grace after the last of them."""
    if job.idle_rule is None:
        return None
    if job.notifications < job.idle_rule.warnings:
        return warned_too_little(job, job.idle_rule.warnings)
    newest_ms = max(job.warned_ms or 0, job.notified_ms or 0)
    return told_too_late(rules) if now_ms - newest_ms < rules.grace_s * MS_PER_S else None


def _not_fresh(job: Job, now_ms: int, rules: PlannerConfig) -> str | None:
    """Why a requeue would lose work: an idle job loses none when its checkpoint is newer than its work."""
    if job.checkpoint_ms is None:
        return "no checkpoint of it is known"
    if job.checkpoint_ms >= (job.idle_since_ms or now_ms):
        return None
    age_s = (now_ms - job.checkpoint_ms) // MS_PER_S
    return None if age_s <= rules.checkpoint_age_s else f"its checkpoint is {age_s // 60} min old"
