"""Parts for tests of foreign jobs: a real store with a process seen on a GPU, and a driver of our own.

Only the CUDA driver's calls are not real here: ``FakeDriver`` stands where libcuda does.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.engines.cuda_checkpoint import Deed, DriverRefused, Host, ProcessState, Target, pause, resume
from advisor.engines.cuda_checkpointer import NOT_SAID, Begun, Over
from advisor.engines.external_processes import processes_of
from advisor.engines.gpu_room import ProcessMemory
from advisor.engines.memory_transfers import Ongoing
from advisor.jobs.external_jobs import ExternalJobStore, Seen
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.procfs.checkpoint_blockers import CheckpointBlocker
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.store.database import Store
from tests.stores import open_store

GIB = 1 << 30
START_MS = 1_795_000_000_000
NODE, GPU = NodeName("here"), GpuUuid("GPU-a")


@dataclass
class HandClock:
    """A clock that a test moves."""

    at_ms: int = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)


@dataclass
class FakeDriver:
    """The driver's five calls on processes that exist only here. ``refuses`` maps (call, pid) to a reason.

    ``breaks`` are (call, pid) after which the process is FAILED.
    """

    states: dict[int, ProcessState] = field(default_factory=dict)
    refuses: dict[tuple[str, int], str] = field(default_factory=dict)
    breaks: frozenset[tuple[str, int]] = frozenset()
    calls: list[tuple[str, int]] = field(default_factory=list)

    def state(self, pid: int) -> ProcessState:
        if ("state", pid) in self.refuses:
            raise DriverRefused(f"state of process {pid}: {self.refuses['state', pid]}")
        return self.states[pid]

    def lock(self, pid: int, timeout_ms: int) -> None:
        assert timeout_ms > 0, "a lock without a timeout hangs with whoever is stuck"
        self._move("lock", pid, ProcessState.RUNNING, ProcessState.LOCKED)

    def checkpoint(self, pid: int) -> None:
        self._move("checkpoint", pid, ProcessState.LOCKED, ProcessState.CHECKPOINTED)

    def restore(self, pid: int) -> None:
        self._move("restore", pid, ProcessState.CHECKPOINTED, ProcessState.LOCKED)

    def unlock(self, pid: int) -> None:
        self._move("unlock", pid, ProcessState.LOCKED, ProcessState.RUNNING)

    def _move(self, call: str, pid: int, before: ProcessState, after: ProcessState) -> None:
        self.calls.append((call, pid))
        if (call, pid) in self.breaks:
            self.states[pid] = ProcessState.FAILED
            raise DriverRefused(f"{call} of process {pid}: CUDA_ERROR_UNKNOWN")
        if (call, pid) in self.refuses:
            raise DriverRefused(f"{call} of process {pid}: {self.refuses[call, pid]}")
        if self.states[pid] is not before:
            raise DriverRefused(f"{call} of process {pid}: CUDA_ERROR_ILLEGAL_STATE")
        self.states[pid] = after


FIT = Host(architecture="x86_64", driver_major=580, uid=0, available_bytes=400 * GIB)


def calm(pid: int, **changes: object) -> CheckpointBlocker:
    """A process that nothing ties to others."""
    plain = CheckpointBlocker(
        pid=pid,
        started_ms=START_MS,
        uid=1000,
        traced=False,
        nccl=False,
        shared_tensors=False,
        managed_bytes=0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@dataclass
class Slow:
    """A move that takes until the test says that it is over."""

    move: Callable[[], Deed]
    over: threading.Event

    def ended(self, at_most_s: float) -> Deed | None:
        return self.move() if self.over.wait(at_most_s) else None


@dataclass
class FakeCheckpointer:
    """``checkpointer.Checkpointer`` in this process, over a ``FakeDriver``; ``slow`` says when moves end."""

    driver: FakeDriver
    machine: Host = FIT
    gone: frozenset[int] = frozenset()
    looks: dict[int, CheckpointBlocker] = field(default_factory=dict)
    slow: threading.Event | None = None
    killed: Deed | None = None
    """What is heard where the child that asks the driver is killed: it began, and said nothing."""
    locks: tuple[int, ...] = ()
    """The descriptors that the last restore was given."""
    free: dict[GpuUuid, int | None] = field(default_factory=dict)

    def host(self) -> Host:
        return self.machine

    def targets(self, seen: Sequence[Seen]) -> tuple[Target, ...]:
        return tuple(
            Target(
                pid=each.pid,
                memory_bytes=each.memory_bytes,
                uuids=each.uuids,
                world_size=each.world_size,
                now=None if each.pid in self.gone else self.looks.get(each.pid, calm(each.pid)),
            )
            for each in seen
        )

    def pause(self, pids: Sequence[int], held: ProcessMemory, begun_ms: Begun = NOT_SAID) -> Ongoing:
        if self.killed is not None:
            return Over(self.killed)
        return self._begun(
            lambda: pause(self.driver, pids, 10_000, lambda: 0.0, memory=held, free=self.free_memory)
        )

    def resume(
        self, pids: Sequence[int], held: ProcessMemory, locks: Sequence[int] = (), begun_ms: Begun = NOT_SAID
    ) -> Ongoing:
        self.locks = tuple(locks)
        if self.killed is not None:
            return Over(self.killed)
        return self._begun(lambda: resume(self.driver, pids, lambda: 0.0, memory=held, free=self.free_memory))

    def free_memory(self, uuids: Collection[GpuUuid]) -> dict[GpuUuid, int | None]:
        return {uuid: self.free.get(uuid, 80 * GIB) for uuid in uuids}

    def _begun(self, move: Callable[[], Deed]) -> Ongoing:
        return Slow(move, self.slow) if self.slow is not None else Over(move())

    def look(self, pids: Sequence[int], begun_ms: Begun = NOT_SAID) -> Deed:
        if ("look", 0) in self.driver.refuses:
            return Deed(ok=False, found=self.driver.refuses["look", 0])
        states = {str(pid): self.driver.state(pid).name.lower() for pid in pids}
        return Deed(ok=True, found="looked", states=states)


def process(pid: int, node: NodeName = NODE, **changes: object) -> Process:
    plain = Process(
        key=ProcessKey(node=node, pid=pid, started_ms=START_MS - 60_000),
        user="ann",
        uid=1000,
        name="python",
        kind=JobKind.INTERACTIVE,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def job_id(pid: int, node: NodeName = NODE) -> JobId:
    return JobId(f"pid:{node}/{pid}@{START_MS - 60_000}")


@dataclass
class Machine:
    """What the collector last saw: the snapshot that each ``sees`` leads to, and its tick in the store."""

    store: Store
    clock: HandClock
    snapshot: Snapshot = field(default_factory=Snapshot)

    def sees(self, processes: Sequence[Process], job: JobId, *, memory: int | None = 4 * GIB) -> None:
        """One tick in which these processes, one job, are on the GPU."""
        at_ms = self.clock.now_ms()
        sample = GpuSample(
            uuid=GPU,
            at_ms=at_ms,
            width_ms=10_000,
            utilization_ratio=0.0,
            rung=Basis.SM_ACTIVE,
            memory_used_bytes=4 * GIB,
            process_count=len(processes),
        )
        reading = Reading(
            source="test",
            at_ms=at_ms,
            gpus=(Gpu(uuid=GPU, node=NODE, index=0, memory_total_bytes=80 * GIB),),
            samples=(sample,),
            processes=tuple(processes),
            process_samples=tuple(
                ProcessSample(key=each.key, uuid=GPU, at_ms=at_ms, width_ms=10_000, memory_used_bytes=memory)
                for each in processes
            ),
        )
        holder = Holder(job=job, user="ann", project="lab", name="notebook", kind=JobKind.INTERACTIVE)
        tick = Tick(
            at_ms=at_ms,
            width_ms=10_000,
            outcomes=(reading,),
            allocations=(Allocation(uuid=GPU, holder=holder, source=ClaimSource.PROCESS),),
            owners=tuple((each.key, job) for each in processes),
        )
        self.store.write_tick(tick)
        self.snapshot = after(self.snapshot, tick, duration_ms=1.0)

    def processes_of(self, job: JobId) -> tuple[Seen, ...]:
        return processes_of(self.snapshot, job, self.clock.now_ms())


@contextmanager
def opened(folder: Path, clock: HandClock) -> Iterator[tuple[Store, ExternalJobStore]]:
    with open_store(folder / "fallow.duckdb") as store:
        yield store, ExternalJobStore(store, clock)
