"""A worker's seat in the job: which group it computes in, and how it comes to sit in another.

Founding, warming up and joining, switching at a step boundary, recovering from a broken group, and the
hand-over of the state that goes with each. When a step ends or broke, the trainer says; who is to sit where,
the controller's plans say. How a state is handed over amid a step, ``arrival`` says.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from fallow import arrival, protocol
from fallow.arrival import Arrival, Departing, agree
from fallow.channel import Abandoned, Channel, ControllerLost, Ready
from fallow.group import Alone, Group, GroupBroken
from fallow.handover import receive_state, route, send_state
from fallow.protocol import Plan

AGREED_TIMEOUT_S = 60.0
"""From the flag to the group: all have connected it before the flag was raised."""
RECOVERY_TIMEOUT_S = 3600.0
"""A last resort: who keeps a recovery waiting is ended by the controller, which knows whether it lives."""
FOUNDING_TIMEOUT_S = 3600.0


SPOILED = (
    "fallow: a parameter was changed while step {step} was computed, by something other than trainer.step(); "
    "the state that was handed over meanwhile is thrown away, and is handed over between two steps instead\n"
)


class Left(SystemExit):
    """This worker was asked to leave and its work went on without it: the process ends with exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Holder(Departing, Protocol):
    """Whose state is handed over: the step it would do next, all of its state, and taking one up."""

    def state(self) -> dict[str, Any]:
        """Everything that a joiner needs."""
        ...

    def load(self, state: Any) -> None:
        """Take up what ``state()`` gave in another worker."""
        ...


class Seat:
    """This worker's place; without a ``channel`` it stays in ``group`` for ever.

    ``warming_up`` is true from a joiner's start until a group has taken it in. ``keep`` saves the training
    where it has a path, and returns that path; rank 0 is asked for it before a training is left unfinished.
    """

    def __init__(
        self,
        holder: Holder,
        channel: Channel | None,
        founder: bool,
        group: Group | None = None,
        keep: Callable[[], object] = lambda: None,
    ):
        self.group: Group = Alone() if group is None else group
        self.warming_up = channel is not None and not founder
        self._holder = holder
        self._channel = channel
        self._keep = keep
        self._generation = 0
        self._arrival: Arrival | None = None  # while a state is handed over amid the step in hand
        self._again: Ready | None = None  # the state that it handed over was spoiled
        self._arriving = False  # we are in a group, and don't hold its state yet
        self._amid_step = True
        self._pause_s = 0.0

    @property
    def generation(self) -> int:
        """The number of the plan that seated this worker; 0 before the first, and when nobody drives us."""
        return self._generation

    @property
    def driven(self) -> bool:
        """Whether a controller may move this worker."""
        return self._channel is not None

    @property
    def idle_ranks(self) -> frozenset[int]:
        """The ranks that compute nothing in the step in hand: the state is handed to them meanwhile."""
        return self._arrival.idle_ranks if self._arrival is not None else frozenset()

    def flag(self, step_s: float | None) -> int:
        """Rank 0 raises the number of the plan to switch to; the others learn it from the sum.

        It is negative where the state is to be handed over amid the step that comes then; ``step_s`` is how
        long a step takes, if that is known. Raises GroupBroken.
        """
        if self._channel is None or self.group.rank != 0:
            return 0
        number = self._channel.newest(self._generation)
        if not number or not self._channel.plan(number).receivers or not self._amid_step:
            return number
        return -number if arrival.is_worth_it(self._holder.state(), step_s) else number

    def report(self, measurements: Mapping[str, float | int | None]) -> None:
        """Leave the newest measurements for the scheduler; nothing happens when nobody drives us."""
        if self._channel is not None:
            self._channel.report(measurements)

    def found(self) -> None:
        """Meet the other founders; nothing happens when nobody drives us. Blocks. Raises Abandoned."""
        if self._channel is None:
            return
        try:
            self._channel.announce(protocol.ready_key(self._channel.member))
            ready = self._channel.next_after(0, FOUNDING_TIMEOUT_S, recover=False)
        except ControllerLost as loss:
            raise self._abandoned(loss) from None
        if not self._enter(ready):
            self.recover()

    def join(self) -> None:
        """Warmed up: say so, and wait until a group has taken this worker in. Raises Abandoned."""
        assert self._channel is not None
        try:
            self._channel.announce(protocol.ready_key(self._channel.member))
            self._await_a_group(0)
        except ControllerLost as loss:
            raise self._abandoned(loss) from None

    def settle(self) -> None:
        """Before a step's sum: if the state is handed over amid it, wait until ours has left.

        Raises GroupBroken.
        """
        if self._arrival is None:
            return
        waited_s = self._arrival.settle()
        if waited_s > 0:
            self._announce_switch(self._pause_s + waited_s)

    def confirm(self) -> bool:
        """After a step's sum: whether it can be committed here. Raises GroupBroken.

        False for a newcomer whose state was spoiled on its way; ``recover`` gets it another.
        """
        found = self._arrival
        if found is None:
            return True
        intact = found.confirm(self._holder.next_step, self._holder.device)
        self._arrival = None
        if intact:
            if self._arriving:
                self._arriving = False
                self._announce_switch(None)
            return True
        self._again, self._amid_step = found.ready, False
        if self._arriving:
            sys.stderr.write(SPOILED.format(step=self._holder.next_step))
        return not self._arriving

    def end_step(self, flag: int) -> None:
        """At a step's boundary: follow the plan that was flagged, or stop when the controller is gone.

        Raises Left when the plan goes on without us, and Abandoned.
        """
        if self._channel is None:
            return
        if self._channel.lost:
            raise self._abandoned(None)
        if self._again is not None:
            again, self._again = self._again, None
            if not self._hand_over(again):
                self.recover()
        elif flag:
            self.switch(flag)

    def switch(self, flag: int) -> None:
        """Follow the plan that was flagged. Raises Left when it goes on without us, and Abandoned."""
        assert self._channel is not None
        number = abs(flag)
        began_s = time.monotonic()
        try:
            plan = self._channel.plan(number)
            if self._channel.member not in plan.members:
                self._leave(plan)
            if self._enter(self._channel.agreed(number, AGREED_TIMEOUT_S), began_s, amid_step=flag < 0):
                return
        except GroupBroken:
            pass  # committed, yet not to be had: the others find the group broken as well, and regroup
        except ControllerLost as loss:
            raise self._abandoned(loss) from None
        self.recover()

    def recover(self) -> None:
        """Leave the broken group, say how far we are, and enter whatever the survivors agree on.

        Raises GroupBroken when nobody drives us: then there is no one to form another. Raises Abandoned.
        """
        if self._channel is None:
            raise GroupBroken("the group broke and no controller is there to mend it")
        if self._arriving:
            self._arrive_otherwise()
            return
        self._arrival = self._again = None
        began_s, entered = time.monotonic(), False
        while not entered:
            broken = self._generation
            self.group.abort()
            step = str(self._holder.next_step)
            try:
                self._channel.announce(protocol.lost_key(broken, self._channel.member), step)
                ready = self._channel.next_after(broken, RECOVERY_TIMEOUT_S, recover=True)
                entered = self._enter(ready, began_s)
            except ControllerLost as loss:
                raise self._abandoned(loss) from None

    def _leave(self, plan: Plan) -> NoReturn:
        assert self._channel is not None
        if not plan.members and self.group.rank == 0:
            self._keep()  # all leave: the training is to be resumed from here
        self._channel.announce(protocol.switched_key(plan.number, self._channel.member), "")
        raise Left

    def _abandoned(self, loss: ControllerLost | None) -> Abandoned:
        assert self._channel is not None
        where = f"the controller at {self._channel.address} is gone" + (f" ({loss})" if loss else "")
        worker, step = self._channel.member, self._holder.next_step
        if self.warming_up or self._arriving or self._generation == 0:
            return Abandoned(f"{where}; {worker} had not joined yet and ends")
        kept = self._kept() if self.group.rank == 0 else None
        if isinstance(kept, OSError):
            resume = f"it could not be saved: {kept}"
        elif kept is not None:
            resume = f"saved to {kept}: start the same command again to go on from there"
        elif self.group.rank == 0:
            resume = "nothing is saved: give elastic() a checkpoint path to resume from another time"
        else:
            resume = "rank 0 saves where there is a checkpoint path; start the same command again to resume"
        return Abandoned(f"{where}; {worker} stopped after {step} steps; {resume}")

    def _kept(self) -> object:
        try:
            return self._keep()
        except OSError as error:
            return error

    def _await_a_group(self, tried: int) -> None:
        """Wait until a group that is newer than plan ``tried`` has taken us in. Raises ControllerLost."""
        assert self._channel is not None
        while self.warming_up:
            ready = self._channel.next_after(tried, float("inf"), recover=False)
            tried = ready.plan.number  # if the group that is to take us in breaks, wait for the next
            self.warming_up = not self._enter(ready)

    def _arrive_otherwise(self) -> None:
        """Our first step is void: take the state again if it was spoiled, else wait for another group."""
        again, self._again, self._arrival = self._again, None, None
        self._arriving = again is not None and not self._hand_over(again)
        if again is not None and not self._arriving:
            self._announce_switch(None)
            return
        self.group.abort()
        broken, self._generation, self._arriving = self._generation, 0, False
        self.group, self.warming_up = Alone(), True
        try:
            self._await_a_group(broken)
        except ControllerLost as loss:
            raise self._abandoned(loss) from None

    def _enter(self, ready: Ready, began_s: float | None = None, *, amid_step: bool = False) -> bool:
        """Become a member of an agreed group: hand over or take the state, and say so. False if it broke.

        Who is handed the state amid a step says so when that is over.
        """
        assert self._channel is not None
        plan = ready.plan
        if not self._hand_over(ready, amid_step=amid_step):
            ready.group.abort()  # frees peers that wait for us in it
            self._generation = max(self._generation, plan.number if plan.recover else 0)
            return False
        old, self.group, self._generation = self.group, ready.group, plan.number
        self._channel.sit(plan.number, ready.group)
        self._arriving = self._arrival is not None and self._arrival.newcomer
        if not self._arriving:
            self._announce_switch(None if began_s is None else time.monotonic() - began_s)
        _retire(old)
        return True

    def _announce_switch(self, paused_s: float | None) -> None:
        """Tell the controller that we sit in our group, and for how long that kept us.

        If it is gone, the next step boundary notices.
        """
        assert self._channel is not None
        self._pause_s = paused_s or 0.0
        pause_ms = "" if paused_s is None else f"{paused_s * 1000:.1f}"
        with suppress(ControllerLost):
            self._channel.announce(protocol.switched_key(self._generation, self._channel.member), pause_ms)

    def _hand_over(self, ready: Ready, *, amid_step: bool = False) -> bool:
        """This worker's transfers of the plan, and proof that all are at one step; false when it broke.

        Who holds a state of its own takes another in only when it is whole: if the source died half-way, this
        worker could be asked to be the next one.
        """
        assert self._channel is not None
        holder = self._holder
        found: Arrival | None = None
        place = route(ready.plan.transfers, ready.plan.members.index(self._channel.member))
        try:
            if place.source is not None:
                twins = holder.state() if self.warming_up else None
                state = receive_state(ready.group, place.source, twins, holder.device, place.onward)
                found = arrival.reach(ready, state)
                holder.load(state)
            elif amid_step:
                found = arrival.depart(ready, place.onward, holder)
            elif place.onward is not None:
                send_state(ready.group, place.onward, holder.state(), holder.device)
            if found is None:
                agree(ready.group, holder.next_step, holder.device)
        except GroupBroken:
            return False
        self._arrival = found
        return True


def _retire(group: Group) -> None:
    """Close a group that nobody waits in any more, beside the training: gloo takes 20 to 50 ms to wake its
    threads and join them (2026-11-21, two busy cores). No daemon: it must not outlive the interpreter.
    """
    if group.world_size > 1:
        threading.Thread(target=group.abort, name="fallow-retire").start()
