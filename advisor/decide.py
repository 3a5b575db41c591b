"""``decide(state, limits) -> Plan``: the whole decision, a pure function of one snapshot.

The order of means (docs/decide.md): free GPUs first, then what advice would free (packing, caches, idle
holders), then elastic jobs shrink, then held-idle borrowers are paused, then borrowers are requeued; what is
left over goes to elastic jobs. The same snapshot gives the same plan, however it was built: nothing here
looks at a clock, at chance, or at the order in which a mapping was filled.

It is planned in turns where some classes of action need a yes and others don't: first what is done by itself,
so that nobody waits for a yes while a GPU is free; then, on the cluster as it will be, what would be done
once somebody said yes; then what is only advised. What comes after the first turn is proposed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from advisor.actions import Action, Start
from advisor.planner.guard import action_of, approve, is_unwatched, refusal
from advisor.planner.limits import Limits, Mode, Order
from advisor.planner.plan import Abstain, Advice, Plan, Refusal, Rule, whole
from advisor.planner.protection import Objection
from advisor.planner.transition import Draft, StepError, replay
from advisor.planner.working_state import WorkingState
from advisor.policies.elastic import grow
from advisor.policies.elastic_placement import reshape
from advisor.policies.queue import fill
from advisor.policies.time_slicing import take_turns
from advisor.state.model import ActionClass, ClusterState, Job, ProjectName
from collector.model import JobId

MEANS = (
    ActionClass.PACK,
    ActionClass.CAP_MEMORY,
    ActionClass.RECLAIM,
    ActionClass.CONSOLIDATE,
    ActionClass.TERMINATE,
    ActionClass.BACKGROUND,
)
"""Classes of advice in the order in which their steps are tried, the gentlest first."""

QUEUES = (ActionClass.SCHEDULE, ActionClass.FAIR_SHARE, ActionClass.RESIZE)
"""Classes of the steps that are taken without advice."""

TRADES = {Order.YOUNGEST: QUEUES[:2], Order.GOODPUT: QUEUES}
"""What jobs of one project trade by; only where all of it takes part is anything traded."""

TRIES = 3
"""How often is planned anew without the moves that brought nobody to start; then without any."""

DEFAULTS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Steps of an advice that are done whole or not at all; ``gang`` is who must start because of them."""

    action: ActionClass
    steps: tuple[Action, ...]
    gang: JobId | None = None


def decide(state: ClusterState, limits: Limits = DEFAULTS, advice: Sequence[Advice | Abstain] = ()) -> Plan:
    """The plan for this snapshot. ``advice`` is what policies said of it; its steps come first.

    Classes whose mode is OFF take no part. Expects what ``advisor.planner.validate.checked`` has let through.
    """
    remaining = tuple(_means(advice))
    turns: list[tuple[Mode, Plan]] = []
    # What needs no yes is planned first: else a job waits for a yes beside a GPU that is free
    # (docs/decisions/0030).
    for least in (Mode.AUTO, Mode.ASK, Mode.ADVISE):
        bounds = replace(limits, least=least)
        now = tuple(each for each in remaining if _takes_part(each, state, bounds))
        if not now and not any(least in limits.modes_of(action) for action in QUEUES):
            continue
        remaining = tuple(each for each in remaining if each not in now)
        # Each turn is planned on the cluster as the one before leaves it, so that a proposal holds once that
        # is done.
        state = replay(state, turns[-1][1].steps) if turns else state
        turns.append((least, _planned(state, bounds, now)))
    plans = [plan for _, plan in turns] or [WorkingState(state, limits).plan()]
    alone = len(plans[0].steps) if len(turns) > 1 and turns[0][0] is Mode.AUTO else None
    return replace(reduce(_then, plans), alone=alone, advice=tuple(advice))


def _then(first: Plan, second: Plan) -> Plan:
    """One turn after the other; why somebody waits is told by the last that looked at him."""
    judged = {each.job for each in second.refused if each.step is None}
    stays = tuple(each for each in first.refused if each.step is not None or each.job not in judged)
    return replace(
        first,
        steps=first.steps + second.steps,
        refused=stays + second.refused,
        outlook=second.outlook,
    )


def _planned(state: ClusterState, limits: Limits, means: tuple[Means, ...]) -> Plan:
    """The plan of what takes part under these bounds.

    Moves for a gang are kept only if the queue, in its own order and with all that it promised, then starts
    the gang on what is free: who starts is the queue's to say.
    """
    vain: tuple[Refusal, ...] = ()
    for further_tries in reversed(range(TRIES)):
        followed, refused, after = _follow(state, limits, means)
        traded = _trade(after, limits)
        unsettled = traded is None and limits.order is Order.GOODPUT  # sizes of equals were not weighed
        bounds = replace(limits, order=Order.SHORTEST) if unsettled else limits
        round = WorkingState(_feasible(replay(after, traded) if traded else after), bounds)
        if limits.ever(ActionClass.SCHEDULE):
            fill(round)
        idle = {each.gang for each in followed if each.gang is not None and not _starts(round, each.gang)}
        if not idle:
            break
        # With one try left all moves for gangs go: the last plan has none that the queue could leave in vain.
        dropped = [
            each for each in means if each.gang in idle or (each.gang is not None and further_tries == 1)
        ]
        vain += tuple(_in_vain(each) for each in dropped)
        means = tuple(each for each in means if each not in dropped)
    if limits.ever(ActionClass.RESIZE):
        grow(round)
    plan = round.plan()
    done = tuple(step for each in followed for step in each.steps) + (traded or ())
    own = tuple(step for step in plan.steps if not _stands_off(step, state, limits))
    return replace(plan, steps=done + own, refused=vain + refused + plan.refused)


def _starts(round: WorkingState, gang: JobId) -> bool:
    """Whether the queue starts the gang, and nobody gives way for it beside the moves."""
    return gang in round.new and not any(getattr(step, "for_job", None) == gang for step in round.steps)


def _in_vain(means: Means) -> Refusal:
    reason = f"the queue would not start {means.gang} on what that frees"
    return refusal(means.steps[0], Objection(rule=Rule.STALE, reason=reason))


def _trade(state: ClusterState, limits: Limits) -> tuple[Action, ...] | None:
    """What jobs of one project do for each other, where the order says so; no project gets or loses by it.

    ``None``: nobody may trade.
    """
    classes = TRADES.get(limits.order)
    if classes is None:
        return None
    names = {job.project for job in state.jobs.values()}
    out = {n for n in names if any(limits.is_off(each, n, state.projects) for each in classes)}
    if out == names:
        return None
    among = _without(state, limits.order, out)
    if limits.order is Order.YOUNGEST:
        return take_turns(among, limits)
    return _possible(state, limits, reshape(among, limits))


def _without(state: ClusterState, order: Order, out: set[ProjectName]) -> ClusterState:
    """The state in which jobs of these projects ask for no trade: they don't wait, or report no speed."""
    if not out:
        return state
    jobs: dict[JobId, Job] = {}
    for id, job in state.jobs.items():
        if job.project not in out:
            jobs[id] = job
        elif order is Order.GOODPUT:
            jobs[id] = replace(job, profile=None)
        elif id in state.placements:
            jobs[id] = job
    return replace(state, jobs=jobs)


def _possible(state: ClusterState, limits: Limits, steps: Iterable[Action]) -> tuple[Action, ...]:
    """The steps without those whose class takes no part, and those that rest on them."""
    draft, possible = Draft(state), []
    for step in steps:
        if _stands_off(step, state, limits):
            continue
        try:
            draft.take(step)
        except StepError:
            continue
        possible.append(step)
    return tuple(possible)


def _feasible(state: ClusterState) -> ClusterState:
    """The state in which nobody is to give way in a manner that no engine here can carry out."""
    bound = {
        id: replace(job, withheld={**{verb: job.cannot[verb] for verb in result}, **job.withheld})
        for id, job in state.jobs.items()
        if job.cannot and (result := job.cannot.keys() & {"pause", "requeue"})
    }
    return replace(state, jobs={**state.jobs, **bound}) if bound else state


def _means(advice: Sequence[Advice | Abstain]) -> Iterator[Means]:
    """What is advised, in the order of means. Whom an advice starts, the queue must start."""
    for action in MEANS:
        for each in advice:
            if isinstance(each, Advice) and each.action is action:
                gang = next((step.job for step in each.steps if isinstance(step, Start)), None)
                for steps in whole(step for step in each.steps if not isinstance(step, Start)):
                    yield Means(action=action, steps=steps, gang=gang)


def _takes_part(means: Means, state: ClusterState, limits: Limits) -> bool:
    """Whether all of it may be done under these bounds."""
    if not limits.ever(means.action) or any(_stands_off(step, state, limits) for step in means.steps):
        return False
    if limits.least is Mode.AUTO and any(is_unwatched(step, state) for step in means.steps):
        return False
    gang = None if means.gang is None else state.jobs.get(means.gang)
    return gang is None or not limits.is_off(ActionClass.SCHEDULE, gang.project, state.projects)


def _stands_off(step: Action, state: ClusterState, limits: Limits) -> bool:
    job, action = state.jobs.get(step.job) or state.background.get(step.job), action_of(step)
    if job is None:
        return limits.mode(action).rank < limits.least.rank
    return limits.is_off(action, job.project, state.projects)


def _follow(
    state: ClusterState, limits: Limits, proposed: Sequence[Means]
) -> tuple[tuple[Means, ...], tuple[Refusal, ...], ClusterState]:
    """What the guard would let through whole, the rest with the reason, and the state after it.

    What is only advised is not counted under the bound on disturbances: it is not done.
    """
    if not proposed:
        return (), (), state
    steps = tuple(step for means in proposed for step in means.steps)
    modes = dict.fromkeys(ActionClass, Mode.AUTO)
    bound = None if limits.least is Mode.ADVISE else limits.actions_per_hour
    free = replace(limits, modes=modes, project_modes={}, actions_per_hour=bound)
    agreed = frozenset() if limits.least is Mode.AUTO else frozenset(steps)
    ruling = approve(Plan(as_of_ms=state.as_of_ms, steps=steps), state, free, agreed)
    done = ruling.approved.steps
    possible = tuple(means for means in proposed if all(step in done for step in means.steps))
    return possible, ruling.refused, replay(state, done)
