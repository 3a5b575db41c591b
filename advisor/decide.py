"""``decide(state, limits) -> Plan``: the whole decision, a pure function of one snapshot.

The order of means (docs/decide.md): free GPUs first, then what advice would free (packing, caches, idle
holders), then elastic jobs shrink, then held-idle borrowers are paused, then borrowers are requeued; what is
left over goes to elastic jobs. The same snapshot gives the same plan, however it was built: nothing here
looks at a clock, at chance, or at the order in which a mapping was filled.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from advisor.advice import Abstain, Advice
from advisor.arithmetic.quota import quota_cover
from advisor.guard import action_of, forbidden, refusal
from advisor.limits import Limits, Order
from advisor.model import ActionClass, ClusterState
from advisor.plan import Plan, Refusal, Rule
from advisor.policies.queue import fill
from advisor.policies.reshape import reshape
from advisor.policies.resize import grow
from advisor.policies.turns import take_turns
from advisor.protection import Objection
from advisor.round import Round
from advisor.steps import Step
from advisor.transition import Draft, StepError, replay

MEANS = (
    ActionClass.PACK,
    ActionClass.CAP_MEMORY,
    ActionClass.RECLAIM,
    ActionClass.CONSOLIDATE,
    ActionClass.TERMINATE,
)
"""Classes of advice in the order in which their steps are tried, the gentlest first."""

DEFAULTS = Limits()


def decide(state: ClusterState, limits: Limits = DEFAULTS, advice: Sequence[Advice | Abstain] = ()) -> Plan:
    """The plan for this snapshot. ``advice`` is what policies said of it; its steps come first.

    Classes whose mode is OFF take no part. Expects what ``advisor.check.checked`` has let through.
    """
    followed, refused, after = _follow(state, limits, _steps(state, limits, advice))
    traded = _trade(after, limits)
    followed, after = followed + traded, replay(after, traded)
    round = Round(after, limits)
    if limits.ever(ActionClass.SCHEDULE):
        fill(round)
    if limits.ever(ActionClass.RESIZE):
        grow(round)
    plan = round.plan()
    return replace(plan, steps=followed + plan.steps, refused=refused + plan.refused, advice=tuple(advice))


def _trade(state: ClusterState, limits: Limits) -> tuple[Step, ...]:
    """What jobs of one project do for each other, where the order says so; no project gets or loses by it."""
    if not limits.ever(ActionClass.SCHEDULE):
        return ()
    match limits.order:
        case Order.YOUNGEST:
            return take_turns(state, limits)
        case Order.GOODPUT if limits.ever(ActionClass.RESIZE):
            return reshape(state, limits)
        case _:
            return ()


def _steps(state: ClusterState, limits: Limits, advice: Sequence[Advice | Abstain]) -> Iterator[Step]:
    for action in MEANS:
        if not limits.ever(action):
            continue
        for each in advice:
            if isinstance(each, Advice) and each.action is action:
                yield from (step for step in each.steps if not _is_off(step, state, limits))


def _is_off(step: Step, state: ClusterState, limits: Limits) -> bool:
    job = state.jobs.get(step.job)
    return job is not None and limits.is_off(action_of(step), job.project, state.projects)


def _follow(
    state: ClusterState, limits: Limits, steps: Iterable[Step]
) -> tuple[tuple[Step, ...], tuple[Refusal, ...], ClusterState]:
    """The steps that can be taken and break no rule, the others with the reason, and the state after them."""
    wanted = tuple(steps)
    if not wanted:
        return (), (), state
    draft, cover = Draft(state), quota_cover(state)
    taken: list[Step] = []
    refused: list[Refusal] = []
    for step in wanted:
        found = forbidden(step, draft, state, limits, cover)
        if found is None:
            try:
                draft.take(step)
                taken.append(step)
                continue
            except StepError as error:
                found = Objection(rule=Rule.STALE, reason=str(error))
        refused.append(refusal(step, found))
    return tuple(taken), tuple(refused), draft.state()
