"""A worker's line to its controller: learns of plans, builds their groups in the background, reports.

The training loop never polls: one thread waits for the next plan, and each plan that names this worker
connects in a thread of its own, so that neither a slow joiner nor a cancelled plan delays a step. What a
plan means, ``protocol`` says; when to follow it, ``trainer`` decides.
"""

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from fallow import group as groups
from fallow import protocol
from fallow.group import Group, GroupBroken
from fallow.protocol import MemberId, Plan

SLICE = timedelta(milliseconds=250)
"""How long a thread waits in C++ before it looks whether it should end."""
STORE_TIMEOUT = timedelta(seconds=30)


class ControllerLost(Exception):
    """The controller's store is gone: nobody decides about membership any more, so the worker stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A plan that everybody has agreed to, and this worker's end of its group."""

    plan: Plan
    group: Group


class Channel:
    """Opened once by a driven worker; ``close`` it or let the process end."""

    def __init__(self, address: str, member: MemberId, device: torch.device):
        self.member = member
        self._device = device
        self._address = address
        self._store = _client(address)
        self._changed = threading.Condition()
        self._agreed: dict[int, Ready] = {}
        self._lost = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._spawn(self._watch)
        atexit.register(self.close)

    def plan(self, number: int) -> Plan:
        """Plan ``number``, which is known to exist. Raises ControllerLost."""
        return protocol.decode_plan(self._get(protocol.plan_key(number)))

    def newest(self, generation: int) -> Ready | None:
        """The newest agreed plan that departs from ``generation``, if any. Never blocks."""
        if self._lost:
            raise ControllerLost("the controller's store closed the connection")
        with self._changed:
            fitting = [ready for ready in self._agreed.values() if ready.plan.base == generation]
        return max(fitting, key=lambda ready: ready.plan.number, default=None)

    def agreed(self, number: int, timeout_s: float) -> Ready:
        """Plan ``number`` with its group; blocks until agreed. Raises ControllerLost or GroupBroken."""
        return self._wait(lambda: self._agreed.get(number), timeout_s, f"plan {number}")

    def next_after(self, number: int, timeout_s: float, *, recover: bool) -> Ready:
        """The first agreed plan above ``number``; with ``recover``, a recovery only. Blocks as ``agreed``."""

        def found() -> Ready | None:
            fitting = [n for n, r in self._agreed.items() if n > number and (r.plan.recover or not recover)]
            return self._agreed[max(fitting)] if fitting else None

        return self._wait(found, timeout_s, f"a plan after {number}")

    def announce(self, key: str, value: str = "1") -> None:
        """Tell the controller. Raises ControllerLost."""
        try:
            self._store.set(key, value)
        except RuntimeError as error:
            raise ControllerLost(str(error)) from error

    def report(self, measurements: Mapping[str, float | int | None]) -> None:
        """Leave the newest measurements where the controller finds them."""
        self.announce(protocol.report_key(self.member), protocol.encode_report(measurements))

    def close(self) -> None:
        """Stop listening and wait for the threads: one left in a C++ wait aborts the process at exit."""
        self._closed = True
        for thread in self._threads:
            thread.join(timeout=4 * SLICE.total_seconds())

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="fallow-plans", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _get(self, key: str) -> str:
        try:
            return bytes(self._store.get(key)).decode()
        except RuntimeError as error:
            raise ControllerLost(str(error)) from error

    def _wait(self, found: Callable[[], Ready | None], timeout_s: float, what: str) -> Ready:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                ready = found()
                if ready is not None:
                    return ready
                if self._lost:
                    raise ControllerLost("the controller's store closed the connection")
                if time.monotonic() > deadline:
                    raise GroupBroken(f"{what} was not agreed within {timeout_s:g} s")
                self._changed.wait(SLICE.total_seconds())

    def _watch(self) -> None:
        number = 1
        try:
            store = _client(self._address)
            while not self._closed:
                if not _appeared(store, protocol.plan_key(number)):
                    continue
                plan = protocol.decode_plan(bytes(store.get(protocol.plan_key(number))).decode())
                self._supersede(plan)
                if self.member in plan.members:
                    self._spawn(self._take_part, plan)
                number += 1
        except RuntimeError:
            self._set_lost()

    def _supersede(self, plan: Plan) -> None:
        """A recovery ends whatever else was under way: peers stuck in it are freed by our leaving."""
        if not plan.recover:
            return
        with self._changed:
            stale = [ready.group for number, ready in self._agreed.items() if number < plan.number]
        for group in stale:
            group.abort()

    def _take_part(self, plan: Plan) -> None:
        try:
            store = _client(self._address)
            meeting = dist.PrefixStore(protocol.group_prefix(plan.number), store)
            try:
                group = groups.connect(
                    meeting, plan.members.index(self.member), len(plan.members), self._device
                )
            except GroupBroken as error:
                store.set(protocol.connected_key(plan.number, self.member), f"failed: {error}")
                return
            store.set(protocol.connected_key(plan.number, self.member), protocol.CONNECTED)
            while not self._closed and not _appeared(store, protocol.decision_key(plan.number)):
                pass
            if bytes(store.get(protocol.decision_key(plan.number))).decode() != protocol.COMMIT:
                group.abort()
                return
            with self._changed:
                self._agreed[plan.number] = Ready(plan=plan, group=group)
                self._changed.notify_all()
        except RuntimeError:
            self._set_lost()

    def _set_lost(self) -> None:
        with self._changed:
            self._lost = True
            self._changed.notify_all()


def from_environment(environment: Mapping[str, str], device: torch.device) -> Channel | None:
    """The channel that the controller's variables describe; ``None`` when nobody drives us."""
    address = environment.get(protocol.ENV_STORE)
    if address is None:
        return None
    return Channel(address, MemberId(environment[protocol.ENV_MEMBER]), device)


def _client(address: str) -> dist.TCPStore:
    host, port = address.rsplit(":", 1)
    return dist.TCPStore(host, int(port), is_master=False, timeout=STORE_TIMEOUT)


def _appeared(store: dist.Store, key: str) -> bool:
    """Whether ``key`` is there within a slice; raises RuntimeError when the connection is lost."""
    try:
        store.wait([key], SLICE)
    except dist.DistStoreError:
        return False
    return True
