"""The process in which the CUDA driver is asked: ``python -m THIS-MODULE VERB LOCK-TIMEOUT-MS HELD JOB...``.

HELD is JSON: the bytes that each process held on each GPU, by pid and UUID. JOB is a pid, or PID@STARTED-MS:
then the driver is asked as the account of the process's owner (``owners_driver``), and what that account
could make up is checked against NVML's lists.

A child of its own, in a session of its own: a driver that crashes takes nobody with it, and an operation
that was begun is carried to its end even when the service dies meanwhile. Prints one ``Deed`` as JSON.

The driver's five calls go through libcuda, which nobody else loads: they are functions of the driver API
itself (cuda.h, "CUDA Checkpointing", since CUDA 12.8), and not ``cuda.core.checkpoint``: that calls no
``cuInit`` and depends on its bindings' version. ``cuInit`` makes no context and takes no GPU memory.
"""

import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from advisor.engines.cuda_checkpoint import Deed, Driver, DriverRefused, ProcessState, pause, resume
from advisor.engines.gpu_room import ProcessMemory
from advisor.serialize import to_text
from collector.model import GpuUuid

LIBRARY = "libcuda.so.1"
# CUDA_SUCCESS of cuda.h.
SUCCESS = 0
CALLS = ("Lock", "Checkpoint", "Restore", "Unlock", "GetState")


class NoDriver(Exception):
    """There is no CUDA driver here that can checkpoint processes; the message says what was found."""


class _LockArgs(ctypes.Structure):
    """``CUcheckpointLockArgs``: the rest must be zero."""

    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved0", ctypes.c_uint),
        ("reserved1", ctypes.c_uint64 * 7),
    )


ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    "cuCheckpointProcessGetState": (ctypes.c_int, ctypes.POINTER(ctypes.c_int)),
    "cuCheckpointProcessLock": (ctypes.c_int, ctypes.POINTER(_LockArgs)),
    "cuCheckpointProcessCheckpoint": (ctypes.c_int, ctypes.c_void_p),
    "cuCheckpointProcessRestore": (ctypes.c_int, ctypes.c_void_p),
    "cuCheckpointProcessUnlock": (ctypes.c_int, ctypes.c_void_p),
}
"""What each function takes (cuda.h); the arguments of the last three are optional and left out."""


class LibraryDriver:
    """The driver of this machine, ready: ``advisor.engines.cuda_checkpoint.Driver``. Raises ``NoDriver``."""

    def __init__(self) -> None:
        try:
            self._library: Any = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NoDriver(f"{LIBRARY} could not be loaded: {error}") from error
        missing = [name for name in CALLS if not hasattr(self._library, f"cuCheckpointProcess{name}")]
        if missing:
            raise NoDriver(f"{LIBRARY} has no cuCheckpointProcess{missing[0]}: driver 570 or later has")
        for name, arguments in ARGUMENTS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        code = self._library.cuInit(0)
        if code != SUCCESS:
            raise NoDriver(f"cuInit failed: {self._name(code)}")

    def state(self, pid: int) -> ProcessState:
        """Where the process stands. Raises ``DriverRefused``."""
        result = ctypes.c_int(-1)
        self._call("GetState", pid, ctypes.byref(result))
        try:
            return ProcessState(result.value)
        except ValueError as error:
            raise DriverRefused(
                f"process {pid} is in state {result.value}, which means nothing here"
            ) from error

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Make its CUDA calls wait. Raises ``DriverRefused``."""
        self._call("Lock", pid, ctypes.byref(_LockArgs(timeout_ms=timeout_ms)))

    def checkpoint(self, pid: int) -> None:
        """Move its GPU memory to the host. Raises ``DriverRefused``."""
        self._call("Checkpoint", pid, None)

    def restore(self, pid: int) -> None:
        """Bring it back. Raises ``DriverRefused``."""
        self._call("Restore", pid, None)

    def unlock(self, pid: int) -> None:
        """Let its CUDA calls go on. Raises ``DriverRefused``."""
        self._call("Unlock", pid, None)

    def _call(self, name: str, pid: int, argument: Any) -> None:
        code = getattr(self._library, f"cuCheckpointProcess{name}")(pid, argument)
        if code != SUCCESS:
            raise DriverRefused(f"{name.lower()} of process {pid}: {self._name(code)}")

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        status = self._library.cuGetErrorName(code, ctypes.byref(text)) == SUCCESS
        return (text.value or b"").decode() if status and text.value else f"CUDA error {code}"


FREE_MEMORY = "collector.sources.nvml.free_memory"
HELD_MEMORY = "collector.sources.nvml.held_memory"
AS_OWNER = "@"
"""Between a pid and when it started, UTC ms."""
GONE_S, AGAIN_S = 30.0, 0.5
"""A list of processes may be behind what the driver did: within so long the memory had left an H100 (the step
``move`` of tests/gpu, driver 580.159, November 2026)."""
ASK_S = 60.0
"""NVML's first call takes seconds where persistence mode is off; after a minute it is not known."""


def main(argv: Sequence[str]) -> int:
    """Pause, resume, or say the state of processes; 0 whenever a ``Deed`` was printed."""
    verb, timeout_ms, words = argv[0], int(argv[1]), [each.partition(AS_OWNER) for each in argv[3:]]
    pids = tuple(int(pid) for pid, _, _ in words)
    memory = {int(pid): sizes for pid, sizes in json.loads(argv[2]).items()}
    # With a start beside each pid, children with the owners' uids ask the driver (docs/decisions/0079).
    if any(at for _, at, _ in words):
        begun_ms = {int(pid): int(started_ms) for pid, _, started_ms in words}
        deed = _as_owner(verb, timeout_ms, begun_ms, memory)
    else:
        try:
            deed = _do(LibraryDriver(), verb, timeout_ms, pids, memory)
        except NoDriver as error:
            deed = Deed(ok=False, found=str(error), undone=True)
    sys.stdout.write(to_text(deed) + "\n")
    return 0


def _as_owner(verb: str, timeout_ms: int, begun_ms: Mapping[int, int], memory: ProcessMemory) -> Deed:
    from advisor.engines.owners_driver import NobodyAsks, OwnersDriver

    try:
        driver = OwnersDriver(begun_ms)
    except NobodyAsks as error:
        return Deed(ok=False, found=str(error), undone=True)
    try:
        deed = _do(driver, verb, timeout_ms, tuple(begun_ms), memory)
    finally:
        driver.close()
    return checked(deed, begun_ms) if verb == "pause" and deed.ok else deed


def checked(deed: Deed, pids: Collection[int]) -> Deed:
    """What the children of owners called a pause, unless NVML still lists a process that was paused.

    A resume that was none costs its owner alone, so nothing is compared there.
    """
    until_s = time.monotonic() + GONE_S
    while (listed := still_listed(pids)) and time.monotonic() < until_s:
        time.sleep(AGAIN_S)
    if listed is None:
        return replace(deed, ok=False, found="whether it left its GPUs is not known: NVML gives no list")
    if listed:
        return replace(deed, ok=False, found=f"process {listed[0]} was said to be off its GPUs and is on one")
    return deed


def still_listed(pids: Collection[int]) -> Sequence[int] | None:
    """Those that hold memory of a GPU, by NVML in a process of its own; ``None``: not known."""
    command = [sys.executable, "-P", "-m", HELD_MEMORY, "--listed", *map(str, pids)]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=ASK_S
        )
        answer = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return None if answer is None else [int(pid) for pid in answer]


def _do(driver: Driver, verb: str, timeout_ms: int, pids: Sequence[int], memory: ProcessMemory) -> Deed:
    match verb:
        case "pause":
            return pause(driver, pids, timeout_ms, time.monotonic, memory=memory, free=free_memory)
        case "resume":
            return resume(driver, pids, time.monotonic, memory=memory, free=free_memory)
        case "look":
            states = {}
            for pid in pids:
                try:
                    states[str(pid)] = driver.state(pid).name.lower()
                except DriverRefused as refused:
                    states[str(pid)] = f"unknown ({refused})"
            return Deed(ok=True, found="looked", states=states)
        case _:
            raise SystemExit(f"{verb!r} is none of pause, resume, look")


def free_memory(uuids: Collection[GpuUuid]) -> Mapping[GpuUuid, int | None]:
    """Bytes that each GPU has free now, by NVML in a process of its own; ``None`` where it does not say."""
    command = [sys.executable, "-P", "-m", FREE_MEMORY, *uuids]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=ASK_S
        )
        answer = json.loads(result.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return dict.fromkeys(uuids)
    return {uuid: answer.get(uuid) for uuid in uuids}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
