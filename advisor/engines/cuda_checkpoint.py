"""CUDA's process checkpoint: when it may be tried, and how a job's processes are taken off their GPUs and
back.

    RUNNING ──lock──► LOCKED ──checkpoint──► CHECKPOINTED     the GPU's memory moves to the host, and its
       ▲                 │                        │           device handles are released; CUDA calls
       └────unlock───────┘◄────────restore────────┘           wait. FAILED: the driver cannot mend it.

All processes of a job are locked before the first is checkpointed. Whatever fails, everything that was
begun is undone in reverse, and the outcome names the state that each process was left in. No signal is ever
sent: killing a process that was restored took whole hosts down (cuda-checkpoint issue 53, driver 595).
Source: CUDA driver API, "CUDA Checkpointing" (cuCheckpointProcess*, since CUDA 12.8); what it cannot
take along: the README of NVIDIA's cuda-checkpoint, "Functionality".
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from advisor.engines.gpu_room import GIB, FreeMemory, ProcessMemory, no_room
from analytics import text
from collector.model import GpuUuid
from collector.procfs.checkpoint_blockers import LOOK_LIMIT_S, MOST_DESCENDANTS, CheckpointBlocker

# Major driver versions: the first with CUDA's checkpoint, and the first whose lock takes a time limit.
FIRST_DRIVER, LOCK_TIMEOUT_DRIVER = 550, 570
TRIED_DRIVERS = (570, 575, 580)
"""Major versions under which checkpoints and restores of one process are told to work (cuda-checkpoint issues
34 and 44): the default of ``foreign.drivers``. docs/hardware.md says which were seen here."""
TOLD_TO_FAIL: Mapping[int, str] = {
    590: "two processes on two GPUs did not come back (cuda-checkpoint issue 27)",
    595: "a host stopped when a restored process was killed (cuda-checkpoint issue 53)",
    610: "the process crashed when it was locked (cuda-checkpoint issue 58)",
}
"""What others reported of major versions, for whoever is about to allow one."""
INSTANCE = "MIG-"
"""What the UUIDs of MIG instances begin with (MIG User Guide, "Device Enumeration")."""
LOST = "what a driver refused to restore may never be restored any more (cuda-checkpoint issue 44)"
HOST_RESERVE_BYTES = 2 * GIB
"""Left to the host beside what moves there: a job that survives its pause must not meet the OOM killer."""
ROOT_UID = 0
MANAGED_BYTES = 64 << 20
"""A CUDA process maps a little of the unified-memory device anyway; this much is memory in use."""


class ProcessState(IntEnum):
    """``CUprocessState`` of cuda.h; the last two while an operation is under way."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3
    CHECKPOINTING = 4
    RESTORING = 5


class DriverRefused(Exception):
    """A call into the driver failed: which, on which process, and the driver's name for the reason."""


class Driver(Protocol):
    """The driver's own calls; each blocks until it is done and raises ``DriverRefused``."""

    def state(self, pid: int) -> ProcessState:
        """Where the process stands."""
        ...

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Make its further CUDA calls wait; gives up after ``timeout_ms`` and leaves it RUNNING."""
        ...

    def checkpoint(self, pid: int) -> None:
        """Move its GPU memory to the host and release the GPU."""
        ...

    def restore(self, pid: int) -> None:
        """Bring its memory back onto the same GPUs; it is LOCKED then."""
        ...

    def unlock(self, pid: int) -> None:
        """Let its CUDA calls go on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What came of a pause or a resume: the state of each process, and the seconds each phase took.

    ``undone`` is true when it failed and every process is RUNNING again as before.
    """

    ok: bool
    found: str
    undone: bool = False
    states: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is known of the machine and of us; ``None`` is not known.

    ``mps_pids`` are the processes of CUDA's multi-process service, by account: root's serves everybody.
    ``drivers`` are the major versions under which this site lets jobs be checkpointed.
    """

    architecture: str
    driver_major: int | None
    uid: int
    available_bytes: int | None
    mps_pids: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    drivers: tuple[int, ...] = TRIED_DRIVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One process of the job: what the collector saw of it, and what /proc says now (``None``: gone).

    ``uuids`` are the GPUs and MIG instances that it is on.
    """

    pid: int
    memory_bytes: int | None
    uuids: tuple[GpuUuid, ...] = ()
    world_size: str | None = None
    now: CheckpointBlocker | None = None


def unfit_host(host: Host) -> str | None:
    """Why nothing can be checkpointed on this machine; ``None`` when something could. Pure."""
    if host.architecture != "x86_64":
        return f"CUDA checkpoints processes on x86-64 only, and this machine is {host.architecture}"
    if host.driver_major is None:
        return "the version of the NVIDIA driver is not known"
    if host.driver_major < FIRST_DRIVER:
        return f"driver {host.driver_major} cannot checkpoint processes: {LOCK_TIMEOUT_DRIVER} or later can"
    if host.driver_major < LOCK_TIMEOUT_DRIVER:
        return (
            f"driver {host.driver_major} has no timeout for the lock, so a job that is stuck would hang the "
            f"pause: {LOCK_TIMEOUT_DRIVER} or later has"
        )
    if host.driver_major not in host.drivers:
        return _untried(host.driver_major, host.drivers)
    return _served(host, ROOT_UID)


def unfit(host: Host, targets: Sequence[Target], listed: Collection[int] = ()) -> str | None:
    """Why these processes, all that a job has on GPUs, must not be checkpointed; ``None``: they may. Pure.

    ``listed`` are the processes of this machine that the driver lists on any GPU.
    """
    if not targets:
        return "no process of it is on a GPU"
    reasons = (
        unfit_host(host),
        *(_unfit_process(host, each, targets, listed) for each in targets),
        _no_room(host, targets),
    )
    return next((reason for reason in reasons if reason is not None), None)


def pause(
    driver: Driver,
    pids: Sequence[int],
    timeout_ms: int,
    clock: Callable[[], float],
    *,
    memory: ProcessMemory,
    free: FreeMemory,
) -> Deed:
    """Take the processes off their GPUs, or leave all as they were. ``clock`` is monotonic seconds.

    ``memory`` and ``free`` are for the way back of one whose neighbour could not be taken along.
    """
    attempt = _Attempt(driver, pids, clock)
    busy = attempt.not_in(ProcessState.RUNNING)
    if busy is not None:
        return attempt.deed(ok=False, reason=f"nothing was done: {busy}", undone=True)
    try:
        attempt.each("lock", lambda pid: driver.lock(pid, timeout_ms))
        attempt.each("checkpoint", driver.checkpoint)
    except DriverRefused as refused:
        troubles = attempt.undo(memory, free)
        return attempt.broken(f"{refused}", troubles)
    odd = attempt.not_in(ProcessState.CHECKPOINTED)
    return attempt.deed(ok=odd is None, reason=odd or f"{len(pids)} processes checkpointed")


def resume(
    driver: Driver,
    pids: Sequence[int],
    clock: Callable[[], float],
    *,
    memory: ProcessMemory,
    free: FreeMemory,
) -> Deed:
    """Bring the processes back and let them go on; what runs already is left alone.

    Where a GPU has not ``free`` what ``memory`` says they had on it and 1 GiB more, the driver is not asked:
    they stay CHECKPOINTED, lose nothing, and it can be tried again. A restore that the driver itself refuses
    may have lost the process; the outcome says so.
    """
    attempt = _Attempt(driver, pids, clock)
    away = attempt.standing(ProcessState.CHECKPOINTED)
    lacking = no_room(away, memory, free) if away else None
    if lacking is not None:
        return attempt.deed(ok=False, reason=f"nothing was done: {lacking}")
    try:
        attempt.each("restore", driver.restore, only=ProcessState.CHECKPOINTED)
    except DriverRefused as refused:
        lost = f"; {LOST}" if str(refused).startswith("restore") else ""
        return attempt.deed(ok=False, reason=f"{refused}; {attempt.spelt()}{lost}")
    try:
        attempt.each("unlock", driver.unlock, only=ProcessState.LOCKED)
    except DriverRefused as refused:
        return attempt.deed(ok=False, reason=f"{refused}; {attempt.spelt()}")
    odd = attempt.not_in(ProcessState.RUNNING)
    return attempt.deed(ok=odd is None, reason=odd or f"{len(pids)} processes go on")


class _Attempt:
    """One pause or resume under way: what was asked of each process, and how long it took."""

    def __init__(self, driver: Driver, pids: Sequence[int], clock: Callable[[], float]) -> None:
        self._driver, self._pids, self._clock = driver, tuple(pids), clock
        self._seconds: dict[str, float] = {}

    def each(self, phase: str, do: Callable[[int], None], only: ProcessState | None = None) -> None:
        begun = self._clock()
        for pid in self._pids:
            if only is None or self._driver.state(pid) is only:
                do(pid)
        self._seconds[phase] = round(self._clock() - begun, 3)

    def standing(self, state: ProcessState) -> tuple[int, ...]:
        """Those that stand so."""
        return tuple(pid for pid in self._pids if self._state(pid) == state.name.lower())

    def undo(self, memory: ProcessMemory, free: FreeMemory) -> list[str]:
        """Everything back, the last first; what cannot be is named.

        It was there a moment ago: one whose memory is not known is tried, one that does not fit is not.
        """
        troubles = []
        begun = self._clock()
        for pid in reversed(self._pids):
            try:
                if self._driver.state(pid) is ProcessState.CHECKPOINTED:
                    lacking = no_room((pid,), memory, free) if memory.get(pid) else None
                    if lacking is not None:
                        troubles.append(f"process {pid} stays off its GPUs: {lacking}")
                        continue
                    self._driver.restore(pid)
                if self._driver.state(pid) is ProcessState.LOCKED:
                    self._driver.unlock(pid)
            except DriverRefused as refused:
                troubles.append(str(refused))
        self._seconds["undo"] = round(self._clock() - begun, 3)
        return troubles

    def broken(self, refused: str, troubles: Sequence[str]) -> Deed:
        undone = self.not_in(ProcessState.RUNNING) is None
        how = "everything was undone and it runs" if undone else f"it was left so: {self.spelt()}"
        more = "".join(f"; {trouble}" for trouble in troubles)
        return self.deed(ok=False, reason=f"{refused}{more}; {how}", undone=undone)

    def deed(self, *, ok: bool, reason: str, undone: bool = False) -> Deed:
        return Deed(ok=ok, found=reason, undone=undone, states=self._states(), seconds=dict(self._seconds))

    def not_in(self, target: ProcessState) -> str | None:
        """The first process that does not stand where it should, in words."""
        for pid, state in self._states().items():
            if state != target.name.lower():
                return f"process {pid} is {state} and not {target.name.lower()}"
        return None

    def spelt(self) -> str:
        return ", ".join(f"process {pid} {state}" for pid, state in self._states().items())

    def _states(self) -> dict[str, str]:
        return {str(pid): self._state(pid) for pid in self._pids}

    def _state(self, pid: int) -> str:
        try:
            return self._driver.state(pid).name.lower()
        except DriverRefused as refused:
            return f"unknown ({refused})"


def _untried(version: int, drivers: Sequence[int]) -> str:
    """What is missing before jobs are paused under this driver, and how to allow it."""
    tried = ", ".join(map(str, sorted(drivers))) or "none is listed"
    warning = f"; reported of {version}: {TOLD_TO_FAIL[version]}" if version in TOLD_TO_FAIL else ""
    return (
        f"driver {version} is none of those on which checkpoints are known to come back ({tried}){warning}; "
        f"once it was tried here, add {version} to foreign.drivers"
    )


def _served(host: Host, uid: int | None) -> str | None:
    """Whether an account's programs may be clients of a multi-process service of that account's."""
    pids = () if uid is None else host.mps_pids.get(uid, ())
    if not pids:
        return None
    return (
        f"CUDA's multi-process service runs (process {pids[0]}), and a client of it cannot be checkpointed "
        "alone"
    )


def _unfit_process(
    host: Host, target: Target, targets: Sequence[Target], listed: Collection[int]
) -> str | None:
    who, now = f"process {target.pid}", target.now
    if now is None:
        return f"{who} is gone"
    if host.uid not in (0, now.uid):
        return f"{who} is another user's: only root may checkpoint it"
    if (served := _served(host, now.uid)) is not None:
        return served
    part = next((uuid for uuid in target.uuids if uuid.startswith(INSTANCE)), None)
    if part is not None:
        return (
            f"{who} is on {part}: the driver checkpoints nothing on MIG instances (cuda-checkpoint issue 42)"
        )
    if now.traced is not False:
        return f"{who} is being traced" if now.traced else f"whether {who} is being traced is not known"
    return _tied(target, targets, listed, now)


def _tied(
    target: Target, targets: Sequence[Target], listed: Collection[int], now: CheckpointBlocker
) -> str | None:
    """What ties it to others, by the signs that /proc and the driver's lists give."""
    who = f"process {target.pid}"
    elsewhere = any(set(one.uuids) - set(target.uuids) for one in targets if one.pid != target.pid)
    if (target.world_size or "1") != "1" or now.nccl or (now.nccl_library and elsewhere):
        return (
            f"{who} is one of several that speak NCCL: one cannot be checkpointed without breaking the others"
        )
    if not now.descendants_read:
        return (
            f"{who} has more descendants than are looked at ({MOST_DESCENDANTS:,} of a job, within "
            f"{LOOK_LIMIT_S:g} s): what they have of the GPU is not known"
        )
    if None in (now.nccl, now.shared_tensors, now.managed_bytes):
        return f"the memory map of {who} could not be read: what it shares is not known"
    if now.shared_tensors:
        return f"{who} shares GPU memory with other processes, which no checkpoint takes along"
    if (now.managed_bytes or 0) > MANAGED_BYTES:
        return f"{who} uses unified memory ({text.size(now.managed_bytes or 0)}), which stays behind"
    using = {*now.others, *(pid for pid in now.inherited if pid in listed)}
    loose = sorted(using - {one.pid for one in targets})
    if loose:
        return f"{who} has a child with the GPU open (process {loose[0]}) that is not known to be on it"
    return None


def _no_room(host: Host, targets: Sequence[Target]) -> str | None:
    sizes = [target.memory_bytes for target in targets]
    if None in sizes:
        return "how much GPU memory it holds is not known, so neither is whether the host has room for it"
    need = sum(size for size in sizes if size is not None)
    if host.available_bytes is None or host.available_bytes < need + HOST_RESERVE_BYTES:
        free = "unknown" if host.available_bytes is None else text.size(host.available_bytes)
        return f"its {text.size(need)} and 2 GiB to spare do not fit into host memory ({free} available)"
    for target in targets:
        spare_bytes = None if target.now is None else target.now.cgroup_left_bytes
        if spare_bytes is not None and spare_bytes < need:
            return (
                f"its {text.size(need)} do not fit into the memory that its control group may still take "
                f"({text.size(spare_bytes)})"
            )
    return None
