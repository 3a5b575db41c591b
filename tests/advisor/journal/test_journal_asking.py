"""What waits for a yes, over random clusters: each proposal makes sense on its own, and none is lost."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.actions import Action
from advisor.decide import decide
from advisor.journal.proposals import PendingPlan, Proposal, Standing, asking, reconcile, snoozed_until_ms
from advisor.planner.guard import approve
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan
from advisor.state.model import ActionClass, ClusterState
from tests.advisor.planner.worlds import NOW_MS, clusters

ASK = Limits(modes=dict.fromkeys(ActionClass, Mode.ASK), actions_per_hour=None)
SOME = Limits(
    modes={**dict.fromkeys(ActionClass, Mode.ASK), ActionClass.SCHEDULE: Mode.AUTO}, actions_per_hour=None
)


def asked(state: ClusterState, limits: Limits) -> tuple[Plan, tuple[Proposal, ...]]:
    plan = decide(state, limits)
    ruling = approve(plan, state, limits)
    return plan, asking(plan, ruling.refused, state, limits)


def steps_of(proposal: Proposal) -> tuple[Action, ...]:
    return tuple(each.step for each in proposal.steps)


def kept(found: tuple[Proposal, ...], standing: Standing = Standing.WAITING) -> tuple[PendingPlan, ...]:
    return tuple(
        PendingPlan(
            number=at,
            as_of_ms=NOW_MS,
            standing=standing,
            proposal=each,
            settled_ms=NOW_MS,
            snoozed_ms=snoozed_until_ms(NOW_MS, None),
        )
        for at, each in enumerate(found, start=1)
    )


@settings(max_examples=60)
@given(clusters(), st.sampled_from([ASK, SOME]))
def test_each_proposal_can_be_done_alone_and_together_they_are_the_plan(
    state: ClusterState, limits: Limits
) -> None:
    plan, found = asked(state, limits)
    for proposal in found:
        alone = Plan(as_of_ms=state.as_of_ms, steps=steps_of(proposal))
        ruling = approve(alone, state, limits, frozenset(alone.steps))
        assert ruling.refused == (), "it rests on a step of another proposal"
        assert any(each.mode is Mode.ASK for each in proposal.steps)
    together = [step for proposal in found for step in steps_of(proposal)]
    assert len(together) == len(set(together)), "a step waits twice"
    whole = approve(plan, state, limits, frozenset(plan.steps)).approved.steps
    if limits is ASK:
        assert set(together) == set(whole)
    else:
        assert set(together) <= set(whole)


@settings(max_examples=40)
@given(clusters(), st.text(max_size=5))
def test_the_same_plans_in_other_words_change_nothing(state: ClusterState, words: str) -> None:
    _, found = asked(state, ASK)
    again = tuple(
        replace(each, steps=tuple(replace(one, step=replace(one.step, reason=words)) for one in each.steps))
        for each in found
    )
    changes = reconcile(kept(found), {}, again, said_no=(), now_ms=NOW_MS)
    assert (changes.add, changes.end) == ((), ())
    assert set(changes.still) == set(range(1, len(found) + 1))


@pytest.mark.slow
@settings(max_examples=40)
@given(clusters())
def test_what_was_rejected_is_not_proposed_and_everything_else_is(state: ClusterState) -> None:
    _, found = asked(state, ASK)
    said_no = kept(found[:1], Standing.REJECTED)
    changes = reconcile((), {}, found, said_no=said_no, now_ms=NOW_MS + 1)
    assert changes.add == found[1:]
    later = reconcile((), {}, found, said_no=said_no, now_ms=snoozed_until_ms(NOW_MS, None))
    assert later.add == found
