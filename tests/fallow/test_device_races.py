"""Orders of devices in any order with deaths: every device gets its one worker, and nobody stays elsewhere.

The rules alone, in a shuffled world: ``membership.decide``, ``events`` and ``slots``, with no process.
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow import protocol
from fallow.controller import events
from fallow.controller.actions import Action, Kill, Publish, Start
from fallow.controller.membership import Phase, View, decide
from fallow.protocol import MemberId, Plan
from fallow.workers.hosts import Machine, Offer
from tests.fallow.test_membership import LIMITS, PATIENT, A, B, C, World, ready, view, worker
from tests.searches import examples

DEVICES = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")


class Handle:
    """A worker of the shuffled world, as a machine sees it."""

    def __init__(self, world: "DeviceWorld", member: MemberId) -> None:
        self._world, self._member = world, member

    def poll(self) -> int | None:
        return None if self._member in self._world.alive else 0

    def terminate(self) -> None:
        raise AssertionError("nobody ends a worker but the controller")

    kill = terminate

    def wait(self, timeout: float | None = None) -> int:
        raise AssertionError("nobody waits")


class DeviceWorld(World):
    """The same world on one machine, whose devices change."""

    def __init__(self, devices: tuple[str, ...]) -> None:
        super().__init__(len(devices))
        self.starting: set[MemberId] = set()
        offer = Offer(name="here", slots=len(devices), host="", devices=devices)
        self.machine = Machine(offer, self.spawn)

    @property
    def alive(self) -> set[MemberId]:
        return {*self.view.workers, *self.starting}

    def spawn(self, variables: Mapping[str, str]) -> Handle:
        sitting = [seat.device for seat in self.machine.seating() if seat.member is not None]
        assert variables["CUDA_VISIBLE_DEVICES"] not in sitting, "one worker a device"
        member = MemberId(variables[protocol.ENV_MEMBER])
        self.starting.add(member)
        return Handle(self, member)

    def act(self, action: Action) -> None:
        if isinstance(action, Start):
            for number in range(self.born, self.born + action.count):
                self.machine.start({protocol.ENV_MEMBER: f"w{number}", "WORLD_SIZE": "1"})
        super().act(action)
        self.starting.clear()

    def order(self, devices: tuple[str, ...]) -> None:
        self.view = events.reseated(self.view, self.machine.assign(devices), len(devices))

    def decide(self) -> None:
        self.view = replace(self.view, room=self.machine.free())
        for action in decide(self.view, self.now, PATIENT):
            self.act(action)


def kill_somebody(world: DeviceWorld, choice: int) -> None:
    """Anybody but the last one that holds the state."""
    pending = world.view.pending
    founding = pending.plan.members if pending is not None and pending.plan.base == 0 else ()
    holders = [m for m in world.view.members or founding if m in world.view.workers]
    names = sorted(world.view.workers)
    victim = names[choice % len(names)] if names else None
    if victim is not None and (victim not in holders or len(holders) > 1):
        world.kill(victim)


@settings(max_examples=examples(80, 300), deadline=None)
@given(
    first=st.lists(st.sampled_from(DEVICES), min_size=1, unique=True),
    moves=st.lists(
        st.one_of(
            st.tuples(st.just("go"), st.integers(0, 50)),
            st.tuples(st.just("go"), st.integers(0, 50)),
            st.tuples(st.just("kill"), st.integers(0, 50)),
            st.lists(st.sampled_from(DEVICES), min_size=1, unique=True),
        ),
        max_size=60,
    ),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_order_of_orders_each_device_gets_its_worker_and_the_others_are_free(
    first: list[str], moves: list[tuple[str, int] | list[str]], seed: int
) -> None:
    world, wanted = DeviceWorld(tuple(first)), first
    for move in moves:
        match move:
            case list():
                world.order(tuple(move))
                wanted = move
            case ("kill", choice):
                kill_somebody(world, choice)
            case (_, choice):
                world.progress(choice)
        world.decide()
    order = random.Random(seed)
    for _ in range(80):
        for choice in order.sample(range(12), 12):
            world.progress(choice)
            world.decide()
    seating = world.machine.seating()
    assert [(seat.device, seat.kept) for seat in seating] == [(name, True) for name in wanted]
    assert sorted(seat.member or "" for seat in seating) == sorted(world.view.members)


def test_founders_on_devices_that_go_are_ended_and_others_started() -> None:
    founders = {name: replace(worker(Phase.STARTING, founder=True), heard_ms=0) for name in (A, B)}
    going = events.reseated(View(target=2, workers=founders), frozenset({A}), 2)
    assert decide(going, 0, LIMITS) == (Kill(A, "not needed any more", failure=False),)
    condemned = replace(going, condemned=frozenset({A}), room=1)
    assert decide(condemned, 0, LIMITS) == (Start(1, True),)
    unheard = {name: replace(each, heard_ms=None) for name, each in founders.items()}
    silent = replace(condemned, workers=unheard)
    assert decide(silent, 0, LIMITS) == (), "a script that may not be elastic is not started once more"


def test_a_joiner_that_starts_on_a_device_that_goes_is_ended_and_not_waited_for() -> None:
    base = view(2, "a")
    starting = replace(base, workers={**base.workers, B: worker(Phase.STARTING)})
    going = events.reseated(starting, frozenset({B}), 2)
    assert decide(going, 0, LIMITS) == (Kill(B, "not needed any more", failure=False),)
    assert decide(replace(going, condemned=frozenset({B})), 0, LIMITS) == (Start(1, False),)


def test_the_state_is_taken_over_before_the_last_worker_leaves_its_device() -> None:
    moving = events.reseated(view(1, "a"), frozenset({A}), 1)
    assert decide(moving, 0, LIMITS) == (Start(1, False),)
    both = Plan(number=4, base=3, members=(A, B), receivers=(B,))
    assert decide(ready(moving, B), 0, LIMITS) == (Publish(both),)
    joined = replace(view(1, "ab"), unwanted=frozenset({A}))
    assert decide(joined, 0, LIMITS) == (Publish(Plan(number=4, base=3, members=(B,))),)


def test_what_was_given_up_leaves_everybody_where_they_are() -> None:
    moving = events.reseated(view(1, "a", failures=5), frozenset({A}), 1)
    settled = events.settled(moving, "tried enough")
    assert settled.settled == "tried enough"
    assert decide(settled, 0, LIMITS) == ()
    again = events.reseated(settled, frozenset({A, C}), 1)
    assert again.settled is None
    assert again.unwanted == {A}, "who is not there cannot leave"
