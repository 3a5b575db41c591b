"""Process lists and process utilization as the driver hands them out, unjudged. Child only.

Both calls are read into kept buffers that are larger than the driver needs; whether what they say can be
true is decided on the other side (``process_list``), where /proc is at hand.
"""

import ctypes
import struct
from functools import partial
from typing import Any

from collector.nvml.library import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, Call, Library

NOT_AVAILABLE = (1 << 64) - 1
LISTS = (
    ("C", ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")),
    ("G", ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")),
    ("C", ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")),
)
"""Kind and function, newest first. Clients of an MPS server stand in a list of their own."""

_ENTRY = struct.Struct("I4xQII")
_WIDEST_ENTRY_BYTES = 32
"""Drivers R535.43 to .98 write entries of 32 bytes where 24 are documented: never let them overrun."""

_USE = struct.Struct("I4xQI12x")
_FIRST_ROOM = 64
_TRIES = 4
_FUTURE_US = 3_600_000_000
"""A stale entry's timestamp can be garbage too; one from the far future must not silence the rest."""


class Listing:
    """One process list of one device or MIG instance."""

    def __init__(self, call: Call, handle: Any, kind: str) -> None:
        self._call = call
        self._handle = handle
        self._kind = kind
        self._count = ctypes.c_uint(0)
        self._make_room(_FIRST_ROOM)

    def read(self) -> tuple[int, list[tuple[int, int | None, str]]]:
        """(code, entries of pid, memory in bytes or None, kind)."""
        for _ in range(_TRIES):
            self._count.value = self._room
            code = self._get()
            if code != INSUFFICIENT_SIZE:
                break
            self._make_room(max(self._room, self._count.value) * 2 + 5)
        count = self._count.value
        if code != SUCCESS or not count:
            return code, []
        kind = self._kind
        return SUCCESS, [
            (pid, None if memory == NOT_AVAILABLE else memory, kind)
            for pid, memory, _, _ in _ENTRY.iter_unpack(self._raw[: count * _ENTRY.size])
        ]

    def _make_room(self, entries: int) -> None:
        self._room = entries
        buffer = ctypes.create_string_buffer(entries * _WIDEST_ENTRY_BYTES)
        self._raw = memoryview(buffer).cast("B")
        self._get = partial(self._call, self._handle, ctypes.byref(self._count), buffer)


class Uses:
    """The driver's samples of SM use by process, newer than the newest seen."""

    def __init__(self, call: Call, handle: Any) -> None:
        self._call = call
        self._handle = handle
        self._count = ctypes.c_uint(0)
        self._last = ctypes.c_ulonglong(0)
        self._make_room(_FIRST_ROOM)

    def read(self, from_us: int) -> tuple[int, int, list[tuple[int, int, int]]]:
        """(code, after which timestamp, entries of pid, timestamp in us, SM percent).

        Stale entries and those above 100 are garbage and are left out. ``from_us`` is where to start at the
        first call: asking from 0 would average the whole ring. No new entry is no error, and neither is a
        list that grows between two calls.
        """
        after = self._last.value = self._last.value or max(from_us, 0)
        for _ in range(_TRIES):
            self._count.value = self._room
            code = self._get()
            if code != INSUFFICIENT_SIZE:
                break
            self._make_room(max(self._room, self._count.value) * 2 + 5)
        if code == NOT_FOUND:
            return SUCCESS, after, []
        if code != SUCCESS:
            return code, after, []
        entries, newest, limit = [], after, max(after, from_us) + _FUTURE_US
        for pid, stamp, sm in _USE.iter_unpack(self._raw[: self._count.value * _USE.size]):
            if sm <= 100 and after < stamp < limit:
                entries.append((pid, stamp, sm))
                newest = max(newest, stamp)
        self._last.value = newest
        return SUCCESS, after, entries

    def _make_room(self, entries: int) -> None:
        self._room = entries
        buffer = ctypes.create_string_buffer(entries * _USE.size)
        self._raw = memoryview(buffer).cast("B")
        self._get = partial(self._call, self._handle, buffer, ctypes.byref(self._count), self._last)


def first_present(library: Library, names: tuple[str, ...]) -> Call:
    """The newest of these functions that the driver has; the absent one when it has none."""
    return library.call(next((name for name in names if library.has(name)), names[0]))
