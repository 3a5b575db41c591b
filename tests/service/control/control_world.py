"""The acting half of a service on a real store: four measured GPUs, and launchers that obey, or do not.

No HTTP and no workers: what a launcher is told comes from the desk as the door passes it on, and what it
answers goes back to the desk.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    ExitReason,
    JobState,
    Launcher,
    PauseCommand,
    ReallocateCommand,
    Report,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
    Submission,
)
from advisor.serialize import from_tree
from advisor.state.model import ProjectName
from collector.clock import SystemClock
from collector.model import (
    Basis,
    Gpu,
    GpuSample,
    GpuUuid,
    JobId,
    NodeName,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.judgements import Judgement
from service.config.model import ActingConfig, Config, LimitsConfig
from service.control.acting import Acting
from service.control.components import ControlDependencies, join_acting
from service.control.errors import ActingError
from service.control.interface import Caller, Role
from tests.stores import open_store

GIB = 1 << 30
GPUS = tuple(GpuUuid(f"GPU-{n}") for n in range(4))
NODE = NodeName(socket.gethostname())
ANNA = Caller(name="anna", uid=4_100_000, role=Role.USER)
SELF = Caller(name="anna", uid=os.getuid(), role=Role.USER)
"""The account that the tests run as, whose real processes are a job's own."""
BO = Caller(name="bo", uid=4_100_001, role=Role.USER)
ROOT = Caller(name="root", uid=0, role=Role.OPERATOR)
GUEST = Caller(name="guest", uid=4_100_002, role=Role.VIEWER)
"""Accounts that no machine has: their groups are looked up, and one of them could be the service's own."""
CONFIG = Config(
    acting=ActingConfig(every_s=0.5, answer_s=2.0, reshape_s=2.0),
    limits=LimitsConfig(never_fitting="wait"),  # jobs that wait for ever, with a reason
)


def wanted(**changes: object) -> Submission:
    plain = Submission(
        command=("python", "train.py"),
        user="",
        project=ProjectName("vision"),
        mobility=Elasticity.ELASTIC,
        preemptible=True,
        grace_s=1.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def tick(store: Store, gpus: tuple[GpuUuid, ...] = GPUS, at_ms: int | None = None) -> int:
    """A tick that saw these GPUs, free, and was judged; its time."""
    at_ms = SystemClock().now_ms() if at_ms is None else at_ms
    hardware = tuple(
        Gpu(uuid=uuid, node=NODE, index=n, model="H100", memory_total_bytes=80 * GIB)
        for n, uuid in enumerate(gpus)
    )
    samples = tuple(
        GpuSample(
            uuid=uuid,
            at_ms=at_ms,
            width_ms=10_000,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.0,
            memory_used_bytes=GIB // 4,
            memory_total_bytes=80 * GIB,
            process_count=0,
        )
        for uuid in gpus
    )
    reading = Reading(source="nvml", at_ms=at_ms, gpus=hardware, samples=samples, allocations=())
    store.write_tick(Tick(at_ms=at_ms, width_ms=10_000, outcomes=(reading,), allocations=()))
    store.write_judgement(Judgement(), at_ms)
    return at_ms


@dataclass
class Stage:
    """A store, and the acting half on it."""

    folder: Path
    store: Store
    acting: Acting
    troubles: list[str] = field(default_factory=list)

    @property
    def desk(self) -> Any:
        return self.acting.desk

    def state(self, job: str) -> str:
        return str(self.desk.job(ROOT, JobId(job))["state"])

    def leases(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in self.desk.leases(ROOT):
            found.setdefault(row["gpu"], []).append(row["job"])
        return found


@contextmanager
def stage(
    folder: Path, config: Config = CONFIG, *, age_s: float | None = 0.0, begin: bool = True
) -> Iterator[Stage]:
    """The acting half, running; ends as a service that is stopped does. ``age_s``: of the only tick."""
    store = open_store(folder / "fallow.duckdb")
    try:
        at_ms = None if age_s is None else tick(store, at_ms=SystemClock().now_ms() - round(age_s * 1000))
        troubles: list[str] = []

        def trouble(found: str | None) -> None:
            if found is not None:
                troubles.append(found)

        acting = join_acting(
            ControlDependencies(
                config=config,
                store=store,
                clock=SystemClock(),
                folder=folder,
                last_tick=lambda: at_ms,
                trouble=trouble,
            )
        )
        if begin:
            acting.start()
        try:
            yield Stage(folder, store, acting, troubles)
        finally:
            acting.stop()
    finally:
        store.close()


class StandIn:
    """A launcher without workers: follows its job and acknowledges, unless it is ``deaf``."""

    def __init__(self, desk: Any, caller: Caller, job: str, *, after: int = 0, deaf: bool = False) -> None:
        self.job, self.caller, self._desk = JobId(job), caller, desk
        self.told: list[Command] = []
        self.places: list[dict[str, Any]] = []
        self.handled, self.deaf = after, deaf
        self.gpus: tuple[GpuUuid, ...] = ()
        self.state = JobState.PENDING
        self.failing: str | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, **more: object) -> None:
        """Report how it stands."""
        plain = Report(
            at_ms=SystemClock().now_ms(),
            launcher=Launcher(node=NODE, pid=os.getpid(), started_ms=1),
            state=self.state,
            acknowledged=self.handled,
            gpus=self.gpus,
        )
        self._desk.report(self.caller, self.job, replace(plain, **more))  # type: ignore[arg-type]

    def finish(self, code: int = 0) -> None:
        """Its workers have ended."""
        ending = ExitReason.DONE if code == 0 else ExitReason.FAILED
        self.state = JobState.ENDED
        self.say(exit_reason=ending, exit_code=code)

    def close(self) -> None:
        """It is gone, without a word."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._follow())
        try:
            self._loop.run_until_complete(self._task)
        except (asyncio.CancelledError, ActingError):
            pass
        finally:
            self._loop.close()

    async def _follow(self) -> None:
        following = self._desk.directives(self.caller, self.job, self.handled)
        try:
            async for row in following:
                if "place" in row:
                    self.places.append(row["place"])
                elif "directive" in row:
                    await self._loop.run_in_executor(None, self._obey, from_tree(Command, row["directive"]))
        finally:
            await following.aclose()

    def _obey(self, directive: Command) -> None:
        self.told.append(directive)
        if self.deaf:
            return
        self.handled = directive.number
        if self.failing is not None:
            self.say(failed=self.failing)
            return
        match directive:
            case StartCommand(gpus=gpus) | ResumeCommand(gpus=gpus) | ReallocateCommand(gpus=gpus):
                self.state, self.gpus = JobState.RUNNING, gpus
            case PauseCommand():
                self.state, self.gpus = JobState.PAUSED, ()
            case RequeueCommand():
                self.state, self.gpus = JobState.PENDING, ()
            case CancelCommand():
                self.state, self.gpus = JobState.ENDED, ()
            case _:
                pass
        try:
            self.say(exit_reason=ExitReason.CANCELLED if self.state is JobState.ENDED else None)
        except ActingError:
            assert self.state is JobState.ENDED, "only a job that ended is not heard any more"


def until(what: str, holds: Callable[[], Any], limit_s: float = 15) -> Any:
    """Wait for something that comes by itself; what it was."""
    ends_s = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < ends_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.01)
    return found
