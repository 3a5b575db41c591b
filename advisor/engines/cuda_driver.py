"""The driver's five calls for process checkpoints, through libcuda: sole user of it, and only in a child
process.

The functions of the driver API themselves (cuda.h, "CUDA Checkpointing", since CUDA 12.8), and not
``cuda.core.checkpoint``: that calls no ``cuInit`` and depends on its bindings' version. ``cuInit`` makes no
context and takes no GPU memory.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

from advisor.engines.checkpoint import DriverRefused, ProcessState

LIBRARY = "libcuda.so.1"
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
    """The driver of this machine, ready: ``advisor.engines.checkpoint.Driver``. Raises ``NoDriver``."""

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
        known = self._library.cuGetErrorName(code, ctypes.byref(text)) == SUCCESS
        return (text.value or b"").decode() if known and text.value else f"CUDA error {code}"
