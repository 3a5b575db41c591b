"""What to do about holders that use nothing: the ladder, rung by rung, each with its clock and consent. Pure.

The gain is what is expected to lie idle from now on, up to the horizon: how long such stretches went on at
this site (``idle_prediction``), times the GPUs, of which an instance or a share is a part, less what bringing
the job back costs. What was wasted already is evidence, not gain.
"""

from advisor.actions import Action, Cancel, Notify, Pause, ReleaseMemory, Requeue
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice
from advisor.planner.quota import Cover, quota_cover
from advisor.policies.exemptions import restraint, silence
from advisor.policies.idle_escalation import (
    PROTECTED,
    Rung,
    Standing,
    standing,
    told_too_late,
    warned_too_little,
)
from advisor.policies.idle_prediction import IdlePrediction, Quiet, foresee
from advisor.policies.phrases import (
    job_name,
    kind_noun,
    lost_by_pause,
    money_of,
    places,
    risk_of_waking,
)
from advisor.state.model import ActionClass, ClusterState, Job, Use, held_gpus
from analytics import text
from analytics.model import IDLENESS, Evidence

MS_PER_S = 1000
TELL_AGAIN_MS = 3_600_000
"""Who could not be reached is tried again so much later."""
UNSEEN_CONFIDENCE = 0.3
"""With no history, that it lasts as long again as it has lasted is a guess (Gott 1993)."""

LEAST_COUNTED, ROUNDING = 10, 1e-9
"""Of so many a tenth is one of them: with fewer, nothing is said of nine of ten, nor of how sure it is."""


def advise(
    state: ClusterState, observed: Observed, limits: Limits, rules: PlannerConfig
) -> tuple[Advice | Abstain, ...]:
    """One answer for each running job that is idle, or whose use is not known; the largest gain first."""
    cover = quota_cover(state)
    jobs = (state.jobs[job_id] for job_id in sorted(state.placements))
    answers = [
        answer
        for job in jobs
        if (answer := _judged(state, observed, (limits, rules), cover, job)) is not None
    ]
    return tuple(sorted(answers, key=lambda each: -each.gain_gpu_hours if isinstance(each, Advice) else 1.0))


def _judged(
    state: ClusterState,
    observed: Observed,
    bounds: tuple[Limits, PlannerConfig],
    cover: Cover,
    job: Job,
) -> Advice | Abstain | None:
    limits, rules = bounds
    if job.use is Use.ACTIVE:
        return None
    silent = silence(state, job, ActionClass.RECLAIM, limits, rules)
    if silent is not None:
        return _abstain(state, job, silent.reason, silent.would_change)
    if job.idle_since_ms is None:
        return _abstain(state, job, "since when it is idle is not known", "a longer record")
    objection = restraint(state, job, ActionClass.RECLAIM, limits, cover)
    own = limits.within(job.project, state.projects)
    result = standing(job, state.as_of_ms, own, rules, None if objection is None else objection.reason)
    if result.due is Rung.NONE:
        return None
    return _advice(state, observed, rules, job, result)


def _advice(
    state: ClusterState, observed: Observed, rules: PlannerConfig, job: Job, escalation: Standing
) -> Advice:
    placement = state.placements[job.id]
    idle_s = (state.as_of_ms - (job.idle_since_ms or 0)) / MS_PER_S
    idle = f"{'at least ' if observed.is_bound(job.id, job.idle_since_ms) else ''}{text.length(idle_s)}"
    quiet = Quiet(idle_s=idle_s, now_ms=state.as_of_ms, user=job.user, kind=job.kind)
    others = (each for each in observed.stretches if each.job != job.id or not each.open)
    prediction = foresee(quiet, rules.horizon_s, others)
    still_s = min(idle_s, rules.horizon_s) if prediction is None else prediction.expected_s
    gain = max(0.0, still_s - _cost_s(job, rules)) / 3600 * held_gpus(placement, state.gpus)
    return Advice(
        action=ActionClass.TERMINATE if escalation.due is Rung.TERMINATE else ActionClass.RECLAIM,
        what=_what(state, job, escalation),
        why=_why(job, idle, prediction, observed),
        job=job.id,
        gpus=placement.gpus,
        steps=_steps(job, escalation, (state.as_of_ms, idle, observed.loss_of(job.id)), rules),
        evidence=_evidence(job, idle_s, prediction, escalation),
        gain_gpu_hours=gain,
        gain_money=money_of(state, observed, placement.gpus, gain),
        gain_is_known=prediction is not None,
        horizon_s=float(rules.horizon_s),
        risk=_risk(job, escalation),
        risk_to=() if job.user is None or escalation.due <= Rung.TELL else (job.user,),
        confidence=_confidence(prediction, rules),
        confidence_is_known=prediction is not None and _is_enough(prediction),
    )


def _abstain(state: ClusterState, job: Job, reason: str, would_change: str) -> Abstain:
    gpus = state.placements[job.id].gpus
    return Abstain(
        action=ActionClass.RECLAIM, reason=reason, would_change=would_change, job=job.id, gpus=gpus
    )


def _cost_s(job: Job, rules: PlannerConfig) -> float:
    measured = None if job.profile is None else job.profile.resize_s
    return rules.resume_s if measured is None else measured


def _what(state: ClusterState, job: Job, escalation: Standing) -> str:
    name, where = job_name(job), places(state, state.placements[job.id].gpus)
    match escalation.due:
        case Rung.SHOW:
            return f"Show that {name} is idle on {where}"
        case Rung.TELL:
            short = f"{job.name or kind_noun(job)} ({job.id})"
            return f"Tell {job.user or 'the owner'} that {short} is idle on {where}"
        case Rung.RELEASE:
            return f"Have {name} give its cached memory back on {where}"
        case Rung.PAUSE:
            return f"Pause {name} and free {where}"
        case Rung.REQUEUE:
            return f"Put {name} back in its queue and free {where}"
        case _:
            return f"End {name} and free {where}"


def _why(job: Job, idle: str, prediction: IdlePrediction | None, observed: Observed) -> str:
    result = next(iter(observed.sentences_of(job.id, IDLENESS)), None)
    first = result or f"It has done nothing for {idle}."
    if job.protected:
        first = f"{first} {PROTECTED[0].upper()}{PROTECTED[1:]}."
    if prediction is None:
        return f"{first} Too few such times were recorded to say how long they go on."
    whose = f"{prediction.stretches} idle times of {prediction.of}, of {_people(prediction)},"
    like = f"{whose} that lasted this long"
    return f"{first} Of {like}, {_band(prediction)}."


def _people(prediction: IdlePrediction) -> str:
    """Whose the idle times are; jobs whose owners nobody knows are not one person's."""
    if not prediction.people:
        return "unknown owners"
    named = "one person" if prediction.people == 1 else f"{prediction.people} people"
    return f"{named} and unknown owners" if prediction.some_unnamed else named


def _band(prediction: IdlePrediction) -> str:
    """What four of five of them did; the horizon cuts what is looked at."""
    if not _is_enough(prediction):
        lasts, within = text.length(prediction.expected_s), text.length(prediction.horizon_s)
        return f"{lasts} of the next {within} lay idle on average; too few to say how sure that is"
    if prediction.low_s >= prediction.horizon_s:
        return f"nine of ten went on for {text.length(prediction.horizon_s)} or more"
    more = " or more" if prediction.high_s >= prediction.horizon_s else ""
    low, high = text.length(prediction.low_s), text.length(prediction.high_s)
    return f"four of five went on for another {low} to {high}{more}"


def _steps(
    job: Job, escalation: Standing, now: tuple[int, str, str | None], rules: PlannerConfig
) -> tuple[Action, ...]:
    """What is to be done; ``now``: the instant, for how long it has been idle, and which GPU of it failed."""
    now_ms, idle, lost = now
    reason = f"idle for {idle}"
    match escalation.due:
        case Rung.TELL:
            message = _message(job, escalation, (idle, lost), rules)
            notifies = _is_to_be_told(job, now_ms) or _is_to_be_warned(job, escalation, now_ms, rules)
            return (Notify(job=job.id, message=message, reason=reason),) if notifies else ()
        case Rung.RELEASE:
            spare = (job.memory_held_bytes or 0) - (job.memory_bytes or 0)
            return (ReleaseMemory(job=job.id, frees_bytes=spare, action=ActionClass.RECLAIM, reason=reason),)
        case Rung.PAUSE:
            return (Pause(job=job.id, reason=reason),)
        case Rung.REQUEUE:
            return (
                Requeue(job=job.id, action=ActionClass.RECLAIM, reason=f"{reason}, with a fresh checkpoint"),
            )
        case Rung.TERMINATE:
            return (Cancel(job=job.id, reason=f"{reason}, after {job.notifications} warnings"),)
        case _:
            return ()


def _message(job: Job, escalation: Standing, seen_of_it: tuple[str, str | None], rules: PlannerConfig) -> str:
    """What is told: what was seen, and the worst that may follow if nobody answers."""
    idle, lost = seen_of_it
    opening = f"{job_name(job)} has held its GPUs without using them for {idle}."
    if lost is not None:
        opening += f" {lost}"
    skipped, rule = dict(escalation.skipped), job.idle_rule
    if rule is not None:
        if rule.message:
            opening = _own_text(rule.message, job, idle)
        number = min(job.notifications + 1, rule.warnings)
        return (
            f"{opening} This is warning {number} of {rule.warnings}: by the site's rule {rule.name} it may "
            f"be paused after {text.length(rule.idle_s)}."
        )
    if skipped.get(Rung.TERMINATE) == warned_too_little(job, rules.terminate_warnings):
        count = f"{job.notifications + 1} of {rules.terminate_warnings}"
        return f"{opening} This is warning {count}: then it is ended."
    if escalation.next is Rung.PAUSE or skipped.get(Rung.PAUSE) == told_too_late(rules):
        lost = lost_by_pause(job.manager, job.hook)
        return f"{opening} It may be paused, {rules.grace_s // 60} min from now at the earliest; {lost}."
    return opening


def _own_text(message: str, job: Job, idle: str) -> str:
    """A site's text with what it names of the job; whatever else is in braces stays as it is."""
    for name, value in (("user", job.user or "owner"), ("job", job_name(job)), ("idle", idle)):
        message = message.replace(f"{{{name}}}", value)
    return message


def _is_to_be_told(job: Job, now_ms: int) -> bool:
    """Once in an idle time; where nobody could be reached, again after a while."""
    if job.notified_ms is not None:
        return False
    return job.unreached_ms is None or now_ms - job.unreached_ms >= TELL_AGAIN_MS


def _is_to_be_warned(job: Job, escalation: Standing, now_ms: int, rules: PlannerConfig) -> bool:
    """Whether only a further warning is missing before the end, or a rule's pause; they are a grace apart."""
    skipped, rule = dict(escalation.skipped), job.idle_rule
    lacks_end = skipped.get(Rung.TERMINATE) == warned_too_little(job, rules.terminate_warnings)
    lacks_pause = rule is not None and skipped.get(Rung.PAUSE) == warned_too_little(job, rule.warnings)
    if not (lacks_end or lacks_pause):
        return False
    newest_ms = max(job.warned_ms or 0, job.notified_ms or 0, job.unreached_ms or 0)
    return now_ms - newest_ms >= rules.grace_s * MS_PER_S


def _risk(job: Job, escalation: Standing) -> str:
    if escalation.due <= Rung.TELL:
        return "none: nothing is done to the job"
    if escalation.due is Rung.RELEASE:
        return "its next allocations are slower, once"
    if escalation.due is Rung.PAUSE:
        return f"{risk_of_waking(job.kind)}; {lost_by_pause(job.manager, job.hook)}"
    if escalation.due is Rung.REQUEUE:
        return f"{risk_of_waking(job.kind)}; work since its checkpoint is lost"
    return "everything that it did not save is lost"


def _evidence(
    job: Job, idle_s: float, prediction: IdlePrediction | None, escalation: Standing
) -> tuple[Evidence, ...]:
    skipped = "; ".join(f"{rung.name.lower()}: {reason}" for rung, reason in escalation.skipped)
    return (
        Evidence(name="idle_s", value=round(idle_s)),
        Evidence(name="idle_gpu_hours", value=job.idle_gpu_hours),
        Evidence(name="rung", value=escalation.due.name.lower()),
        Evidence(name="next_rung", value=None if escalation.next is None else escalation.next.name.lower()),
        Evidence(name="next_rung_ms", value=escalation.next_ms),
        Evidence(name="rungs_held_back", value=skipped or None),
        Evidence(name="expected_idle_s", value=None if prediction is None else round(prediction.expected_s)),
        Evidence(
            name="expected_low_s",
            value=round(prediction.low_s) if prediction is not None and _is_enough(prediction) else None,
        ),
        Evidence(
            name="expected_high_s",
            value=round(prediction.high_s) if prediction is not None and _is_enough(prediction) else None,
        ),
        Evidence(name="stretches", value=0 if prediction is None else prediction.stretches),
    )


def _confidence(prediction: IdlePrediction | None, rules: PlannerConfig) -> float:
    """The narrower the band of what such stretches did, the surer, and the more of them there were.

    Where all of n did one thing the next does it with (n + 1) / (n + 2), Laplace's rule of succession: never
    surely, however many there were.
    """
    if prediction is None or not _is_enough(prediction):
        return UNSEEN_CONFIDENCE
    narrow = 1.0 - (prediction.high_s - prediction.low_s) / (2 * rules.horizon_s)
    return narrow * (prediction.counts_as + 1) / (prediction.counts_as + 2)


def _is_enough(prediction: IdlePrediction) -> bool:
    return prediction.counts_as >= LEAST_COUNTED - ROUNDING
