"""A worker's seat in the job: which group it computes in, and how it comes to sit in another.

Founding, warming up and joining, switching at a step boundary, recovering from a broken group, and the
hand-over of the state that goes with each. When a step ends or broke, the trainer says; who is to sit where,
the controller's plans say.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol

import torch

from fallow import protocol
from fallow.errors import NotYetJoined, StateError
from fallow.process_group.collectives import Alone, Group, GroupBroken
from fallow.process_group.rendezvous import Abandoned, ControllerLost, Ready, Rendezvous
from fallow.process_group.state_transfer import receive_state, route, send_state
from fallow.protocol import Plan

LOG = logging.getLogger("fallow")
AGREED_TIMEOUT_S = 60.0
"""From the flag to the group: all have connected it before the flag was raised."""
RECOVERY_TIMEOUT_S = 3600.0
"""A last resort: who keeps a recovery waiting is ended by the controller, which knows whether it lives."""
FOUNDING_TIMEOUT_S = 3600.0

LEAVING_NICENESS = 10
"""A tenth of what others get where the processor is short; where it isn't, nothing is any slower."""


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


class MembershipClient:
    """This worker's place; without a ``channel`` it stays in ``group`` for ever.

    ``warming_up`` is true from a joiner's start until a group has taken it in, ``has_joined`` once this
    worker sits in a group that its peers know as well. ``keep`` saves the training where it has a path, and
    returns that path; rank 0 is asked for it before a training is left unfinished. ``tell_place`` is told
    each new rank and world size. ``meet`` exchanges what survivors may differ in besides their step.
    """

    def __init__(
        self,
        holder: Holder,
        channel: Rendezvous | None,
        founder: bool,
        group: Group | None = None,
        keep: Callable[[], object] = lambda: None,
        *,
        tell_place: Callable[[int, int], None] = lambda rank, world_size: None,
        meet: Callable[[Group], None] = lambda group: None,
    ):
        self.group: Group = Alone() if group is None else group
        self.warming_up = channel is not None and not founder
        self.has_joined = channel is None
        self._tell_place = tell_place
        self._meet = meet
        self._holder = holder
        self._channel = channel
        self._keep = keep
        self._generation = 0
        self._proof: Proof | None = None
        self._former: Group | None = None

    @property
    def generation(self) -> int:
        """The number of the plan that seated this worker; 0 before the first, and when nobody drives us."""
        return self._generation

    @property
    def driven(self) -> bool:
        """Whether a controller may move this worker."""
        return self._channel is not None

    def check_joined(self, call: str) -> bool:
        """True; raises NotYetJoined, which names ``call``, while this worker has no place."""
        if not self.has_joined:
            raise NotYetJoined(call)
        return True

    def flag(self) -> int:
        """Rank 0 raises the number of the plan to switch to; the others learn it from the sum."""
        if self._channel is None or self.group.rank != 0:
            return 0
        return self._channel.newest(self._generation)

    def prove(self) -> None:
        """Before a sum is trusted: that all who computed it were at one step. Blocks. Raises GroupBroken.

        By then all have come out of the former group, and it ends.
        """
        proof, self._proof = self._proof, None
        if proof is not None:
            proof.check()
            self._end_former()

    def report(self, measurements: Mapping[str, float | int | None]) -> None:
        """Leave the newest measurements for the scheduler; nothing happens when nobody drives us."""
        if self._channel is not None:
            self._channel.report(measurements)

    def tell_calls(self, text: str) -> None:
        """Leave how the script calls its model for those who will warm up; nothing happens when alone."""
        if self._channel is not None:
            self._channel.tell_calls(text)

    def told_calls(self) -> str | None:
        """How the others call the model; ``None`` where nobody said. Never blocks."""
        return None if self._channel is None else self._channel.told_calls()

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
            tried = 0
            while self.warming_up:
                ready = self._channel.next_after(tried, float("inf"), recover=False)
                tried = ready.plan.number  # if the group that is to take us in breaks, wait for the next
                self.warming_up = not self._enter(ready)
        except ControllerLost as loss:
            raise self._abandoned(loss) from None

    def end_step(self, flag: int) -> None:
        """At a step's boundary: follow the plan that was flagged, or stop when the controller is gone.

        Raises Left when the plan goes on without us, and Abandoned.
        """
        if self._channel is None:
            return
        if self._channel.lost:
            raise self._abandoned(None)
        if flag:
            self.switch(flag)

    def switch(self, number: int) -> None:
        """Follow plan ``number`` at this boundary. Raises Left when it goes on without us, and Abandoned.

        Where it lets all go, and whoever saves is lost before it had, the others regroup and go on.
        """
        assert self._channel is not None
        began_s = time.monotonic()
        try:
            plan = self._channel.plan(number)
            if self._channel.member not in plan.members:
                self._leave(plan)
            if self._enter(self._channel.agreed(number, AGREED_TIMEOUT_S), began_s):
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
        began_s, entered = time.monotonic(), False
        while not entered:
            broken, self._proof = self._generation, None
            self.group.abort()
            self._end_former()
            step = str(self._holder.next_step)
            try:
                self._channel.announce(protocol.lost_key(broken, self._channel.member), step)
                ready = self._channel.next_after(broken, RECOVERY_TIMEOUT_S, recover=True)
                entered = self._enter(ready, began_s) and self._has_met()
            except ControllerLost as loss:
                raise self._abandoned(loss) from None

    def _has_met(self) -> bool:
        """All survivors come here, each from wherever it noticed."""
        try:
            self._meet(self.group)
        except GroupBroken:
            return False
        return True

    def _leave(self, plan: Plan) -> NoReturn:
        assert self._channel is not None
        if plan.members:
            _step_back()
        elif self.group.rank == 0:  # all leave: the training is to be resumed from here
            self._channel.announce(protocol.saving_key(plan.base))
            self._keep()
        else:  # who saves may be lost before it has: then one of the others does
            self._channel.until_saved(plan)
        self._channel.announce(protocol.switched_key(plan.number, self._channel.member), "")
        raise Left

    def _abandoned(self, loss: ControllerLost | None) -> Abandoned:
        assert self._channel is not None
        where = f"the controller at {self._channel.address} is gone" + (f" ({loss})" if loss else "")
        worker, step = self._channel.member, self._holder.next_step
        if self.warming_up or self._generation == 0:
            return Abandoned(f"{where}; {worker} had not joined yet and ends")
        saved = self._save_now() if self.group.rank == 0 else None
        if isinstance(saved, OSError):
            resume = f"it could not be saved: {saved}"
        elif saved is not None:
            resume = f"saved to {saved}: start the same command again to go on from there"
        elif self.group.rank == 0:
            resume = "nothing is saved: give elastic() a checkpoint path to resume from another time"
        else:
            resume = "rank 0 saves where there is a checkpoint path; start the same command again to resume"
        return Abandoned(f"{where}; {worker} stopped after {step} steps; {resume}")

    def _save_now(self) -> object:
        """Where the state was saved, ``None`` where nothing saves it, or why it could not be."""
        try:
            return self._keep()
        except OSError as error:
            return error

    def _enter(self, ready: Ready, began_s: float | None = None) -> bool:
        """Become a member of an agreed group: hand over or take the state, and say so. False if it broke."""
        assert self._channel is not None
        plan = ready.plan
        proof = self._hand_over(ready)
        if proof is None:
            ready.group.abort()  # frees peers that wait for us in it
            self._generation = max(self._generation, plan.number if plan.recover else 0)
            return False
        self._former, self.group, self._generation = self.group, ready.group, plan.number
        self._proof = proof
        self.has_joined = True
        self._tell_place(self.group.rank, self.group.world_size)
        self._channel.sit(plan.number, ready.group)
        pause_ms = "" if began_s is None else f"{(time.monotonic() - began_s) * 1000:.1f}"
        self._channel.announce(protocol.switched_key(plan.number, self._channel.member), pause_ms)
        return True

    def _end_former(self) -> None:
        former, self._former = self._former, None
        if former is not None:
            former.retire()

    def _hand_over(self, ready: Ready) -> "Proof | None":
        """This worker's transfers of the plan, and the proof, begun, that all are at one step.

        ``None`` when the group broke. Nobody waits for the transfers of others: who is done computes, and
        looks at the proof before the next step's sum is trusted.

        Who holds a state of its own takes another in only when it is whole: if the source died half-way, this
        worker could be asked to be the next one.
        """
        assert self._channel is not None
        me = ready.plan.members.index(self._channel.member)
        holder = self._holder
        try:
            place = route(ready.plan.transfers, me)
            if place.source is not None:
                twins = holder.state() if self.warming_up else None
                state = receive_state(ready.group, place.source, twins, holder.device, place.onward)
                holder.load(state)
            elif place.onward is not None and not self._give(ready, place.onward):
                return None
            return Proof(ready.group, holder.next_step, holder.device)
        except GroupBroken:
            return None

    def _give(self, ready: Ready, onward: int) -> bool:
        """Hand our state on. If it is one that cannot be, say so: then nobody joins, and all else goes on."""
        assert self._channel is not None
        try:
            send_state(ready.group, onward, _state_tree(self._holder), self._holder.device)
        except StateError as mistake:
            LOG.error("the training cannot be handed over, and goes on as it is", exc_info=mistake)
            key = protocol.unhanded_key(ready.plan.number, self._channel.member)
            self._channel.announce(key, str(mistake))
            return False
        return True


def _state_tree(holder: Holder) -> dict[str, Any]:
    """The state; raises StateError for whatever the script's own objects raise."""
    try:
        return holder.state()
    except Exception as error:
        raise StateError(f"state_dict() raised {type(error).__name__}: {error}") from error


def _step_back() -> None:
    """Let those who stay have the processor first: a large state takes it for a tenth of a second.

    Linux has a niceness for each thread. One that is refused, or has ended, is none the worse for it.
    """
    try:
        threads = [int(each.name) for each in Path("/proc/self/task").iterdir()]
    except OSError:
        return  # no Linux
    for thread in threads:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, LEAVING_NICENESS)


class Proof:
    """That all members of a group are about to compute the same step: begun now, looked at later.

    Sum and sum of squares together: both fit only where all are equal. Beginning raises GroupBroken as well.
    """

    def __init__(self, group: Group, step: int, device: torch.device):
        self._step, self._group = step, group
        self._expected = [step * group.world_size, step * step * group.world_size]
        self._sums = torch.tensor([step, step * step], dtype=torch.int64, device=device)
        self._work = group.start_all_reduce(self._sums)

    def check(self) -> None:
        """Wait for all, and compare. Raises GroupBroken."""
        self._work.wait()
        sums = self._sums.tolist()
        self._group.settle()
        if sums != self._expected:
            raise GroupBroken(f"members of the new group are at different steps; this one is at {self._step}")
