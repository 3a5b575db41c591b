"""Acts on jobs in processes that are killed with SIGKILL at a chosen point, for ``test_journal_crashes``.

Run as a program it reads ``FOLDER SCENARIO POINT`` a line and forks a child for each: a service without its
doors (store, register, journal, engine). The launchers live here, in the process that is never killed, and go
on whatever happens to the child. The child kills itself before, or after, a line of ours that leads to the
disk: these points are numbered from 1 as they are passed, and POINT 0 lets it finish. It answers a line of
JSON: the child's wait ``status``, the points ``passed``, and every launcher's log.
"""

import contextlib
import json
import linecache
import os
import queue
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow  # noqa: F401  (loaded once, before the forks)

from advisor.actions import Cancel, Pause, SetEnvAtRestart
from advisor.cycle import run_cycle
from advisor.engines.launched import LocalEngine
from advisor.jobs.gpu_sharing import Terms
from advisor.jobs.job_store import Register, open_register
from advisor.jobs.lifecycle import in_flight
from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    JobRecord,
    JobState,
    Launcher,
    PauseCommand,
    ReallocateCommand,
    Report,
    RequeueCommand,
    ResumeCommand,
    Sharing,
    StartCommand,
    Submission,
)
from advisor.jobs.repository import read_leases
from advisor.jobs.with_snapshot import Look, joined
from advisor.journal.journal import StoreJournal
from advisor.journal.recovery import Recovering
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Advice
from advisor.serialize import from_tree, to_tree
from advisor.state.model import ActionClass, ClusterState, Gpu, Node, Project, Telemetry
from analytics.vocabulary.jobs import is_submitted
from collector.clock import SystemClock
from collector.store.database import Store, open_store
from service.control.owner_commands import Orders

GPUS = tuple(f"n/{at}" for at in range(4))
AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO), resize_pause_s=0.0, min_runtime_s=0.0)
SETTINGS = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)
TRACED = re.compile(
    r"/advisor/(journal|shelf|settle|switch|cycle|statements|register/\w+|engines/local)\.py$"
    r"|/service/control/owner_commands\.py$|/collector/store/database\.py$"
)
COMMITS = re.compile(r"execute\(\"COMMIT\"\)")
"""A transaction reaches the disk here and nowhere else: what lies before it is gone with the process."""

EVERY_LINE = re.compile(
    r"execute\(|write_changes\(|intends\(|came_of\(|\.do\(|\.settle\(|register\.(give|change|report|submit)\("
)
"""Every line that has to do with the store: many more points, of which most leave the same behind."""

REACHES_THE_DISK = EVERY_LINE if os.environ.get("FALLOW_CRASH_LINES") == "all" else COMMITS


@dataclass
class StandIn:
    """A launcher: what it did, in order, and what it was wrongly told."""

    job: str
    handled: int = 0
    stand: str = "pending"
    gpus: list[str] = field(default_factory=list)
    log: list[tuple[int, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def carry_out(self, directive: Any) -> None:
        """Do it, unless it was done; a launcher never does what it has done before."""
        if directive.number <= self.handled:
            return
        self.log.append((directive.number, type(directive).__name__))
        self.handled = directive.number
        wanted = {
            StartCommand: "pending",
            ResumeCommand: "paused",
            PauseCommand: "running",
            ReallocateCommand: "running",
        }
        expected = wanted.get(type(directive))
        if expected is not None and self.state != expected:
            self.wrong.append(f"{type(directive).__name__} while {self.state}")
        match directive:
            case StartCommand() | ResumeCommand() | ReallocateCommand():
                self.state, self.gpus = "running", list(directive.gpus)
            case PauseCommand():
                self.state, self.gpus = "paused", []
            case RequeueCommand():
                self.state, self.gpus = "pending", []
            case CancelCommand():
                self.state, self.gpus = "ended", []

    def report(self) -> Any:
        """Its word, as JSON."""
        said = Report(
            at_ms=SystemClock().now_ms(),
            launcher=Launcher(node="n", pid=os.getpid(), started_ms=1),
            state=JobState(self.state),
            acknowledged=self.handled,
            gpus=tuple(self.gpus),
        )
        return to_tree(said)


def wanted(name: str, **more: Any) -> Submission:
    base = {"command": ("train",), "user": "ann", "project": "lab", "nonce": name, "preemptible": True}
    return Submission(**{**base, **more})


class Service:
    """What a service is without its doors; launchers are reached over ``line``."""

    def __init__(self, folder: Path, line: socket.socket) -> None:
        self.store: Store = open_store(folder / "fallow.duckdb")
        self.clock = SystemClock()
        self.register: Register = open_register(self.store, self.clock)
        self.journal = StoreJournal(self.store, self.clock)
        self.engine = LocalEngine(
            self.register, self.clock, lambda entry, gpus, share: Terms(sharing=Sharing.WHOLE)
        )
        self.orders = Orders(self.engine, self.journal, self.clock)
        self.settling = Recovering(
            self.store,
            self.journal,
            lambda job: self.register.entries().get(job),
            lambda job, _, intent: self.engine.found(job, intent),
            by_launcher=is_submitted,
        )
        self._line = line.makefile("rw", buffering=1)
        self._told: queue.SimpleQueue[JobRecord | None] = queue.SimpleQueue()
        self.register.listen(lambda before, after: self._told.put(after))
        self._mouth = threading.Thread(target=self._speak, daemon=True)

    def start(self) -> None:
        """What a start does: settle, hear the launchers that live, tell them what they have not done."""
        self.settling.settle()
        for job, report in self._ask({"hello": True}):
            if job in self.register.entries():
                self.register.report(job, from_tree(Report, report))
        for entry in self.register.entries().values():
            self._told.put(entry)
        self._mouth.start()

    def stop(self) -> None:
        self._told.put(None)
        self._mouth.join()
        self.settling.settle()
        self.store.close()

    def look(self) -> ClusterState:
        now_ms = self.clock.now_ms()
        live = ClusterState(
            as_of_ms=now_ms,
            nodes={"n": Node(name="n")},
            gpus={uuid: Gpu(uuid=uuid, node="n", telemetry=Telemetry.GOOD) for uuid in GPUS},
            projects={"lab": Project(name="lab", quota_gpus=4.0)},
        )
        newest = dict.fromkeys(GPUS, now_ms)
        look = Look(
            now_ms=now_ms, newest_ms=newest, stale_ms=60_000, here=frozenset({"n"}), by_launcher=is_submitted
        )
        return joined(live, self.register.entries().values(), look)

    def cycle(self) -> int:
        """One cycle; how many steps were tried. The first job's next launch is to be capped."""
        self.settling.settle()
        first = self.register.entries().get("fallow:1")
        cap = SetEnvAtRestart(job="fallow:1", settings=SETTINGS, reason="it grew")
        due = first is not None and not first.next_launch and first.state is JobState.RUNNING
        advice = Advice(action=ActionClass.CAP_MEMORY, what="", why="", steps=(cap,) if due else ())
        cycle = run_cycle(
            self.journal.watching(self.look),
            self.engine,
            self.journal,
            self.clock,
            AUTO,
            policies=[lambda state: [advice]],
        )
        return len(cycle.outcomes)

    def facts(self) -> dict[str, Any]:
        """What the store says when all is done."""
        entries = self.register.entries()
        return {
            "entries": {
                id: {
                    "state": each.state.value,
                    "gpus": list(each.gpus),
                    "handled": each.acknowledged,
                    "capped": bool(each.next_launch),
                }
                for id, each in entries.items()
            },
            "leases": [[row["job"], row["gpu"], row["share"]] for row in read_leases(self.store)],
            "deeds": [
                [deed.number, deed.job, deed.verb, None if deed.result is None else deed.result.value]
                for deed in self.journal.deeds(since_ms=0)
            ],
            "in_flight": [id for id, each in entries.items() if in_flight(each)],
        }

    def _ask(self, said: dict[str, Any]) -> Any:
        self._line.write(json.dumps(said) + "\n")
        return json.loads(self._line.readline())

    def _speak(self) -> None:
        while (entry := self._told.get()) is not None:
            current = self.register.entries().get(entry.id)
            if current is None or not in_flight(current):
                continue
            report = self._ask({"job": current.id, "directive": to_tree(current.directive, Command)})
            self.register.report(current.id, from_tree(Report, report))


def prepare(service: Service) -> None:
    """Two jobs run: an elastic one on two GPUs, one that checkpoints on the third."""
    service.register.submit(wanted("a", mobility=Elasticity.ELASTIC, max_gpus=2))
    service.register.submit(wanted("b", mobility=Elasticity.CHECKPOINTS, checkpoint_signal="USR1"))
    while service.cycle():
        pass


def act(service: Service) -> None:
    """A third job comes, a cycle acts; the second is paused by its owner and the first cancelled."""
    service.register.submit(wanted("c"))
    service.cycle()
    entry = service.register.entries()["fallow:2"]
    if not entry.held_by_user and entry.state is JobState.RUNNING:
        service.orders.give(Pause(job="fallow:2"), "user ann", _held)
    if service.register.entries()["fallow:1"].state is not JobState.ENDED:
        service.orders.give(Cancel(job="fallow:1"), "user ann")
    service.cycle()


def recover(service: Service) -> None:
    """What comes after a crash: who was not told that a job was taken asks again, and cycles go on."""
    service.register.submit(wanted("c"))
    while service.cycle() or any(map(in_flight, service.register.entries().values())):
        service.clock.sleep(0.01)


def _held(entry: JobRecord) -> JobRecord:
    return replace(entry, held_by_user=True)


SCENARIOS: dict[str, Callable[[Service], None]] = {
    "prepare": prepare,
    "act": act,
    "recover": recover,
}


@cache
def is_traced(file: str) -> bool:
    return TRACED.search(file) is not None


class Points:
    """Counts the moments before and after lines that lead to the disk, in all threads; kills at one."""

    def __init__(self, chosen: int) -> None:
        self.passed = 0
        self._chosen = chosen
        self._after = threading.local()
        self._guard = threading.Lock()

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not is_traced(frame.f_code.co_filename):
            return None
        if event in ("line", "return") and getattr(self._after, "due", False):
            self._after.due = False
            self._pass()
        if event == "line" and REACHES_THE_DISK.search(
            linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        ):
            self._pass()
            self._after.due = True
        return self.trace

    def _pass(self) -> None:
        with self._guard:
            self.passed += 1
            if self.passed == self._chosen:
                os.kill(os.getpid(), signal.SIGKILL)


def child(folder: Path, scenario: str, point: int, line: socket.socket) -> int:
    """Be the service; the points that were passed."""
    points = Points(point)
    threading.settrace(points.trace)
    sys.settrace(points.trace)
    service = Service(folder, line)
    service.start()
    SCENARIOS[scenario](service)
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    facts = service.facts()
    service.stop()
    (folder / "facts.json").write_text(json.dumps(facts))
    return points.passed


def serve(line: socket.socket, launchers: dict[str, StandIn]) -> None:
    """Be the launchers until the service is gone."""
    file = line.makefile("rw", buffering=1)
    for text in file:
        said = json.loads(text)
        if "hello" in said:
            answer: Any = [[job, each.report()] for job, each in launchers.items() if each.state != "ended"]
        else:
            each = launchers.setdefault(said["job"], StandIn(job=said["job"]))
            each.carry_out(from_tree(Command, said["directive"]))
            answer = each.report()
        try:
            file.write(json.dumps(answer) + "\n")
        except BrokenPipeError:
            return


def run(folder: Path, scenario: str, point: int) -> dict[str, Any]:
    """One child, from its fork to its end, and what its launchers did meanwhile."""
    kept = folder / "launchers.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    launchers = {
        job: StandIn(**{**each, "log": [tuple(row) for row in each["log"]]}) for job, each in known.items()
    }
    ours, theirs = socket.socketpair()
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        passed = child(folder, scenario, point, theirs)
        os.write(send, str(passed).encode())
        os._exit(0)
    theirs.close()
    os.close(send)
    with contextlib.suppress(ConnectionResetError):
        serve(ours, launchers)
    ours.close()
    _, status = os.waitpid(pid, 0)
    passed = os.read(receive, 32).decode()
    os.close(receive)
    kept.write_text(json.dumps({job: vars(each) for job, each in launchers.items()}))
    logs = {job: vars(each) for job, each in launchers.items()}
    return {"status": status, "passed": int(passed or 0), "launchers": logs}


def main() -> None:
    for text in sys.stdin:
        folder, scenario, point = text.split()
        print(json.dumps(run(Path(folder), scenario, int(point))), flush=True)


if __name__ == "__main__":
    main()
