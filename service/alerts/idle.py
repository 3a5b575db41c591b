"""Idle holders, rung by rung: the ladder's own clocks and objections, told instead of acted on. Pure.

The level of a case is the highest rung whose clock has run out and that no lasting objection forbids. What
only waits for a telling, an approval or another mode is reached all the same: the message says what that
means for what happens next.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from advisor.planner.limits import Mode
from advisor.planner.plan import Rule
from advisor.planner.quota import Cover, quota_cover
from advisor.policies.exemptions import restraint, silence
from advisor.policies.idle_escalation import Rung, Standing, clock_ms, standing
from advisor.policies.phrases import job_name, lost_by_pause
from advisor.state.model import ActionClass, ClusterState, Job, Phase, Use
from analytics import text
from analytics.model import IDLENESS, Evidence, FindingKind
from collector.model import JobId
from service.alerts.facts import Facts
from service.alerts.model import AlertKind, Condition, Evaluation
from service.alerts.phrases import keeping, measured, where

PREFIX = f"{AlertKind.HELD_IDLE.value}:"
NEVER_LONG = frozenset({FindingKind.CRASH_LOOP, FindingKind.SLEEPING_BATCH})
"""What else says why a job does nothing, where no GPU of it was found idle by itself."""
DOES = {
    Rung.RELEASE: "it is asked to give its cached memory back",
    Rung.PAUSE: "it is paused",
    Rung.REQUEUE: "it is put back in its queue; work since its checkpoint is lost",
    Rung.TERMINATE: "it is ended; what it did not save is lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where an idle job stands: its rung, the next one that is not forbidden and when, and why none is.

    ``mode`` is that of reclaiming, ``deed_mode`` that of what is due, or comes next. ``manager``: the
    workload manager that would put it back into its queue; ``hook``: the site's commands that would pause it.
    """

    rung: Rung
    next: Rung | None
    next_ms: int | None
    mode: Mode
    deed_mode: Mode
    restrained: str | None
    manager: str | None = None
    hook: str | None = None

    def does(self, rung: Rung) -> str:
        """What is done on that rung, in words."""
        return (
            DOES[rung]
            if rung is not Rung.PAUSE
            else f"{DOES[rung]}; {lost_by_pause(self.manager, self.hook)}"
        )


def idle_jobs(facts: Facts, open_keys: Iterable[str]) -> Evaluation:
    """The idle jobs of the state; those whose use is not known are unknown, never calm."""
    holds: dict[str, Condition] = {}
    unknown: set[str] = set()
    cover = quota_cover(facts.state)
    calm = {key: ended(facts.state, JobId(key.removeprefix(PREFIX))) for key in open_keys if _is_ours(key)}
    for id in sorted(facts.state.placements):
        job, key = facts.state.jobs[id], f"{PREFIX}{id}"
        if job.use is Use.ACTIVE:
            calm[key] = "it works again"
            continue
        silent = silence(facts.state, job, ActionClass.RECLAIM, facts.limits, facts.advice)
        if silent is not None and silent.rule is not Rule.TELEMETRY:
            calm[key] = silent.reason
        elif silent is not None or job.idle_since_ms is None:
            unknown.add(key)
        elif (condition := condition_of(facts, job, cover)) is not None:
            holds[key] = condition
    return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown), calm=calm)


def condition_of(facts: Facts, job: Job, cover: Cover | None = None) -> Condition | None:
    """What is to be said of one idle job; ``None`` while no clock has run out."""
    stand = stand_of(facts, job, quota_cover(facts.state) if cover is None else cover)
    if stand.rung is Rung.NONE:
        return None
    gpus = facts.state.placements[job.id].gpus
    idle_ms = facts.now_ms - (job.idle_since_ms or facts.now_ms)
    place = where(gpus, facts)
    return Condition(
        key=f"{PREFIX}{job.id}",
        kind=AlertKind.HELD_IDLE,
        level=int(stand.rung),
        rung=stand.rung.name.lower(),
        since_ms=job.idle_since_ms or facts.now_ms,
        title=f"{job_name(job)} does nothing on {place}",
        says=_says(facts, job, place),
        next=next_words(facts, stand),
        do=keeping(job.id),
        evidence=(
            Evidence(name="idle_s", value=idle_ms // 1000),
            Evidence(name="idle_gpu_hours", value=job.idle_gpu_hours),
            *measured(facts, job.id, IDLENESS),
        ),
        job=job.id,
        user=job.user,
        project=job.project,
        node=facts.state.gpus[gpus[0]].node if gpus and gpus[0] in facts.state.gpus else None,
        gpus=gpus,
        by_ladder=stand.mode is Mode.AUTO and facts.halt is None and "notify" not in job.cannot,
    )


def stand_of(facts: Facts, job: Job, cover: Cover) -> Stand:
    """Where the ladder has an idle job, as if its owner had been told in time."""
    objection = restraint(facts.state, job, ActionClass.RECLAIM, facts.limits, cover)
    why = None if objection is None else objection.reason
    own = facts.limits.within(job.project, facts.state.projects)
    rule = 0 if job.idle_rule is None else job.idle_rule.warnings
    warnings = max(facts.advice.terminate_warnings, rule)
    warned = replace(job, notified_ms=job.idle_since_ms, warned_ms=None, notifications=warnings)

    def at(now_ms: int) -> Standing:
        return standing(warned, now_ms, own, facts.advice, why)

    due = at(facts.now_ms).due
    ahead = [(rung, clock_ms(rung, warned, facts.advice)) for rung in DOES if rung > due]
    coming = ((rung, at_ms) for rung, at_ms in ahead if at_ms > facts.now_ms and at(at_ms).due is rung)
    rung, at_ms = next(coming, (None, None))
    deed = rung if due not in DOES else due
    if why is None and deed is None:
        # Why nothing will be done, however long it idles: what speaks against pausing it, or else.
        reasons = dict(at(clock_ms(Rung.TERMINATE, warned, facts.advice)).skipped)
        why = reasons.get(Rung.PAUSE) or next(reversed(reasons.values()), None)
    action = ActionClass.TERMINATE if deed is Rung.TERMINATE else ActionClass.RECLAIM
    return Stand(
        rung=due,
        next=rung,
        next_ms=at_ms,
        mode=own.mode(ActionClass.RECLAIM),
        deed_mode=own.mode(action),
        restrained=why,
        manager=job.manager,
        hook=job.hook,
    )


def next_words(facts: Facts, stand: Stand) -> str:
    """What happens next and when, as the modes have it."""
    if stand.restrained is not None:
        return f"Nothing is done to it: {stand.restrained}."
    if facts.halt is not None:
        return f"Nothing is done to it meanwhile: {facts.halt}."
    match stand.deed_mode:
        case Mode.OFF | Mode.ADVISE:
            return (
                f"Fallow does nothing to it by itself: that is at {stand.deed_mode.value}.{_advised(stand)}"
            )
        case Mode.ASK:
            return _approval_sentence(stand)
        case Mode.AUTO:
            return _done(facts, stand)


def ended(state: ClusterState, id: JobId) -> str:
    """Why a job that holds no GPUs now is calm."""
    job = state.jobs.get(id)
    if job is None:
        return "it holds no GPUs any more"
    match job.phase:
        case Phase.PAUSED:
            return f"it is paused and holds no GPUs; `fallow resume {id}` brings it back"
        case Phase.PENDING:
            return "it is back in its queue and holds no GPUs"
        case Phase.RUNNING:
            return "it is not idle any more"


def _is_ours(key: str) -> bool:
    return key.startswith(PREFIX)


def _says(facts: Facts, job: Job, place: str) -> str:
    sentences = [f.sentence for f in facts.observed.findings_of(job.id) if f.kind in IDLENESS]
    sentences = sentences or [f.sentence for f in facts.observed.findings_of(job.id) if f.kind in NEVER_LONG]
    idle_s = (facts.now_ms - (job.idle_since_ms or facts.now_ms)) / 1000
    if len(sentences) == 1:
        return sentences[0]
    since = text.clock(job.idle_since_ms or facts.now_ms)
    bound = "at least " if facts.observed.is_bound(job.id, job.idle_since_ms) else ""
    hours = "" if job.idle_gpu_hours is None else f" ({text.gpu_hours(job.idle_gpu_hours)})"
    failed = facts.observed.loss_of(job.id)
    lost = "" if failed is None else f" {failed}"
    return (
        f"{job_name(job)} has done nothing on {place} since {since}, for {bound}{text.length(idle_s)}{hours}."
        f"{lost}"
    )


def _advised(stand: Stand) -> str:
    if stand.rung in DOES:
        return f" Where that is on, this is the time at which {stand.does(stand.rung)}."
    if stand.next is None or stand.next_ms is None:
        return ""
    return f" Where that is on, {stand.does(stand.next)} from {text.clock(stand.next_ms)} on."


def _approval_sentence(stand: Stand) -> str:
    if stand.rung in DOES:
        return (
            f"It is proposed that {stand.does(stand.rung)}; that waits for its owner's or an operator's yes "
            "(`fallow plan --waiting`)."
        )
    if stand.next is None or stand.next_ms is None:
        return "Nothing further is due."
    then = f"From {text.clock(stand.next_ms)} on it is proposed that {stand.does(stand.next)}"
    return f"{then}; nothing is done without a yes."


def _done(facts: Facts, stand: Stand) -> str:
    """By itself: never before the owner was told, and the grace after that is over."""
    soonest_ms = facts.now_ms + facts.advice.grace_s * 1000
    if stand.rung in DOES:
        return f"{_capital(stand.does(stand.rung))}: as soon as its owner has been told for the grace."
    if stand.next is None or stand.next_ms is None:
        return "Nothing further is due."
    at_ms = max(stand.next_ms, soonest_ms)
    then = _capital(stand.does(stand.next))
    return f"{then}, {text.clock(at_ms)} at the earliest, unless it works until then."


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
