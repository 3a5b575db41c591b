"""Entering a group: nobody waits for transfers of others, and no sum counts before all are at one step."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.process_group.collectives import Group, GroupBroken  # noqa: E402
from fallow.process_group.membership_client import MembershipClient  # noqa: E402
from fallow.process_group.rendezvous import Ready  # noqa: E402
from fallow.protocol import MemberId, Plan  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick

MEMBERS = tuple(MemberId(f"w{rank}") for rank in range(3))


class Holder:
    """A state of one number; handing it over waits for ``gate``."""

    device = CPU

    def __init__(self, step: int, gate: threading.Event | None = None):
        self.next_step = step
        self._gate = gate

    def state(self) -> dict[str, Any]:
        if self._gate is not None:
            assert self._gate.wait(20)
        return {"step": self.next_step}

    def load(self, state: Mapping[str, Any]) -> None:
        self.next_step = state["step"]


class Line:
    """A channel whose plan is agreed already."""

    lost, address = False, "nowhere"

    def __init__(self, group: Group, plan: Plan):
        self.member = plan.members[group.rank]
        self._ready = Ready(plan=plan, group=group)
        self.said: list[str] = []

    def plan(self, number: int) -> Plan:
        assert number == self._ready.plan.number
        return self._ready.plan

    def agreed(self, number: int, timeout_s: float) -> Ready:
        return self._ready

    def next_after(self, number: int, timeout_s: float, *, recover: bool) -> Ready:
        return self._ready

    def sit(self, generation: int, group: Group) -> None:
        self.said.append(f"sits in {generation}")

    def announce(self, key: str, value: str = "1") -> None:
        self.said.append(key)


class Former:
    """A group that notes when it ends."""

    rank, world_size = 0, 2

    def __init__(self) -> None:
        self.ended = 0

    def retire(self) -> None:
        self.ended += 1

    abort = retire


def seated(group: Group, plan: Plan, holder: Holder) -> tuple[MembershipClient, Former]:
    former = Former()
    joins = plan.members[group.rank] in plan.receivers
    return MembershipClient(holder, Line(group, plan), not joins, former), former  # type: ignore[arg-type]


def test_who_has_nothing_to_hand_over_goes_on_while_others_do() -> None:
    plan = Plan(number=4, base=3, members=MEMBERS, receivers=MEMBERS[2:])  # rank 0 hands over to rank 2
    gate = threading.Event()

    def work(group: Group) -> object:
        holder = Holder(7 if group.rank < 2 else 0, gate if group.rank == 0 else None)
        seat, former = seated(group, plan, holder)
        if group.rank == 2:
            seat.join()
        else:
            seat.switch(4)
        if group.rank == 1:
            assert not gate.is_set()
            gate.set()
        before = former.ended
        seat.prove()
        seat.prove()
        return holder.next_step, seat.generation, before, former.ended

    assert together(3, work) == [(7, 4, 0, 1)] * 3


def test_a_sum_of_workers_at_different_steps_is_not_trusted() -> None:
    plan = Plan(number=4, base=3, members=MEMBERS)

    def work(group: Group) -> object:
        seat, former = seated(group, plan, Holder(8 if group.rank == 1 else 7))
        seat.switch(4)
        with pytest.raises(
            GroupBroken, match=f"different steps; this one is at {8 if group.rank == 1 else 7}"
        ):
            seat.prove()
        return former.ended

    assert together(3, work) == [0] * 3
