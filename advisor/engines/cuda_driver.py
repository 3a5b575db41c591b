"""The driver's five calls for process checkpoints, through libcuda: sole user of it, and only in a child
process.

``cuda.core.checkpoint`` is used where it is installed, else the same functions of the driver API directly
(cuda.h, "CUDA Checkpointing", since CUDA 12.8). ``cuInit`` makes no context and takes no GPU memory.
"""

import ctypes
import importlib
from typing import Any

from advisor.engines.checkpoint import Driver, DriverRefused, ProcessState

LIBRARY = "libcuda.so.1"
SUCCESS = 0
CALLS = ("Lock", "Checkpoint", "Restore", "Unlock", "GetState")


class NoDriver(Exception):
    """There is no CUDA driver here that can checkpoint processes; the message says what was found."""


def open_driver() -> Driver:
    """The driver of this machine, ready. Raises ``NoDriver``."""
    try:
        checkpoint = importlib.import_module("cuda.core.checkpoint")
    except ImportError:
        return LibraryDriver()
    return CoreDriver(checkpoint)


class _LockArgs(ctypes.Structure):
    """``CUcheckpointLockArgs``: the rest must be zero."""

    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved0", ctypes.c_uint),
        ("reserved1", ctypes.c_uint64 * 7),
    )


class LibraryDriver:
    """The driver API itself."""

    def __init__(self) -> None:
        try:
            self._library: Any = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NoDriver(f"{LIBRARY} could not be loaded: {error}") from error
        missing = [name for name in CALLS if not hasattr(self._library, f"cuCheckpointProcess{name}")]
        if missing:
            raise NoDriver(f"{LIBRARY} has no cuCheckpointProcess{missing[0]}: driver 570 or later has")
        code = self._library.cuInit(0)
        if code != SUCCESS:
            raise NoDriver(f"cuInit failed: {self._name(code)}")

    def state(self, pid: int) -> ProcessState:
        """Where the process stands. Raises ``DriverRefused``."""
        found = ctypes.c_int(-1)
        self._call("GetState", pid, ctypes.byref(found))
        try:
            return ProcessState(found.value)
        except ValueError as error:
            raise DriverRefused(
                f"process {pid} is in state {found.value}, which means nothing here"
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
        code = getattr(self._library, f"cuCheckpointProcess{name}")(ctypes.c_int(pid), argument)
        if code != SUCCESS:
            raise DriverRefused(f"{name.lower()} of process {pid}: {self._name(code)}")

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        known = self._library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text)) == SUCCESS
        return (text.value or b"").decode() if known and text.value else f"CUDA error {code}"


class CoreDriver:
    """The same through ``cuda.core.checkpoint``."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def state(self, pid: int) -> ProcessState:
        """Where the process stands. Raises ``DriverRefused``."""
        name = self._do("state", pid, lambda process: process.state)
        try:
            return ProcessState[str(name).upper()]
        except KeyError as error:
            raise DriverRefused(f"process {pid} is {name!r}, which means nothing here") from error

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Make its CUDA calls wait. Raises ``DriverRefused``."""
        self._do("lock", pid, lambda process: process.lock(timeout_ms=timeout_ms))

    def checkpoint(self, pid: int) -> None:
        """Move its GPU memory to the host. Raises ``DriverRefused``."""
        self._do("checkpoint", pid, lambda process: process.checkpoint())

    def restore(self, pid: int) -> None:
        """Bring it back. Raises ``DriverRefused``."""
        self._do("restore", pid, lambda process: process.restore())

    def unlock(self, pid: int) -> None:
        """Let its CUDA calls go on. Raises ``DriverRefused``."""
        self._do("unlock", pid, lambda process: process.unlock())

    def _do(self, name: str, pid: int, call: Any) -> Any:
        try:
            return call(self._module.Process(pid))
        except Exception as error:  # cuda.core raises CUDAError, RuntimeError and ValueError alike
            raise DriverRefused(f"{name} of process {pid}: {error}") from error
