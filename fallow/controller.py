"""Drives one elastic training: starts its workers, hosts their store, carries out ``membership.decide``.

    python -m fallow.controller --min 1 --max 4 --workers 2 -- train.py --epochs 3
    python -m fallow.controller --socket PATH resize 3

It holds no rule about membership: it gathers a view, asks, and acts.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol, assert_never

import torch.distributed as dist

from fallow import membership, protocol
from fallow.control_socket import ControlSocket, ask
from fallow.membership import Limits, Pending, Phase, View, Worker
from fallow.protocol import MemberId, Plan

POLL_S = 0.01

KeyOf = Callable[[int, MemberId], str]


class Handle(Protocol):
    """A worker that was started: the part of ``subprocess.Popen`` that is needed."""

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended."""
        ...


Spawn = Callable[[Mapping[str, str]], Handle]
"""Starts one worker with these variables added to its environment."""


def command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Spawn:
    """Workers that run ``python WORDS`` as processes of their own."""

    def spawn(variables: Mapping[str, str]) -> Handle:
        quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # a wait in slices logs a warning a slice
        return subprocess.Popen(
            [sys.executable, *words], env={**os.environ, **quiet, **(environment or {}), **variables}
        )

    return spawn


class Controller:
    """One training's processes and their store. ``run`` blocks until the training ends."""

    def __init__(
        self,
        spawn: Spawn,
        *,
        workers: int,
        minimum: int = 1,
        maximum: int = 64,
        limits: Limits | None = None,
        host: str = "127.0.0.1",
    ):
        self._spawn = spawn
        self._minimum, self._maximum = minimum, maximum
        self._limits = limits or Limits()
        self._host = host
        self._store = dist.TCPStore(
            host, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30)
        )
        self.processes: dict[MemberId, Handle] = {}
        self._born = 0
        self.view = View(target=max(minimum, min(maximum, workers)))
        self.exit_reason: str | None = None
        self.journal: list[str] = []

    def resize(self, workers: int) -> int:
        """Ask for a world of ``workers``, held within the limits; returns the target that will be sought."""
        target = max(self._minimum, min(self._maximum, workers))
        self.view = replace(self.view, target=target, failed_starts=0)
        return self.view.target

    def run(self, poll: "Callable[[Controller], None] | None" = None) -> int:
        """Drive the training to its end; returns the exit code. ``poll`` is called each round."""
        try:
            while not self._ended():
                if poll is not None:
                    poll(self)
                self.step()
                time.sleep(POLL_S)
        finally:
            self.stop()
        return 0 if self.exit_reason is None else 1

    def step(self) -> None:
        """Look once, decide once, act once."""
        now_ms = time.monotonic_ns() // 1_000_000
        self._observe(now_ms)
        for action in membership.decide(self.view, now_ms, self._limits):
            self._act(action, now_ms)

    def stop(self) -> None:
        """End all workers: asked first, then killed."""
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + 5
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # -- looking ----------------------------------------------------------------------------------------

    def _observe(self, now_ms: int) -> None:
        self._bury()
        view = self.view
        workers = {member: self._promoted(member, worker, now_ms) for member, worker in view.workers.items()}
        lost = {**view.lost, **self._losses(view.generation, workers)}
        broken = view.broken_since_ms
        if (lost or any(member not in workers for member in view.members)) and broken is None:
            broken = now_ms
        pending = self._followed(view.pending, workers) if view.pending else None
        self.view = replace(view, workers=workers, lost=lost, broken_since_ms=broken, pending=pending)

    def _bury(self) -> None:
        workers = dict(self.view.workers)
        finished, failed_starts = self.view.finished, self.view.failed_starts
        for member, process in list(self.processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self.processes[member]
            worker = workers.pop(member, None)
            self._note(f"{member} ended with {code}")
            if code == 0 and worker is not None and worker.phase is Phase.MEMBER:
                finished = True
            elif worker is not None:
                failed_starts = failed_starts + 1 if worker.phase is Phase.STARTING else 0
        self.view = replace(self.view, workers=workers, finished=finished, failed_starts=failed_starts)

    def _promoted(self, member: MemberId, worker: Worker, now_ms: int) -> Worker:
        if worker.phase is Phase.STARTING and self._store.check([protocol.ready_key(member)]):
            return replace(worker, phase=Phase.READY, since_ms=now_ms)
        return worker

    def _followed(self, pending: Pending, workers: Mapping[MemberId, Worker]) -> Pending:
        number, members = pending.plan.number, pending.plan.members
        answers = dict(self._values(protocol.connected_key, number, members))
        switched = frozenset(m for m in members if self._store.check([protocol.switched_key(number, m)]))
        return replace(
            pending,
            connected=frozenset(m for m, answer in answers.items() if answer == protocol.CONNECTED),
            refused={m: answer for m, answer in answers.items() if answer != protocol.CONNECTED},
            switched=switched,
            lost=self._losses(number, workers),
        )

    def _losses(self, generation: int, workers: Mapping[MemberId, Worker]) -> dict[MemberId, int]:
        return {m: int(step) for m, step in self._values(protocol.lost_key, generation, workers)}

    def _values(
        self, key: KeyOf, number: int, members: Sequence[MemberId] | Mapping[MemberId, Worker]
    ) -> list[tuple[MemberId, str]]:
        there = [member for member in members if self._store.check([key(number, member)])]
        return [(member, bytes(self._store.get(key(number, member))).decode()) for member in there]

    def _ended(self) -> bool:
        if self.exit_reason is not None:
            return True
        still_training = any(worker.phase is Phase.MEMBER for worker in self.view.workers.values())
        return self.view.finished and not still_training

    # -- acting -----------------------------------------------------------------------------------------

    def _act(self, action: membership.Action, now_ms: int) -> None:
        self._note(str(action))
        match action:
            case membership.Start(count=count, founder=founder):
                for _ in range(count):
                    self._start(founder, now_ms)
            case membership.Publish(plan=plan):
                self._store.set(protocol.plan_key(plan.number), protocol.encode_plan(plan))
                self.view = replace(
                    self.view,
                    lost=membership.losses(self.view),
                    pending=Pending(plan=plan, published_ms=now_ms),
                    next_number=plan.number + 1,
                )
            case membership.Commit(plan=plan):
                self._store.set(protocol.decision_key(plan.number), protocol.COMMIT)
                self.view = replace(self.view, pending=self._committed())
            case membership.Cancel(plan=plan):
                self._store.set(protocol.decision_key(plan.number), protocol.CANCEL)
                self.view = replace(self.view, pending=None)
            case membership.Adopt(plan=plan):
                self._adopt(plan, now_ms)
            case membership.Kill(member=member):
                if member in self.processes:
                    self.processes[member].kill()
            case membership.GiveUp(reason=reason):
                self.exit_reason = reason
            case _:
                assert_never(action)

    def _committed(self) -> Pending | None:
        return replace(self.view.pending, committed=True) if self.view.pending else None

    def _adopt(self, plan: Plan, now_ms: int) -> None:
        workers = dict(self.view.workers)
        for member, worker in workers.items():
            if member in plan.members:
                workers[member] = replace(worker, phase=Phase.MEMBER, since_ms=now_ms)
            elif member in self.view.members:
                workers[member] = replace(worker, phase=Phase.LEAVING, since_ms=now_ms)
        self.view = replace(
            self.view,
            generation=plan.number,
            members=plan.members,
            workers=workers,
            pending=None,
            lost={},
            broken_since_ms=None,
        )

    def _start(self, founder: bool, now_ms: int) -> None:
        member = MemberId(f"w{self._born}")
        self._born += 1
        self.processes[member] = self._spawn(
            {
                protocol.ENV_STORE: f"{self._host}:{self._store.port}",
                protocol.ENV_MEMBER: member,
                protocol.ENV_ROLE: protocol.FOUNDER if founder else protocol.JOINER,
            }
        )
        workers = {
            **self.view.workers,
            member: Worker(phase=Phase.STARTING, since_ms=now_ms, founder=founder),
        }
        self.view = replace(self.view, workers=workers)

    def _note(self, line: str) -> None:
        self.journal.append(f"{time.monotonic():.3f} {line}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, training = _split(given)
    options = _parser().parse_args(own)
    if not training:
        if options.socket is None or not options.ask:
            _parser().error("give a training after --, or --socket PATH and what to ask")
        print(ask(options.socket, options.ask))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="fallow-"))
    control = ControlSocket(options.socket or folder / "control")
    controller = Controller(
        command(training),
        workers=options.workers or options.minimum,
        minimum=options.minimum,
        maximum=options.maximum,
    )
    print(f"fallow: resize with: python -m fallow.controller --socket {control.path} resize N", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        code = controller.run(control.poll)
    except KeyboardInterrupt:
        code = 130
    finally:
        controller.stop()
        control.close()
    if controller.exit_reason:
        print(f"fallow: the training stopped: {controller.exit_reason}", file=sys.stderr)
    return code


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fallow.controller", description=__doc__)
    parser.add_argument("--min", dest="minimum", type=int, default=1, help="fewest workers")
    parser.add_argument("--max", dest="maximum", type=int, default=64, help="most workers")
    parser.add_argument("--workers", type=int, help="workers at the start (default: --min)")
    parser.add_argument("--socket", type=Path, help="where to listen, or whom to ask")
    parser.add_argument("ask", nargs="*", help="resize N | status | stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())
