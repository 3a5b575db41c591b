"""NVML's functions as prepared pointers, and what its return codes mean to us. Runs in the child only.

The wrappers of nvidia-ml-py allocate and convert at every call, and some of them raise where the driver
only said "nothing new"; so the pointers it has looked up are called here directly, with buffers that are
kept. Codes and names: nvml.h, as nvidia-ml-py 13.615 has them.
"""

from collections.abc import Callable
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
UNKNOWN = 999

REFUSED = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, 25, 26})
"""Answers that stay: not supported, no permission, no such function, struct version mismatch, deprecated."""

LOST = frozenset({GPU_IS_LOST, 16, 28})
"""The GPU is lost, needs a reset, or is not found: its handle must not be used again."""


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
        """What a function that fills a text buffer says, or None."""
        buffer = pynvml.create_string_buffer(128)
        if self.call(name)(*first, buffer, 128) != SUCCESS:
            return None
        return str(buffer.value.decode("utf-8", "replace"))

    def number(self, name: str, *first: Any) -> int | None:
        """What a function that fills an unsigned integer says, or None."""
        cell = pynvml.c_ulonglong(0)
        if self.call(name)(*first, pynvml.byref(cell)) != SUCCESS:
            return None
        return int(cell.value)


def address(handle: Any) -> int:
    """The handle's pointer value: the same for the same device while the library stays initialized."""
    return int(pynvml.cast(handle, pynvml.c_void_p).value or 0)


def _absent(*_: Any) -> int:
    return FUNCTION_NOT_FOUND
