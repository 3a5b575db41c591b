"""A worker's seat in the job: which group it computes in, and how it comes to sit in another.

Founding, warming up and joining, switching at a step boundary, recovering from a broken group, and the
hand-over of the state that goes with each. When a step ends or broke, the trainer says; who is to sit where,
the controller's plans say.
"""

import time
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from fallow import protocol
from fallow.channel import Channel, Ready
from fallow.group import Alone, Group, GroupBroken
from fallow.handover import receive_state, send_state

RECOVERY_TIMEOUT_S = 120.0
FOUNDING_TIMEOUT_S = 600.0


class Left(SystemExit):
    """This worker was asked to leave and its work went on without it: the process ends with exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Holder(Protocol):
    """Whose state is handed over: the step it would do next, all of its state, and taking one up."""

    next_step: int
    device: torch.device

    def state(self) -> dict[str, Any]:
        """Everything that a joiner needs."""
        ...

    def load(self, state: Any) -> None:
        """Take up what ``state()`` gave in another worker."""
        ...


class Seat:
    """This worker's place; without a ``channel`` it stays in ``group`` for ever.

    ``warming_up`` is true from a joiner's start until a group has taken it in.
    """

    def __init__(self, holder: Holder, channel: Channel | None, founder: bool, group: Group | None = None):
        self.group: Group = Alone() if group is None else group
        self.warming_up = channel is not None and not founder
        self._holder = holder
        self._channel = channel
        self._generation = 0

    @property
    def driven(self) -> bool:
        """Whether a controller may move this worker."""
        return self._channel is not None

    def flag(self) -> int:
        """Rank 0 raises the number of the plan to switch to; the others learn it from the sum."""
        if self._channel is None:
            return 0
        ready = self._channel.newest(self._generation)
        wanted = ready is not None and self.group.rank == 0 and not ready.plan.recover
        return ready.plan.number if ready is not None and wanted else 0

    def report(self, measurements: Mapping[str, float | int | None]) -> None:
        """Leave the newest measurements for the scheduler; nothing happens when nobody drives us."""
        if self._channel is not None:
            self._channel.report(measurements)

    def found(self) -> None:
        """Meet the other founders; nothing happens when nobody drives us. Blocks."""
        if self._channel is None:
            return
        self._channel.announce(protocol.ready_key(self._channel.member))
        ready = self._channel.next_after(0, FOUNDING_TIMEOUT_S, recover=False)
        if not self._enter(ready):
            self.recover()

    def join(self) -> None:
        """Warmed up: say so, and wait until a group has taken this worker in."""
        assert self._channel is not None
        self._channel.announce(protocol.ready_key(self._channel.member))
        tried = 0
        while self.warming_up:
            ready = self._channel.next_after(tried, float("inf"), recover=False)
            tried = ready.plan.number  # if the group that is to take us in breaks, wait for the next
            self.warming_up = not self._enter(ready)

    def switch(self, number: int) -> None:
        """Follow plan ``number`` at this step boundary. Raises Left when it goes on without us."""
        assert self._channel is not None
        plan = self._channel.plan(number)
        if self._channel.member not in plan.members:
            self._channel.announce(protocol.switched_key(number, self._channel.member))
            raise Left
        if not self._enter(self._channel.agreed(number, RECOVERY_TIMEOUT_S)):
            self.recover()

    def recover(self) -> None:
        """Leave the broken group, say how far we are, and enter whatever the survivors agree on.

        Raises GroupBroken when nobody drives us: then there is no one to form another.
        """
        if self._channel is None:
            raise GroupBroken("the group broke and no controller is there to mend it")
        entered = False
        while not entered:
            broken = self._generation
            self.group.abort()
            self._channel.announce(
                protocol.lost_key(broken, self._channel.member), str(self._holder.next_step)
            )
            entered = self._enter(self._channel.next_after(broken, RECOVERY_TIMEOUT_S, recover=True))

    def _enter(self, ready: Ready) -> bool:
        """Become a member of an agreed group: hand over or take the state, and say so. False if it broke."""
        assert self._channel is not None
        plan = ready.plan
        if not self._hand_over(ready):
            ready.group.abort()  # frees peers that wait for us in it
            self._generation = max(self._generation, plan.number if plan.recover else 0)
            return False
        old, self.group, self._generation = self.group, ready.group, plan.number
        self._channel.announce(
            protocol.switched_key(plan.number, self._channel.member), str(time.monotonic_ns())
        )
        old.abort()
        return True

    def _hand_over(self, ready: Ready) -> bool:
        """This worker's transfers of the plan; false when the group broke."""
        assert self._channel is not None
        me = ready.plan.members.index(self._channel.member)
        holder = self._holder
        try:
            for source, receiver in ready.plan.transfers:
                if source == me:
                    send_state(ready.group, receiver, holder.state(), holder.device)
                elif receiver == me:
                    holder.load(receive_state(ready.group, source, holder.state(), holder.device))
        except GroupBroken:
            return False
        return True
