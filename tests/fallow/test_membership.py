"""Every race of a changing training as rows of a table, and a shuffled world that must always settle."""

import random
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.controller import events
from fallow.controller.actions import Action, Adopt, Cancel, Commit, GiveUp, Kill, Publish, Settle, Start
from fallow.controller.membership import Limits, Pending, Phase, View, Worker, decide
from fallow.protocol import MISTAKE, MemberId, Plan, decode_plan, encode_plan
from tests.searches import examples

pytestmark = pytest.mark.quick

LIMITS = Limits(start_ms=1000, connect_ms=100, switch_ms=200, report_ms=50)
PATIENT = replace(LIMITS, failures=10**6, stalled=10**6, start_ms=10**6, report_ms=10**6)
A, B, C, D = (MemberId(name) for name in "abcd")


def worker(phase: Phase, since_ms: int = 0, founder: bool = False) -> Worker:
    return Worker(phase=phase, since_ms=since_ms, founder=founder)


def view(target: int, members: str, **changes: object) -> View:
    names = tuple(MemberId(name) for name in members)
    workers = {name: worker(Phase.MEMBER) for name in names}
    base = View(target=target, generation=3, members=names, workers=workers, next_number=4)
    return replace(base, **changes)  # type: ignore[arg-type]


def ready(base: View, *names: MemberId) -> View:
    return replace(base, workers={**base.workers, **{name: worker(Phase.READY) for name in names}})


def without(base: View, *names: MemberId) -> View:
    return replace(base, workers={n: w for n, w in base.workers.items() if n not in names})


def test_a_training_at_its_target_is_left_alone() -> None:
    assert decide(view(2, "ab"), 0, LIMITS) == ()


def test_founders_start_together_and_the_first_hands_its_state_over() -> None:
    empty = View(target=2)
    assert decide(empty, 0, LIMITS) == (Start(2, True),)
    warm = replace(empty, workers={n: worker(Phase.READY, founder=True) for n in (A, B)})
    assert decide(warm, 0, LIMITS) == (Publish(Plan(number=1, base=0, members=(A, B), receivers=(B,))),)


def test_growing_waits_for_all_joiners_and_leaves_the_members_stepping() -> None:
    grow = view(3, "a")
    assert decide(grow, 0, LIMITS) == (Start(2, False),)
    half = ready(grow, B)
    assert decide(half, 0, LIMITS) == (Start(1, False),)
    plan = Plan(number=4, base=3, members=(A, B, C), receivers=(B, C))
    assert decide(ready(grow, B, C), 0, LIMITS) == (Publish(plan),)


def test_shrinking_needs_no_joiner_and_keeps_rank_order() -> None:
    assert decide(view(1, "abc"), 0, LIMITS) == (Publish(Plan(number=4, base=3, members=(A,))),)


def test_a_plan_is_committed_only_when_everybody_is_connected() -> None:
    plan = Plan(number=4, base=3, members=(A, B), receivers=(B,))
    pending = Pending(plan=plan, published_ms=0, connected=frozenset({A}))
    base = ready(view(2, "a", pending=pending, next_number=5), B)
    assert decide(base, 50, LIMITS) == ()
    both = replace(base, pending=replace(pending, connected=frozenset({A, B})))
    assert decide(both, 50, LIMITS) == (Commit(plan),)


def test_a_joiner_that_never_connects_costs_the_members_nothing() -> None:
    plan = Plan(number=4, base=3, members=(A, B), receivers=(B,))
    pending = Pending(plan=plan, published_ms=0, connected=frozenset({A}))
    base = ready(view(2, "a", pending=pending, next_number=5), B)
    drop, kill = decide(base, 101, LIMITS)
    assert isinstance(drop, Cancel)
    assert kill == Kill(B, "did not connect within 0.1 s")


def test_a_joiner_that_dies_before_the_commit_cancels_the_plan() -> None:
    plan = Plan(number=4, base=3, members=(A, B), receivers=(B,))
    dead = view(2, "a", pending=Pending(plan=plan, published_ms=0), next_number=5)
    assert decide(dead, 1, LIMITS) == (Cancel(plan, "a member of the new group died"),)


def test_survivors_recover_from_whoever_is_furthest() -> None:
    broken = without(view(3, "abc", lost={A: 10, C: 11}, broken_since_ms=0), B)
    plan = Plan(number=4, base=3, members=(A, C), receivers=(A,), recover=True)
    assert decide(broken, 1, LIMITS) == (Publish(plan),)


def test_a_survivor_that_notices_nothing_is_waited_for_then_killed() -> None:
    broken = without(view(3, "abc", lost={A: 10}, broken_since_ms=0), B)
    assert decide(broken, 1, LIMITS) == ()
    assert decide(broken, 51, LIMITS) == (Kill(C, "did not notice that its group broke"),)


def test_a_death_during_recovery_draws_a_new_number() -> None:
    plan = Plan(number=4, base=3, members=(A, C), recover=True)
    pending = Pending(plan=plan, published_ms=0, connected=frozenset({A}))
    again = without(
        view(3, "abc", lost={A: 10, C: 10}, broken_since_ms=0, pending=pending, next_number=5), B, C
    )
    drop, publish = decide(again, 1, LIMITS)
    assert isinstance(drop, Cancel)
    assert publish == Publish(Plan(number=5, base=3, members=(A,), recover=True))


def test_old_reports_of_the_broken_group_do_not_cancel_its_recovery() -> None:
    plan = Plan(number=4, base=3, members=(A, C), recover=True)
    pending = Pending(plan=plan, published_ms=0, connected=frozenset({A, C}))
    mending = without(
        view(3, "abc", lost={A: 10, C: 10}, broken_since_ms=0, pending=pending, next_number=5), B
    )
    assert decide(mending, 1, LIMITS) == (Commit(plan),)


def test_a_death_after_the_commit_but_before_the_switch_recovers_the_old_group() -> None:
    plan = Plan(number=4, base=3, members=(A, B, C), receivers=(C,))
    pending = Pending(plan=plan, published_ms=0, connected=frozenset({A, B, C}), committed=True)
    broken = view(3, "ab", lost={A: 7}, broken_since_ms=0, pending=pending, next_number=5)
    survivors = without(ready(broken, C), B)
    assert decide(survivors, 1, LIMITS) == (Publish(Plan(number=5, base=3, members=(A,), recover=True)),)


def stopping(**changes: object) -> View:
    """Two members that a committed plan lets go; of them, A is to save."""
    leave = Pending(plan=Plan(number=4, base=3, members=()), published_ms=0, committed=True)
    return replace(view(2, "ab", pending=leave, next_number=5, stopping=True), **changes)


def test_who_dies_while_all_leave_is_not_waited_for() -> None:
    base = stopping()
    assert base.pending is not None
    left = replace(base, pending=replace(base.pending, switched=frozenset({B})))
    assert decide(left, 50, LIMITS) == (), "A may be saving"
    failed = events.ended(left, A, 1, "no room", 60)
    assert decide(failed, 60, LIMITS) == (Adopt(base.pending.plan),)
    early = events.ended(base, A, 1, "no room", 60)
    assert decide(early, 60, LIMITS) == (), "B may be in a step"


def test_a_training_that_ends_while_it_is_asked_to_stop_has_ended() -> None:
    base = stopping()
    ended = events.ended(events.ended(base, A, 0, None, 60), B, 0, None, 60)
    assert ended.finished and not ended.members and decide(ended, 60, LIMITS) == ()
    assert base.pending is not None
    left = replace(base, pending=replace(base.pending, switched=frozenset({A, B})))
    ended = events.ended(events.ended(left, A, 0, None, 60), B, 0, None, 60)
    assert not ended.finished and decide(ended, 60, LIMITS) == (Adopt(base.pending.plan),)


@pytest.mark.parametrize("staying", [(A,), ()])
@pytest.mark.parametrize("code_of_c", [0, 1])
def test_a_training_that_ends_right_behind_a_resize_has_ended_in_whatever_order(
    staying: tuple[MemberId, ...], code_of_c: int
) -> None:
    """All of it may happen between two looks of a controller that waits for a processor."""
    plan = Plan(number=4, base=3, members=staying)
    switched = frozenset({B, C, *staying})
    pending = Pending(plan=plan, published_ms=0, committed=True, switched=switched)
    base = view(1, "abc", pending=pending, next_number=5, stopping=not staying)
    for order in permutations({A: 0, B: 0, C: code_of_c}.items()):
        over = base
        for member, code in order:
            over = events.ended(over, member, code, None, 60)
        assert over.finished and not over.members, order
        assert decide(over, 60, LIMITS) == (), order


def test_a_training_that_ends_before_its_first_group_is_seen_has_ended_well() -> None:
    """One that is resumed at its end has no step to do, and a controller may wait for a processor."""
    plan = Plan(number=1, base=0, members=(A, B), receivers=(B,))
    pending = Pending(plan=plan, published_ms=0, committed=True, switched=frozenset({A, B}))
    founders = {name: worker(Phase.READY, founder=True) for name in (A, B)}
    base = View(target=2, workers=founders, pending=pending, next_number=2)
    half = events.ended(base, A, 0, None, 60)
    assert half.finished and half.members == (B,) and decide(half, 60, LIMITS) == (), "B may be saving"
    over = events.ended(half, B, 0, None, 70)
    assert over.finished and not over.members and not over.failures and decide(over, 70, LIMITS) == ()
    (action,) = decide(events.ended(half, B, 1, "no room", 70), 70, LIMITS)
    assert isinstance(action, GiveUp), "what B had to do is not done"


def test_nobody_left_is_said_and_not_waited_for() -> None:
    (action,) = decide(without(view(2, "ab"), A, B), 0, LIMITS)
    assert isinstance(action, GiveUp)


def test_a_founder_lost_while_the_first_group_forms_does_not_lose_the_training() -> None:
    plan = Plan(number=1, base=0, members=(A, B, C), receivers=(B, C))
    pending = Pending(plan=plan, published_ms=0, committed=True, lost={B: 0, C: 0})
    founders = {name: worker(Phase.READY, founder=True) for name in (B, C)}
    broken = View(target=3, workers=founders, pending=pending, next_number=2, broken_since_ms=0)
    rescue = Plan(number=2, base=0, members=(B, C), receivers=(C,), recover=True)
    assert decide(broken, 1, LIMITS) == (Publish(rescue),)


def test_a_script_that_cannot_start_is_not_started_for_ever() -> None:
    (action,) = decide(View(target=1, failures=5, last_failure="w4 ended with 1"), 0, LIMITS)
    assert action == GiveUp("5 starts in a row failed; the last: w4 ended with 1")


def test_joiners_that_fail_again_and_again_leave_the_old_size_and_say_so() -> None:
    failing = view(2, "a", failures=5, last_failure="b did not connect within 0.1 s")
    (action,) = decide(failing, 0, LIMITS)
    assert action == Settle("5 attempts in a row failed; the last: b did not connect within 0.1 s")
    settled = events.settled(failing, "tried enough")
    assert settled.target == 1
    assert decide(settled, 0, LIMITS) == ()
    assert decide(events.asked(settled, 2), 0, LIMITS) == (Start(1, False),)


def test_a_finished_training_is_not_repaired() -> None:
    assert decide(without(view(2, "ab", finished=True), A), 0, LIMITS) == ()


def test_a_plan_survives_the_wire() -> None:
    plan = Plan(number=9, base=4, members=(A, B, C), receivers=(C,), recover=True)
    assert decode_plan(encode_plan(plan)) == plan


def test_sources_share_the_hand_over() -> None:
    plan = Plan(number=1, base=0, members=(A, B, C, D), receivers=(C, D))
    assert plan.transfers == ((0, 2), (1, 3))


class World:
    """Workers that connect, switch and die as the drawn choices say; the controller's half is ``decide``."""

    def __init__(self, target: int):
        self.view = View(target=target)
        self.now = 0
        self.born = 0
        self.steps: dict[MemberId, int] = {}
        self.numbers: list[int] = []

    def kill(self, member: MemberId) -> None:
        self.view = events.ended(self.view, member, -9, None, self.now)
        self._notice()

    def act(self, action: Action) -> None:
        match action:
            case Start(count=count, founder=founder):
                for _ in range(count):
                    self.view = events.started(self.view, MemberId(f"w{self.born}"), founder, self.now)
                    self.born += 1
            case Publish(plan=plan):
                self._check(plan)
                self.view = events.published(self.view, plan, self.now)
            case Commit():
                self.view = events.committed(self.view)
            case Cancel():
                self.view = events.cancelled(self.view, action, self.now)
            case Adopt(plan=plan):
                self._adopt(plan)
            case Kill(member=member):
                self.view = events.condemned(self.view, action, self.now)
                self.kill(member)
            case Settle():
                raise AssertionError("nobody failed that often")
            case GiveUp():
                raise AssertionError("somebody who holds the state was alive")

    def progress(self, choice: int) -> None:
        """One worker does the next thing that it can do."""
        self.now += 1
        names = sorted(self.view.workers)
        if not names:
            return
        name = names[choice % len(names)]
        one, pending = self.view.workers[name], self.view.pending
        if one.phase is Phase.STARTING:
            self.view = replace(
                self.view, workers={**self.view.workers, name: replace(one, phase=Phase.READY)}
            )
        elif pending is not None and name in pending.plan.members:
            if name not in pending.connected:
                self.view = replace(self.view, pending=replace(pending, connected=pending.connected | {name}))
            elif pending.committed and name not in pending.switched:
                self._switch(name, pending)

    def _switch(self, name: MemberId, pending: Pending) -> None:
        if name in pending.plan.receivers:
            source = next(m for m in pending.plan.members if m not in pending.plan.receivers)
            if source not in self.view.workers:
                return
            self.steps[name] = self.steps.get(source, 0)
        self.view = replace(self.view, pending=replace(pending, switched=pending.switched | {name}))

    def _notice(self) -> None:
        dead = [m for m in self.view.members if m not in self.view.workers]
        if dead:
            lost = {m: self.steps.get(m, 0) for m in self.view.members if m in self.view.workers}
            self.view = events.lost(self.view, lost, self.now)
        pending = self.view.pending
        if pending is not None and any(m not in self.view.workers for m in pending.plan.members):
            involved = pending.plan.members if pending.plan.base == 0 else pending.switched
            lost = {m: self.steps.get(m, 0) for m in involved if m in self.view.workers and pending.committed}
            self.view = replace(self.view, pending=replace(pending, lost=lost))

    def _check(self, plan: Plan) -> None:
        assert not self.numbers or plan.number > self.numbers[-1], "plan numbers only grow"
        self.numbers.append(plan.number)
        assert all(member in self.view.workers for member in plan.members), "no plan names the dead"
        assert set(plan.receivers) < set(plan.members), "somebody holds the state"
        known = [self.steps.get(m, 0) for m in plan.members if m not in plan.receivers]
        assert max(known) == max(self.steps.get(m, 0) for m in plan.members), "the furthest is a source"

    def _adopt(self, plan: Plan) -> None:
        furthest = max(self.steps.get(m, 0) for m in plan.members)
        self.view = events.adopted(self.view, plan, self.now)
        for name in plan.members:
            self.steps[name] = furthest + 1
        for name, one in list(self.view.workers.items()):
            if one.phase is Phase.LEAVING:
                self.view = events.ended(self.view, name, 0, None, self.now)


@pytest.mark.slow
@settings(max_examples=examples(100, 300), deadline=None)
@given(
    start=st.integers(1, 4),
    moves=st.lists(
        st.tuples(st.sampled_from(["go", "go", "go", "kill", "resize"]), st.integers(0, 50)), max_size=60
    ),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_order_of_events_the_training_reaches_its_target(
    start: int, moves: list[tuple[str, int]], seed: int
) -> None:
    world = World(start)
    for kind, choice in moves:
        if kind == "resize":
            world.view = replace(world.view, target=1 + choice % 4)
        elif kind == "kill":
            pending = world.view.pending
            founding = pending.plan.members if pending is not None and pending.plan.base == 0 else ()
            holders = [m for m in world.view.members or founding if m in world.view.workers]
            names = sorted(world.view.workers)
            victim = names[choice % len(names)] if names else None
            if victim is not None and (victim not in holders or len(holders) > 1):
                world.kill(victim)
        else:
            world.progress(choice)
        for action in decide(world.view, world.now, PATIENT):
            world.act(action)
    order = random.Random(seed)
    for _ in range(60):
        for choice in order.sample(range(12), 12):
            world.progress(choice)
            for action in decide(world.view, world.now, PATIENT):
                world.act(action)
    assert len(world.view.members) == world.view.target
    assert all(member in world.view.workers for member in world.view.members)


def unhanded(base: View) -> View:
    return events.unhanded(base, A, "state['e'] is a function", 50)


def test_who_cannot_hand_its_state_over_goes_on_without_who_was_to_join() -> None:
    plan = Plan(number=4, base=3, members=(A, B), receivers=(B,))
    pending = Pending(plan=plan, published_ms=0, committed=True)
    base = ready(view(2, "a", pending=pending, next_number=5), B)
    told = unhanded(events.lost(base, {A: 7}, 50))
    assert told.last_failure == "a cannot hand the training over: state['e'] is a function"
    assert unhanded(told) == told, "said once"
    recovery = Plan(number=5, base=3, members=(A,), recover=True)
    assert decide(told, 60, LIMITS) == (Publish(recovery),)
    whole = events.adopted(events.published(told, recovery, 60), recovery, 70)
    (settle,) = decide(whole, 70, LIMITS)
    assert settle == Settle("a cannot hand the training over: state['e'] is a function")
    calm = events.settled(whole, settle.reason)
    assert (calm.target, calm.unhanded) == (1, None)
    assert decide(calm, 80, LIMITS) == (Kill(B, "not needed any more", failure=False),)
    assert decide(events.asked(without(calm, B), 2), 90, LIMITS) == (Start(1, False),), (
        "it can be tried again"
    )


def test_who_is_behind_and_cannot_be_brought_up_is_ended_and_the_others_go_on() -> None:
    recovery = Plan(number=4, base=3, members=(A, B), receivers=(B,), recover=True)
    pending = Pending(plan=recovery, published_ms=0, committed=True, lost={A: 8, B: 7})
    told = unhanded(view(2, "ab", pending=pending, next_number=5, lost={A: 8, B: 7}))
    kill = Kill(B, "the state cannot be handed to it", failure=False)
    assert decide(told, 60, LIMITS) == (kill,)
    dying = events.condemned(told, kill, 60)
    assert decide(dying, 60, LIMITS) == ()
    gone = events.ended(dying, B, -9, None, 70)
    assert decide(gone, 70, LIMITS) == (Publish(Plan(number=5, base=3, members=(A,), recover=True)),)


def test_founders_that_cannot_be_handed_a_state_leave_the_first_to_train_alone() -> None:
    founding = Plan(number=1, base=0, members=(A, B), receivers=(B,))
    pending = Pending(plan=founding, published_ms=0, committed=True)
    founders = {name: worker(Phase.READY, founder=True) for name in (A, B)}
    base = View(target=2, workers=founders, pending=pending, next_number=2)
    told = unhanded(events.lost(base, {A: 0, B: 0}, 50))
    (kill,) = decide(told, 60, LIMITS)
    assert kill == Kill(B, "the state cannot be handed to it", failure=False)
    gone = events.ended(events.condemned(told, kill, 60), B, -9, None, 70)
    alone = Plan(number=2, base=0, members=(A,), recover=True)
    assert decide(gone, 70, LIMITS) == (Publish(alone),)
    whole = events.adopted(events.published(gone, alone, 70), alone, 80)
    assert isinstance(decide(whole, 80, LIMITS)[0], Settle)


def test_a_start_is_limited_for_joiners_of_whom_nothing_is_heard() -> None:
    late_ms = LIMITS.start_ms + 1
    joining, founding = worker(Phase.STARTING), worker(Phase.STARTING, founder=True)
    mute = replace(view(2, "a"), workers={A: worker(Phase.MEMBER), B: joining})
    assert decide(mute, late_ms, LIMITS) == (Kill(B, "still starting after 1 s"),)
    busy = {A: worker(Phase.MEMBER), B: replace(joining, heard_ms=late_ms)}
    assert decide(replace(mute, workers=busy), late_ms, LIMITS) == ()
    first = View(target=1, workers={A: founding})
    assert decide(first, 10**8, LIMITS) == (), "a script that isn't elastic may take days"
    assert decide(events.asked(first, 2), 10**8, LIMITS) == (), "and is not run a second time meanwhile"
    heard = replace(first, workers={A: replace(founding, heard_ms=0)})
    assert decide(events.asked(heard, 2), 0, LIMITS) == (Start(1, True),)
    assert decide(heard, LIMITS.silence_ms + 1, LIMITS)[0] == Kill(
        A, "silent for 30 s: stopped, or out of reach"
    )


def test_what_would_end_alike_is_not_started_again() -> None:
    founding = worker(Phase.STARTING, founder=True)
    alone = View(target=2, workers={A: founding, B: founding})
    done = events.ended(alone, A, 0, None, 5)
    assert (done.finished, done.failures) == (True, 0)
    assert decide(done, 5, LIMITS) == ()
    failed = events.ended(alone, A, 3, "OSError: no such file", 5)
    assert decide(failed, 5, LIMITS) == (GiveUp("a ended with 3 while starting: OSError: no such file"),)
    killed = events.ended(alone, A, -9, None, 5)
    assert (killed.over, killed.failures) == (None, 1)
    connected = View(target=1, workers={A: replace(founding, heard_ms=1)})
    assert decide(events.ended(connected, A, 1, "OSError: busy", 5), 5, LIMITS) == (Start(1, True),)
    mistaken = events.ended(connected, A, MISTAKE, "Mistake: no", 5)
    assert decide(mistaken, 5, LIMITS) == (GiveUp("a ended with 64 while starting: Mistake: no"),)
    joining = replace(view(2, "a"), workers={A: worker(Phase.MEMBER), B: worker(Phase.STARTING)})
    refused = events.ended(joining, B, MISTAKE, "Mistake: no", 5)
    reason = "b ended with 64 while starting: Mistake: no, as any other would"
    assert decide(refused, 5, LIMITS) == (Settle(reason),)
    assert decide(events.asked(refused, 2), 5, LIMITS) == (Start(1, False),)
