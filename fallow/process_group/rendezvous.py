"""A worker's line to its controller: learns of plans, builds their groups in the background, reports.

The training loop never polls, and never waits in the store: one thread waits for the next plan and shows that
this worker lives, and each plan that concerns it is followed in a thread of its own, so that neither a slow
joiner nor a cancelled plan nor a frozen controller delays a step. What a plan means, ``protocol`` says; when
to follow it, ``membership_client`` decides.
"""

import atexit
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from fallow import protocol
from fallow.process_group import group as groups
from fallow.process_group import peer_proof
from fallow.process_group.address_store import Meeting
from fallow.process_group.collectives import Alone, Group, GroupBroken
from fallow.protocol import MemberId, Plan
from fallow.sealed_store import Door, SealedStore
from fallow.secret import Secret, inherited
from fallow.workers.fork_server import survive_parent
from fallow.workers.leave_signal import LeaveSignal

LOG = logging.getLogger("fallow")
SLICE = timedelta(milliseconds=250)
"""How long a thread waits in C++ before it looks whether it should end; also the pulse."""
STORE_TIMEOUT = timedelta(seconds=30)
LOOPBACK = "127.0.0.1"
LOST_AFTER_S = 12.0
"""A controller whose store answers nothing for so long is gone: killed, frozen or cut off."""
STUCK_AFTER_S = 5.0
"""Without its controller a worker ends its step; a wait for peers that can be aborted is aborted then."""
SAVED_POLL_S = 0.05
"""Between two looks whether the training is saved, which takes from milliseconds to minutes."""
DOUBT_S = 1.0
"""If this process was frozen itself, its listening thread needs a moment to hear what came meanwhile."""


UNFINISHED = 75
"""Exit code of a worker whose controller is gone: EX_TEMPFAIL, to be resumed."""

Found = TypeVar("Found")


class ControllerLost(Exception):
    """The controller's store is gone: nobody decides about membership any more, so the worker stops."""


class Abandoned(SystemExit):
    """The controller is gone, and said so in one sentence: the process ends with exit code UNFINISHED."""

    def __init__(self, sentence: str) -> None:
        super().__init__(UNFINISHED)
        sys.stderr.write(f"fallow: {sentence}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A plan that everybody has agreed to, and this worker's end of its group."""

    plan: Plan
    group: Group


def client(address: str) -> dist.TCPStore:
    """A connection to the store at ``address``, host:port. Raises RuntimeError."""
    host, port = address.rsplit(":", 1)
    return dist.TCPStore(host, int(port), is_master=False, timeout=STORE_TIMEOUT)


class Rendezvous:
    """Opened once by a driven worker; ``close`` it or let the process end.

    ``secret`` is the job's: what isn't sealed with it is not heard. ``open_door`` connects to the store at an
    address; the groups meet in a ``client`` of their own. ``host`` is the address at which other machines
    reach this worker, where there are other machines.
    """

    def __init__(
        self,
        address: str,
        member: MemberId,
        device: torch.device,
        secret: Secret,
        *,
        host: str | None = None,
        open_door: Callable[[str], Door] = client,
    ):
        self.member = member
        self.address = address
        self._device = device
        self._secret = secret
        self._host = host
        self._open_door = open_door
        self._door: SealedStore | None = None
        self._changed = threading.Condition()
        self._plans: dict[int, Plan] = {}
        self._committed: set[int] = set()
        self._agreed: dict[int, Ready] = {}
        self._wishes: list[tuple[int, str]] = []
        self._seated: tuple[int, Group] = (0, Alone())
        self._ended: set[int] = set()
        self._gone = False
        self._closed = False
        self._heard_s = time.monotonic()
        self._doubted_s: float | None = None
        self._threads: list[threading.Thread] = []
        self._leave = LeaveSignal(self._has_a_place)
        self._leave.hear(signal.SIGTERM)
        self._spawn(self._watch)
        self._spawn(self._guard)
        atexit.register(self.close)
        self._wait(lambda: self._door, STORE_TIMEOUT.total_seconds(), "a connection to the controller")
        survive_parent()

    @property
    def lost(self) -> bool:
        """Whether the controller is gone. Never blocks."""
        now = time.monotonic()
        if self._gone or now - self._heard_s <= LOST_AFTER_S:
            self._doubted_s = None
            return self._gone
        if self._doubted_s is None:
            self._doubted_s = now
        return now - self._doubted_s > DOUBT_S

    def plan(self, number: int, timeout_s: float = 30.0) -> Plan:
        """Plan ``number``, which is known to exist. Raises ControllerLost, or GroupBroken if it is late."""
        return self._wait(lambda: self._plans.get(number), timeout_s, f"plan {number}")

    def newest(self, generation: int) -> int:
        """The newest committed plan that departs from ``generation``, a recovery excepted; 0 for none.

        Never blocks.
        """
        with self._changed:
            plans = [self._plans[number] for number in self._committed]
        return max((p.number for p in plans if p.base == generation and not p.recover), default=0)

    def agreed(self, number: int, timeout_s: float) -> Ready:
        """Plan ``number`` with its group; blocks until agreed. Raises ControllerLost or GroupBroken."""
        return self._wait(lambda: self._agreed.get(number), timeout_s, f"plan {number}")

    def next_after(self, number: int, timeout_s: float, *, recover: bool) -> Ready:
        """The newest agreed plan above ``number``; ``recover``: only a recovery. Blocks as ``agreed``."""

        def found() -> Ready | None:
            fitting = [n for n, r in self._agreed.items() if n > number and (r.plan.recover or not recover)]
            return self._agreed[max(fitting)] if fitting else None

        return self._wait(found, timeout_s, f"a plan after {number}")

    def until_saved(self, plan: Plan) -> None:
        """Block until the first of the generation that ``plan`` ends has left, having saved the training.

        Raises ControllerLost, and GroupBroken when that one is lost before.
        """
        assert self._door is not None
        saver = self._plans[plan.base].members[0]
        try:
            while not self._door.has(protocol.switched_key(plan.number, saver)):
                if self.lost:
                    raise ControllerLost(f"nothing is heard of the controller's store at {self.address}")
                if plan.base in self._ended:
                    raise GroupBroken(f"{saver} was lost before it had saved")
                time.sleep(SAVED_POLL_S)
        except RuntimeError as error:
            raise ControllerLost(str(error)) from error

    def sit(self, generation: int, group: Group) -> None:
        """From now on this worker computes in ``group``; what is older can be forgotten."""
        with self._changed:
            self._seated = (generation, group)
            self._agreed = {number: r for number, r in self._agreed.items() if number > generation}

    def wishes(self) -> list[tuple[int, str]]:
        """What was wished since this was asked last, by number. Never blocks."""
        if not self._wishes:
            return []
        with self._changed:
            wished, self._wishes = self._wishes, []
        return wished

    def announce(self, key: str, value: str = "1") -> None:
        """Tell the controller. Doesn't wait for an answer. Raises ControllerLost."""
        assert self._door is not None
        try:
            self._door.set(key, value)
        except RuntimeError as error:
            raise ControllerLost(str(error)) from error

    def report(self, measurements: Mapping[str, float | int | None]) -> None:
        """Leave the newest measurements where the controller finds them; a lost one is noticed elsewhere."""
        try:
            self.announce(protocol.report_key(self.member), protocol.encode_report(measurements))
        except ControllerLost:
            self._note_departure()

    def tell_calls(self, text: str) -> None:
        """Leave for joiners how the script calls its model; a lost controller is noticed elsewhere."""
        try:
            self.announce(protocol.CALLS, text)
        except ControllerLost:
            self._note_departure()

    def told_calls(self) -> str | None:
        """What a member left with ``tell_calls``; ``None`` when there is nothing."""
        assert self._door is not None
        try:
            text = self._door.get(protocol.CALLS)
        except RuntimeError:
            return None
        return None if text is None else text.decode()

    def close(self) -> None:
        """Stop listening and wait for the threads: one left in a C++ wait aborts the process at exit."""
        self._closed = True
        if self._gone or self.lost:
            return
        for thread in self._threads:
            thread.join(timeout=4 * SLICE.total_seconds())

    def _has_a_place(self) -> bool:
        """Whether others count on this worker. Called in a signal's handler, so it takes no lock."""
        return bool(self._seated[0] or self._agreed)

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="fallow-plans", daemon=True)
        self._threads = [old for old in self._threads if old.is_alive()] + [thread]
        thread.start()

    def _wait(self, found: Callable[[], Found | None], timeout_s: float, what: str) -> Found:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                ready = found()
                if ready is not None:
                    return ready
                if self.lost:
                    raise ControllerLost(f"nothing is heard of the controller's store at {self.address}")
                if time.monotonic() > deadline:
                    raise GroupBroken(f"{what} did not come within {timeout_s:g} s")
                self._changed.wait(SLICE.total_seconds())

    def _watch(self) -> None:
        """Hear of plans in their order, show that we live, and leave groups that are said to be broken."""
        number, beat = 1, 0
        try:
            door = self._opened()
            wish = 1 + int(door.get(protocol.WISHES) or 0)
            with self._changed:
                self._door = self._opened()  # one in a wait would hold up what is said
                self._changed.notify_all()
            while not self._closed:
                self._heard_s = time.monotonic()
                beat += 1
                door.set(protocol.pulse_key(self.member), protocol.pulse(beat, self._leave.asked))
                self._heed(door)
                wish = self._hear_wishes(door, wish)
                plan = door.wait(protocol.plan_key(number), SLICE)
                if plan is not None:
                    self._learn(protocol.decode_plan(plan.decode()))
                    number += 1
        except RuntimeError:
            self._note_departure()

    def _guard(self) -> None:
        """When the controller is gone, and perhaps the peers with it, let nobody wait in a group for ever."""
        lost_s: float | None = None
        while not self._closed:
            time.sleep(SLICE.total_seconds())
            lost_s = (lost_s or time.monotonic()) if self.lost else None
            if lost_s is not None and time.monotonic() - lost_s > STUCK_AFTER_S:
                with self._changed:
                    groups = [self._seated[1], *(ready.group for ready in self._agreed.values())]
                for group in groups:
                    group.abort()
                return

    def _learn(self, plan: Plan) -> None:
        with self._changed:
            self._plans[plan.number] = plan
            generation = self._seated[0]
            stale = [r.group for n, r in self._agreed.items() if plan.recover and n < plan.number]
            self._changed.notify_all()
        for group in stale:
            self._spawn(
                group.abort
            )  # a recovery ends whatever else was under way: peers stuck in it are freed
        if self.member in plan.members:
            self._spawn(self._take_part, plan)
        elif plan.base == generation and not plan.recover:
            self._spawn(self._look_on, plan)

    def _opened(self) -> SealedStore:
        return SealedStore(self._open_door(self.address), self._secret)

    def _heed(self, door: SealedStore) -> None:
        with self._changed:
            seats = {number: ready.group for number, ready in self._agreed.items()}
            seats[self._seated[0]] = self._seated[1]
        for number, group in seats.items():
            if number not in self._ended and group.world_size > 1 and door.has(protocol.broken_key(number)):
                self._ended.add(number)
                # Not here: gloo's end waits for a sum with a peer that is cut off, and we would hear nobody.
                self._spawn(group.abort)

    def _hear_wishes(self, door: SealedStore, number: int) -> int:
        """Take note of wishes from ``number`` on; returns the number of the next."""
        while (wished := door.get(protocol.wish_key(number))) is not None:
            with self._changed:
                self._wishes.append((number, wished.decode()))
            number += 1
        return number

    def _take_part(self, plan: Plan) -> None:
        """Connect the plan's group, say so, and keep it if all could."""
        try:
            door = self._opened()
            meeting = Meeting(client(self.address), self._secret, protocol.group_prefix(plan.number))
            rank = plan.members.index(self.member)
            try:
                group = self._connected(meeting, rank, len(plan.members))
            except GroupBroken as error:
                door.set(protocol.connected_key(plan.number, self.member), f"failed: {error}")
                return
            except Exception as error:  # nobody expected it: said, lest the controller wait for its limit
                LOG.exception("this worker cannot connect to the others")
                reason = f"failed: {type(error).__name__}: {error}"
                door.set(protocol.connected_key(plan.number, self.member), reason)
                return
            door.set(protocol.connected_key(plan.number, self.member), protocol.CONNECTED)
            if not self._decided(door, plan):
                group.abort()
                return
            with self._changed:
                self._agreed[plan.number] = Ready(plan=plan, group=group)
                self._committed.add(plan.number)
                self._changed.notify_all()
        except RuntimeError:
            self._note_departure()

    def _connected(self, meeting: Meeting, rank: int, world_size: int) -> Group:
        def prove(group: Group) -> None:
            peer_proof.prove(group, self._secret, meeting.prefix)

        return groups.connect(meeting, rank, world_size, self._device, self._host or LOOPBACK, prove=prove)

    def _look_on(self, plan: Plan) -> None:
        """Learn whether a plan that goes on without us is committed: rank 0 must raise the flag for it."""
        try:
            if self._decided(self._opened(), plan):
                with self._changed:
                    self._committed.add(plan.number)
        except RuntimeError:
            self._note_departure()

    def _decided(self, door: SealedStore, plan: Plan) -> bool:
        """Whether the plan is committed; blocks until it is or isn't."""
        while not self._closed:
            decision = door.wait(protocol.decision_key(plan.number), SLICE)
            if decision is not None:
                return decision.decode() == protocol.COMMIT
        return False

    def _note_departure(self) -> None:
        with self._changed:
            self._gone = True
            self._changed.notify_all()


def from_environment(environment: Mapping[str, str], device: torch.device) -> Rendezvous | None:
    """The channel that the controller's variables describe; ``None`` when nobody drives us.

    Raises Abandoned when there is no such controller any more, Mistake when its job's secret isn't here.
    """
    address = environment.get(protocol.ENV_STORE)
    if address is None:
        return None
    host = environment.get(protocol.ENV_HOST)
    member, secret = MemberId(environment[protocol.ENV_MEMBER]), inherited(environment)
    try:
        return Rendezvous(address, member, device, secret, host=host)
    except (ControllerLost, GroupBroken):
        raise Abandoned(f"no controller answers at {address}; {member} ends") from None
