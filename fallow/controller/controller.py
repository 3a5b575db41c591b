"""Drives one elastic training: has its workers started, hosts their store, carries out ``membership.decide``.

    python -m fallow.controller --min 1 --max 4 --workers 2 -- train.py --epochs 3
    python -m fallow.controller --socket PATH resize 3

It holds no rule about membership: it gathers a view, asks, and acts. The command line is ``main``.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol, assert_never

from fallow import protocol
from fallow.controller import actions, events, membership
from fallow.controller.hosting import hosted
from fallow.controller.membership import Limits, Pending, Phase, View, Worker
from fallow.controller.save_watch import SaveWatch
from fallow.protocol import MemberId, Plan
from fallow.sealed_store import SealedStore
from fallow.secret import Secret
from fallow.workers import pool
from fallow.workers.pool import Handle, Spawn, as_torchrun, command

__all__ = ["Controller", "Handle", "Spawn", "command"]

BUSY_S = 0.005
"""Between two looks while somebody waits for us."""
CALM_S = 0.05
"""Between two looks while the training just trains."""
ONCE = (
    "{member} came to its end without a loop over trainer.steps(){why}: this job isn't elastic, and was run "
    "once as it is"
)
STOP_PATIENCE_S = 30.0
"""How long a training that was asked to stop may take to the end of its step, and then, saved, to go."""

KeyOf = Callable[[int, MemberId], str]


class Listener(Protocol):
    """Something that people or processes can reach the controller through."""

    def fileno(self) -> int:
        """Readable when somebody waits for an answer."""
        ...

    def poll(self, controller: "Controller") -> None:
        """Answer whoever waits; blocks shortly at most."""
        ...


class Controller:
    """One training's processes and their store. ``run`` blocks until the training ends.

    ``box`` is the store as this job's processes write and read it, with ``secret``.
    ``spawn`` starts a worker, ``room`` says how many more it could start (default: any number), ``tell``
    gets a line for a person whenever something happens.
    """

    def __init__(
        self,
        spawn: Spawn,
        *,
        workers: int,
        minimum: int = 1,
        maximum: int = 64,
        spare: int = 0,
        limits: Limits | None = None,
        host: str = "127.0.0.1",
        room: Callable[[], int] | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ):
        self._spawn, self._room, self._tell = spawn, room, tell
        self._minimum, self._maximum = minimum, maximum
        self._limits = limits or Limits()
        self._host = host
        self._store = hosted(host)
        self.secret = Secret.new()
        self.box = SealedStore(self._store, self.secret, self._doubt)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self.processes: dict[MemberId, Handle] = {}
        self._pulses: dict[MemberId, bytes] = {}
        self._looked_ms: int | None = None
        self._born = 0
        self._ranks: dict[MemberId, int] = {}  # as each was told when it started: no two alike
        self.view = View(target=max(minimum, min(maximum, workers)), spare=spare)
        self.paused_s: float | None = None
        self.exit_reason: str | None = None
        self.journal: list[str] = []
        self.stopped: str | None = None
        self._stop_requests: deque[str] = deque()
        self._stop_by_s: float | None = None
        self._save_watch = SaveWatch(self._doubt)
        self._warned: set[int] = set()

    @property
    def address(self) -> str:
        """Where the store listens, as host:port."""
        return f"{self._host}:{self._store.port}"

    def resize(self, workers: int, spare: int | None = None) -> int:
        """Ask for a world of ``workers``, held within the limits; returns the target that will be sought."""
        target = max(self._minimum, min(self._maximum, workers))
        self.view = events.asked(self.view, target, spare)
        self.wake()
        return self.view.target

    def release(self, member: MemberId) -> None:
        """Let this very worker go at the next step boundary; another takes its place where there is room."""
        self.let_go(frozenset({member}))

    def let_go(self, members: frozenset[MemberId]) -> None:
        """Let these very workers go at one step boundary; others take their place where there is room."""
        self.view = events.let_go(self.view, members)
        self.wake()

    def reseat(self, going: frozenset[MemberId], target: int) -> int:
        """Let ``going`` leave, everybody else stay, and seek ``target``; returns the target within limits."""
        self.view = events.reseated(self.view, going, max(self._minimum, min(self._maximum, target)))
        self.wake()
        return self.view.target

    def ask_to_stop(self, reason: str) -> None:
        """End the training at its next step boundary, saved where it has a path; asked twice, at once.

        Only noted here, and done in the next round: a signal's handler runs amid any line, and what it wrote
        to the view would be lost under what that line writes. May be called from any thread.
        """
        self._stop_requests.append(reason)
        self.wake()

    def report(self, member: MemberId) -> str | None:
        """The newest measurements of a member, as one line of JSON; ``None`` before the first."""
        report = self.box.get(protocol.report_key(member))
        return None if report is None else report.decode()

    def wake(self) -> None:
        """Look again now; may be called from any thread, and from a signal handler."""
        try:
            os.write(self._wake, b".")
        except BlockingIOError:
            return

    def run(
        self, poll: "Callable[[Controller], None] | None" = None, listeners: Sequence[Listener] = ()
    ) -> int:
        """Drive the training to its end; returns the exit code. ``poll`` is called each round."""
        try:
            while not self._ended():
                if poll is not None:
                    poll(self)
                for listener in listeners:
                    listener.poll(self)
                self.step()
                self._rest(listeners)
        finally:
            self.stop()
        return 0 if self.exit_reason is None else 1

    def step(self) -> None:
        """Look once, decide once, act once."""
        self._heed_stops()
        if self.exit_reason is not None:
            return
        now_ms = time.monotonic_ns() // 1_000_000
        self._observe(now_ms)
        for action in membership.decide(self.view, now_ms, self._limits):
            self._act(action, now_ms)

    def stop(self) -> None:
        """End all workers: asked first, then killed."""
        pool.stop(list(self.processes.values()), tell=self._doubt)
        self.processes.clear()

    def _heed_stops(self) -> None:
        while self._stop_requests:
            reason = self._stop_requests.popleft()
            if self.view.stopping or not self.view.generation:
                self.exit_reason = reason
            elif not self.view.finished:
                self._note("stopping", f"{reason}; stopping at the next step boundary")
                self.stopped = reason
                self._stop_by_s = time.monotonic() + STOP_PATIENCE_S
                self.view = replace(self.view, stopping=True)

    # -- looking ----------------------------------------------------------------------------------------

    def _rest(self, listeners: Sequence[Listener]) -> None:
        view = self.view
        waiting = view.pending is not None or len(view.members) != view.target or bool(view.lost)
        pause_s = BUSY_S if waiting or view.stopping or view.finished else CALM_S
        readable, _, _ = select.select([self._woken, *(one.fileno() for one in listeners)], [], [], pause_s)
        if self._woken in readable:
            os.read(self._woken, 4096)

    def _observe(self, now_ms: int) -> None:
        self._bury(now_ms)
        for member, worker in self.view.workers.items():
            if worker.phase is Phase.STARTING and self.box.has(protocol.ready_key(member)):
                self.view = events.became_ready(self.view, member, now_ms)
        self._feel_pulses(now_ms)
        view = self.view
        if view.pending is not None:
            self.view = view = replace(view, pending=self._followed(view.pending, view.workers, now_ms))
        self.view = events.lost(view, self._losses(view.generation, view.workers), now_ms)
        self._ask_why(now_ms)
        self._warn()
        self.view = events.calmed(self.view, now_ms, self._limits)
        self.view = replace(self.view, room=self._room() if self._room is not None else None)

    def _bury(self, now_ms: int) -> None:
        for member, process in list(self.processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self.processes[member]
            self._pulses.pop(member, None)
            if self.view.pending is not None:  # what it said last may not have been read yet
                self.view = replace(self.view, pending=self._switched(self.view.pending, now_ms))
            before = self.view
            worker = before.workers.get(member)
            reason = pool.reason(process)
            self.view = events.ended(before, member, code, reason, now_ms)
            remark = None
            if worker is not None and self.view.failures > before.failures:
                remark = f"{member} {events.how(code, worker.phase, reason)}"
            elif self.view.finished and not before.finished and not before.generation:
                remark = ONCE.format(member=member, why=f" ({reason})" if reason else "")
            self._note(f"{member} ended with {code}", remark)

    def _feel_pulses(self, now_ms: int) -> None:
        """Who was heard of, and who asks to leave; after a pause of our own everybody counts as heard."""
        paused = self._looked_ms is not None and now_ms - self._looked_ms > 1_000
        self._looked_ms = now_ms
        alive = set()
        for member, worker in self.view.workers.items():
            pulse = self.box.get(protocol.pulse_key(member))
            if pulse is not None and (pulse != self._pulses.get(member) or (paused and worker.heard_ms)):
                alive.add(member)
                self._pulses[member] = pulse
        if alive:
            self.view = events.pulsed(self.view, frozenset(alive), now_ms)
        if (
            leaving := frozenset(m for m in alive if protocol.is_leaving(self._pulses[m]))
            - self.view.unwanted
        ):
            self._note(f"leaving: {sorted(leaving)}", f"{' '.join(sorted(leaving))} asked to leave")
            self.view = events.let_go(self.view, leaving)

    def _ask_why(self, now_ms: int) -> None:
        """Whoever left a group because it cannot hand its state over said so before it said that it left."""
        pending = self.view.pending
        if pending is None or not membership.is_broken(self.view):
            return
        for member, reason in self._values(protocol.unhanded_key, pending.plan.number, pending.plan.members):
            self.view = events.unhanded(self.view, member, reason, now_ms)

    def _warn(self) -> None:
        """Free whoever still waits in a group that is broken: it may not have noticed yet."""
        if self.view.broken_since_ms is None or not membership.is_broken(self.view):
            return
        broken, pending = {self.view.generation}, self.view.pending
        if pending is not None and pending.committed and not membership.is_whole(self.view, pending):
            broken.add(pending.plan.number)
        for generation in broken - self._warned:
            self._warned.add(generation)
            self.box.set(protocol.broken_key(generation), "1")

    def _followed(self, pending: Pending, workers: Mapping[MemberId, Worker], now_ms: int) -> Pending:
        plan, number = pending.plan, pending.plan.number
        answers = dict(self._values(protocol.connected_key, number, plan.members))
        return replace(
            self._switched(pending, now_ms),
            connected=frozenset(m for m, answer in answers.items() if answer == protocol.CONNECTED),
            refused={m: answer for m, answer in answers.items() if answer != protocol.CONNECTED},
            lost=self._losses(number, workers),
        )

    def _switched(self, pending: Pending, now_ms: int) -> Pending:
        plan, number = pending.plan, pending.plan.number
        everybody = (*plan.members, *(m for m in self.view.members if m not in plan.members))
        switched = frozenset(m for m in everybody if self.box.has(protocol.switched_key(number, m)))
        began = now_ms if switched and pending.switching_ms is None else pending.switching_ms
        return replace(pending, switched=switched, switching_ms=began)

    def _losses(self, generation: int, workers: Mapping[MemberId, Worker]) -> dict[MemberId, int]:
        return {m: int(step) for m, step in self._values(protocol.lost_key, generation, workers)}

    def _values(self, key: KeyOf, number: int, members: Iterable[MemberId]) -> list[tuple[MemberId, str]]:
        values = [(member, self.box.get(key(number, member))) for member in members]
        return [(member, value.decode()) for member, value in values if value is not None]

    def _ended(self) -> bool:
        if self.exit_reason is not None:
            return True
        saver, generation, now_s = membership.saver(self.view), self.view.generation, time.monotonic()
        if saver in self.view.workers and self.box.has(protocol.saving_key(generation)):
            self._stop_by_s = self._save_watch.until_s(saver, generation, now_s, STOP_PATIENCE_S)
        if self._stop_by_s is not None and now_s > self._stop_by_s:
            self.exit_reason = f"{self.stopped or 'it ended'}; its {self._save_watch.late(now_s)} in time"
            return True
        alive = any(w.phase in (Phase.MEMBER, Phase.LEAVING) for w in self.view.workers.values())
        if not self.view.generation:  # a script that isn't elastic ends when all that were started have
            alive = any(worker.phase is Phase.STARTING for worker in self.view.workers.values())
        if self.view.stopping and not self.view.members and not alive:
            self.exit_reason = self.stopped
            return True
        return self.view.finished and not self.view.members and not alive

    # -- acting -----------------------------------------------------------------------------------------

    def _act(self, action: actions.Action, now_ms: int) -> None:
        match action:
            case actions.Start(count=number, founder=founder):
                self._note(str(action), f"starting {_workers(number)}")
                for _ in range(number):
                    self._start(founder, now_ms)
            case actions.Publish(plan=plan):
                self._publish(plan, now_ms)
            case actions.Commit(plan=plan):
                self._note(str(action))
                self.box.set(protocol.decision_key(plan.number), protocol.COMMIT)
                self.view = events.committed(self.view)
            case actions.Cancel(plan=plan, reason=reason):
                self._note(str(action), f"plan {plan.number} dropped: {reason}; the training goes on")
                self.box.set(protocol.decision_key(plan.number), protocol.CANCEL)
                self.view = events.cancelled(self.view, action, now_ms)
            case actions.Adopt(plan=plan):
                self._adopt(plan, now_ms)
            case actions.Kill(member=member, reason=reason):
                self._note(str(action), f"ending {member}: {reason}")
                self.view = events.condemned(self.view, action, now_ms)
                if member in self.processes:
                    self.processes[member].kill()
            case actions.Settle(reason=reason):
                size = _workers(len(self.view.members))
                self._note(str(action), f"staying at {size}: {reason}. Ask again with resize N")
                self.view = events.settled(self.view, reason)
            case actions.GiveUp(reason=reason):
                self._note(str(action))
                self.exit_reason = reason
            case _:
                assert_never(action)

    def _publish(self, plan: Plan, now_ms: int) -> None:
        remark = f"a group of {_workers(len(plan.members))} recovers" if plan.recover else None
        self._note(f"Publish({plan})", remark)
        self.box.set(protocol.plan_key(plan.number), protocol.encode_plan(plan))
        self.view = events.published(self.view, plan, now_ms)

    def _adopt(self, plan: Plan, now_ms: int) -> None:
        pauses = [
            float(value)
            for member, value in self._values(protocol.switched_key, plan.number, plan.members)
            if member in self.view.members and value
        ]
        if pauses and plan.receivers:
            self.paused_s = max(pauses) / 1000
        paused = f", paused {max(pauses):.0f} ms" if pauses else ""
        names = f" ({' '.join(plan.members)})" if plan.members else ""
        remark = f"generation {plan.number}: {_workers(len(plan.members))}{names}{paused}"
        self._note(f"Adopt({plan})", remark if plan.members else "all workers have left")
        self.view = events.adopted(self.view, plan, now_ms)

    def _start(self, founder: bool, now_ms: int) -> None:
        member = MemberId(f"w{self._born}")
        self._born += 1
        ranks = {self._ranks[each] for each in self.view.workers if each in self._ranks}
        least = 0 if founder else max(1, len(self.view.members))
        rank = next(free for free in count(least) if free not in ranks)
        self._ranks[member] = rank
        self.processes[member] = self._spawn(
            {
                **as_torchrun(self._host, self._store.port, rank, max(self.view.target, rank + 1)),
                protocol.ENV_STORE: self.address,
                protocol.ENV_SECRET: str(self.secret.descriptor),
                protocol.ENV_MEMBER: member,
                protocol.ENV_ROLE: protocol.FOUNDER if founder else protocol.JOINER,
            }
        )
        self.view = events.started(self.view, member, founder, now_ms)

    def _doubt(self, sentence: str) -> None:
        self._note(sentence, sentence)

    def _note(self, line: str, remark: str | None = None) -> None:
        self.journal.append(f"{time.monotonic():.3f} {line}")
        if remark:
            self._tell(remark)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
