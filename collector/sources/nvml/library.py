"""NVML's functions as prepared pointers, and what its return codes mean to us. Runs in the child only.

The wrappers of nvidia-ml-py allocate and convert at every call, and some of them raise where the driver
only said "nothing new"; so the pointers it has looked up are called here directly, with buffers that are
kept. Codes and names: nvml.h, as nvidia-ml-py 13.615 has them.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

Call = Callable[..., int]

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
VERSIONS_DIFFER = 18
UNKNOWN = 999
NAMELESS = -1
"""Ours, no code of NVML's: a device told neither a UUID nor a bus id that can be read."""

REFUSED = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, 25, 26})
"""Answers that stay: not supported, no permission, no such function, struct version mismatch, deprecated."""

LOST = frozenset({GPU_IS_LOST, 16, 28})
"""The GPU is lost, needs a reset, or is not found: its handle must not be used again."""


_KERNEL_MODULE = Path("/sys/module/nvidia/version")
"""The version of the module that is loaded, which may be older than the one on the disk."""
_LIBRARY_FILE = re.compile(r"/libnvidia-ml\.so\.(\d+(?:\.\d+)+)$", re.MULTILINE)
"""The library's file bears the driver's version in its name, and so stands in the list of what is mapped."""


class Unusable(Exception):
    """NVML could not be initialized, or has to be initialized again; holds the call and its code."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {code}")
        self.call = call
        self.code = code


class Library:
    """The driver's library, initialized once in this process. Raises Unusable."""

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unusable("nvmlInit", int(error.value)) from error

    def call(self, name: str) -> Call:
        """The function, or one that answers FUNCTION_NOT_FOUND when this driver is too old to have it."""
        try:
            pointer: Call = pynvml._nvmlGetFunctionPointer(name)
        except pynvml.NVMLError:
            return _absent
        return pointer

    def has(self, name: str) -> bool:
        """Whether this driver has the function."""
        return self.call(name) is not _absent

    def text(self, name: str, *first: Any) -> str | None:
        """What a function that fills a text buffer says, or None; also where that is no text."""
        buffer = pynvml.create_string_buffer(128)
        if self.call(name)(*first, buffer, 128) != SUCCESS:
            return None
        return readable(buffer.value)

    def number(self, name: str, *first: Any) -> int | None:
        """What a function that fills an unsigned integer says, or None."""
        cell = pynvml.c_ulonglong(0)
        if self.call(name)(*first, pynvml.byref(cell)) != SUCCESS:
            return None
        return int(cell.value)


def readable(raw: bytes) -> str | None:
    """What the driver wrote, or None where it is no text.

    Drivers 555 under WSL fill strings with bytes that mean nothing (gpustat issue 170, nvitop issue 127).
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if text and text.isprintable() else None


def both_versions(
    kernel: Path = _KERNEL_MODULE, maps: Path = Path("/proc/self/maps")
) -> dict[str, str | None]:
    """The driver's version as the loaded library has it, and as the loaded kernel module has; None: not told.

    NVML itself tells none where the two differ.
    """
    match = _LIBRARY_FILE.search(_said(maps))
    return {"library": None if match is None else match[1], "kernel": _said(kernel).strip() or None}


def _said(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def address(handle: Any) -> int:
    """The handle's pointer value: the same for the same device while the library stays initialized."""
    return int(pynvml.cast(handle, pynvml.c_void_p).value or 0)


def _absent(*_: Any) -> int:
    return FUNCTION_NOT_FOUND
