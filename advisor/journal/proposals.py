"""What waits for somebody's approval, and when it is asked again. Pure.

In mode ASK a step that the rules allow is not done but proposed. Steps that rest on one another (a job gives
way, another starts in its place) are one proposal, the smallest that makes sense to approve; what has nothing
to do with it waits on its own, so that its number stays while other things come and go. A proposal is
replaced when what it would do changes, never when only the words of its reasons do: who approves number 12
gets what number 12 said.

    waiting ─apply─► applied      waiting ─reject─► rejected ─(asked again when its snooze ends)
       └─(not proposed any more, or replaced)─► expired          a plan in mode AUTO is kept as done
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from advisor.actions import Action, HoldForJob, Notify, ReleaseMemory, SetEnvAtRestart
from advisor.planner.guard import action_of, approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Advice, Plan, Refusal, Rule
from advisor.planner.quota import known_as
from advisor.state.model import ActionClass, ClusterState
from advisor.tags import verb_of
from analytics.model import Evidence
from collector.model import JobId

LINGER_MS = 10 * 60_000
"""How long a proposal waits on after nobody has proposed it any more: telemetry may be silent for a while."""

SNOOZE_MS = 24 * 3_600_000
"""How long a rejected proposal is not made again when the person named no time."""

MS_PER_HOUR = 3_600_000


class Standing(StrEnum):
    """Where a kept plan stands, as drawn at the top of this file."""

    WAITING = "waiting"
    APPLIED = "applied"
    REJECTED = "rejected"
    EXPIRED = "expired"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A step of a proposal: under which mode, whose job it touches, what it brings and what it rests on.

    ``basis`` is the run of the job and the GPUs that the step was proposed for: while it is the same, the
    evidence is. ``gain_gpu_hours`` is ``None`` where no policy reckoned one.
    """

    step: Action
    mode: Mode
    user: str | None = None
    project: str | None = None
    basis: str = ""
    gain_gpu_hours: float | None = None
    horizon_s: float | None = None
    why: str = ""
    risk: str = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Steps that rest on one another, and what the guard refused beside them."""

    steps: tuple[Proposed, ...]
    refused: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlan:
    """A plan as it is kept: who settled it, why, and until when the same is not proposed again."""

    number: int
    as_of_ms: int
    standing: Standing
    proposal: Proposal
    settled_ms: int | None = None
    settled_by: str | None = None
    because: str | None = None
    snoozed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What becomes of the waiting proposals: new ones, those that end with the reason, those that stay."""

    add: tuple[Proposal, ...] = ()
    end: tuple[tuple[int, str], ...] = ()
    still: tuple[int, ...] = ()


Key = tuple[JobId, str, ActionClass]


def proposed(
    plan: Plan,
    steps: Iterable[Action],
    refused: Iterable[Refusal] = (),
    state: ClusterState | None = None,
    limits: Limits | None = None,
) -> Proposal:
    """Steps of a plan with what its policies said of them; refusals are kept for the plan's own steps."""
    advised = {step: each for each in plan.advice if isinstance(each, Advice) for step in each.steps}
    return Proposal(
        steps=tuple(_proposed(step, advised.get(step), state, limits) for step in steps),
        refused=tuple(each for each in refused if each.step is not None),
    )


def asking(
    plan: Plan,
    refused: Sequence[Refusal],
    state: ClusterState,
    limits: Limits,
    done: frozenset[Action] = frozenset(),
) -> tuple[Proposal, ...]:
    """What of a plan somebody must approve: one proposal for each set of steps that rest on one another.

    ``refused`` is what the guard refused, ``done`` what was done since. A step is proposed only if the guard
    would let it through, were it approved; steps that would follow by themselves are shown with it.
    """
    asks = frozenset(
        each.step
        for each in refused
        if each.step is not None and each.rule is Rule.MODE and _mode(each.step, state, limits) is Mode.ASK
    )
    if not asks:
        return ()
    ruling = approve(plan, state, limits, asks)
    rest = [step for step in ruling.approved.steps if step not in done]
    knots = (knot for knot in _knots(rest, state) if asks.intersection(knot))
    beside = [each for each in ruling.refused if each.rule is not Rule.MODE]
    return tuple(
        proposed(plan, knot, [each for each in beside if _near(each, knot)], state, limits) for knot in knots
    )


def reconcile(
    waiting: Sequence[PendingPlan],
    seen_ms: Mapping[int, int],
    existing: Sequence[Proposal],
    *,
    said_no: Sequence[PendingPlan],
    now_ms: int,
) -> Changes:
    """What to add to and take from the waiting plans, now that ``existing`` are proposed.

    ``seen_ms`` says when each was last proposed (missing: when it was made); ``said_no`` are the rejected
    ones that are still snoozed.
    """
    fresh = [each for each in existing if not is_snoozed(each, said_no, now_ms)]
    fresh_by_id = {_identity(each): each for each in fresh}
    waiting_by_id = {_identity(each.proposal): each for each in waiting}
    add = tuple(each for identity, each in fresh_by_id.items() if identity not in waiting_by_id)
    end = []
    for identity, plan in waiting_by_id.items():
        if identity in fresh_by_id:
            continue
        rivals = [each for each in add if keys_of(each) & keys_of(plan.proposal)]
        if rivals:
            end.append((plan.number, "a newer plan took its place"))
        elif is_snoozed(plan.proposal, said_no, now_ms):
            end.append((plan.number, "the same was rejected"))
        elif abs(now_ms - seen_ms.get(plan.number, plan.as_of_ms)) > LINGER_MS:
            end.append((plan.number, "it is not advised any more"))
    still = tuple(plan.number for identity, plan in waiting_by_id.items() if identity in fresh_by_id)
    return Changes(add=add, end=tuple(end), still=still)


def is_snoozed(proposal: Proposal, said_no: Iterable[PendingPlan], now_ms: int) -> bool:
    """Whether somebody said no to a part of it, and that still holds: until the time that was named, else for
    a day while it rests on the same evidence."""
    rejected = [each for each in said_no if each.snoozed_ms is not None and each.snoozed_ms > now_ms]
    bases = {key_of(each.step): each.basis for each in proposal.steps if each.mode is Mode.ASK}
    for each in rejected:
        for old in each.proposal.steps:
            basis = bases.get(key_of(old.step)) if old.mode is Mode.ASK else None
            if basis is not None and (basis == old.basis or is_named(each)):
                return True
    return False


def snoozed_until_ms(now_ms: int, hours: float | None) -> int:
    """Until when a plan that is rejected now is not proposed again; no ``hours``: nobody named a time."""
    until_ms = now_ms + SNOOZE_MS if hours is None else now_ms + round(hours * MS_PER_HOUR)
    return until_ms + (hours is not None and until_ms == now_ms + SNOOZE_MS)


def is_named(plan: PendingPlan) -> bool:
    """Whether the person who rejected it named the time until which it is not proposed again.

    A named time is never exactly the usual one (``snoozed_until_ms``).
    """
    return plan.snoozed_ms != (plan.settled_ms or 0) + SNOOZE_MS


def key_of(step: Action) -> Key:
    """What makes two suggestions the same: the job, what is done to it, and under which class of action."""
    return step.job, verb_of(step), action_of(step)


def keys_of(proposal: Proposal) -> frozenset[Key]:
    """The keys of the steps that need approval."""
    return frozenset(key_of(each.step) for each in proposal.steps if each.mode is Mode.ASK)


def _proposed(
    step: Action, advice: Advice | None, state: ClusterState | None, limits: Limits | None
) -> Proposed:
    job = None if state is None else state.jobs.get(step.job)
    draft = Proposed(
        step=step,
        mode=Mode.AUTO if state is None or limits is None else _mode(step, state, limits),
        user=None if job is None else job.user,
        project=None if job is None else known_as(job.project),
        basis="" if state is None else _basis(step, state),
    )
    if advice is None:
        return draft
    return replace(
        draft,
        gain_gpu_hours=advice.known_gain_gpu_hours,
        horizon_s=advice.horizon_s,
        why=advice.why,
        risk=advice.risk,
        evidence=advice.evidence,
    )


def _mode(step: Action, state: ClusterState, limits: Limits) -> Mode:
    job, action = state.jobs.get(step.job), action_of(step)
    return limits.mode(action) if job is None else limits.mode_for(action, job.project, state.projects)


def _basis(step: Action, state: ClusterState) -> str:
    job, placement = state.jobs.get(step.job), state.placements.get(step.job)
    started = None if job is None else job.started_ms
    return f"{started} on {','.join(() if placement is None else placement.gpus)}"


def _knots(steps: Sequence[Action], state: ClusterState) -> list[tuple[Action, ...]]:
    """Steps in sets that rest on one another, each in the plan's order: by job, for whom, or a GPU left."""
    names: dict[str, int] = {}
    parent = list(range(len(steps)))

    def root(at: int) -> int:
        while parent[at] != at:
            at = parent[at]
        return at

    for at, step in enumerate(steps):
        for name in _ties(step, state):
            parent[root(at)] = root(names.setdefault(name, at))
    knots: dict[int, list[Action]] = {}
    for at, step in enumerate(steps):
        knots.setdefault(root(at), []).append(step)
    return [tuple(each) for each in knots.values()]


def _ties(step: Action, state: ClusterState) -> list[str]:
    askers = (getattr(step, "for_job", None), *(job for job, _ in getattr(step, "also_for", ())))
    placement = state.placements.get(step.job)
    gpus = (*getattr(step, "gpus", ()), *(() if placement is None else placement.gpus))
    return [
        f"job {step.job}",
        *(f"job {asker}" for asker in askers if asker),
        *(f"gpu {uuid}" for uuid in gpus),
    ]


def _near(refusal: Refusal, knot: tuple[Action, ...]) -> bool:
    return refusal.job in {step.job for step in knot}


def _identity(proposal: Proposal) -> tuple[Action, ...]:
    return tuple(_bare(each.step) for each in proposal.steps)


def _bare(step: Action) -> Action:
    """The step without what changes by itself from one look to the next: words and amounts."""
    match step:
        case Notify():
            return replace(step, reason="", message="")
        case HoldForJob():
            return replace(step, reason="", start_ms=0)
        case ReleaseMemory() | SetEnvAtRestart():
            return replace(step, reason="", frees_bytes=0)
        case _:
            return replace(step, reason="")
