"""Process lists and process utilization as the driver hands them out, unjudged. Child only.

Both calls are read into kept buffers that are larger than the driver needs; whether what they say can be
true is decided on the other side (``process_list``), where /proc is at hand.

How much of the SMs' time each process had, from the driver's samples. Pure; runs in the child.

There can be several samples for one pid, and samples of processes that have ended: which of them are believed
is decided in ``process_list``.
"""

import ctypes
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from collector.sources.nvml.library import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, Call, Library

NOT_AVAILABLE = (1 << 64) - 1
"""NVML's ``NVML_VALUE_NOT_AVAILABLE`` as the unsigned number that it is in a list."""
LISTS = (
    ("C", ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")),
    ("G", ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")),
    ("M", ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")),
)
"""Kind and function, newest first. Clients of an MPS server stand in a list of their own, as kind M."""

_ENTRY = struct.Struct("I4xQII")
_WIDEST_ENTRY_BYTES = 32
"""Drivers R535.43 to .98 write entries of 32 bytes where 24 are documented: never let them overrun."""

_USE = struct.Struct("I4xQI12x")
"""``nvmlProcessUtilizationSample_t``: pid, timestamp in us, SM percent; three more after it."""
_USE_V1 = struct.Struct("QII24x")
"""``nvmlProcessUtilizationInfo_v1_t``: timestamp in us, pid, SM percent; five more and padding after it."""
USES = (
    ("nvmlDeviceGetProcessUtilization", False),
    ("nvmlDeviceGetProcessesUtilizationInfo", True),
)
"""Function, and whether it takes a request with a version; asked in this order. Blackwell boards answer
NOT_SUPPORTED to the first and give the second (HAMi-core pull request 218, RTX PRO 6000). It came with driver
550, for Maxwell and later, neither on MIG (NVML API reference, nvmlDeviceGetProcessesUtilizationInfo)."""
_FIRST_ROOM = 64
"""Processes of a GPU at first; the driver says when it needs more."""
_TRIES = 4
"""The list may grow between two calls; who grows it each time is left until the next look."""
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
        """(code, entries of pid, memory in bytes or None, kind).

        0 bytes is not known: a process with a context holds some, and in a container's pid namespace drivers
        say 0 of every process (HAMi-core issue 112, open-gpu-kernel-modules issue 614).
        """
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
            (pid, None if memory in (0, NOT_AVAILABLE) else memory, kind)
            for pid, memory, _, _ in _ENTRY.iter_unpack(self._raw[: count * _ENTRY.size])
        ]

    def _make_room(self, entries: int) -> None:
        self._room = entries
        buffer = ctypes.create_string_buffer(entries * _WIDEST_ENTRY_BYTES)
        self._raw = memoryview(buffer).cast("B")
        self._get = partial(self._call, self._handle, ctypes.byref(self._count), buffer)


class _UsesRequest(ctypes.Structure):
    """``nvmlProcessesUtilizationInfo_v1_t``."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("last_seen_us", ctypes.c_ulonglong),
        ("entries", ctypes.c_void_p),
    )


_USES_VERSION = ctypes.sizeof(_UsesRequest) | 1 << 24
"""As NVML makes them: the struct's size, and the version's number in the highest byte."""


class Uses:
    """The driver's samples of SM use by process, newer than the newest seen.

    ``versioned`` for the newer function, which takes all its arguments in one struct.
    """

    def __init__(self, call: Call, handle: Any, *, versioned: bool = False) -> None:
        self._call = call
        self._handle = handle
        self._versioned = versioned
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
            code = self._ask()
            if code != INSUFFICIENT_SIZE:
                break
            self._make_room(max(self._room, self._count.value) * 2 + 5)
        if code == NOT_FOUND:
            return SUCCESS, after, []
        if code != SUCCESS:
            return code, after, []
        entries, newest, limit = [], after, max(after, from_us) + _FUTURE_US
        for pid, stamp, sm in self._unpacked():
            if sm <= 100 and after < stamp < limit:
                entries.append((pid, stamp, sm))
                newest = max(newest, stamp)
        self._last.value = newest
        return SUCCESS, after, entries

    def _ask(self) -> int:
        if not self._versioned:
            self._count.value = self._room
            return self._call(self._handle, self._buffer, ctypes.byref(self._count), self._last)
        request = _UsesRequest(_USES_VERSION, self._room, self._last.value, ctypes.addressof(self._buffer))
        code = self._call(self._handle, ctypes.byref(request))
        self._count.value = request.count
        return code

    def _unpacked(self) -> Iterator[tuple[int, int, int]]:
        if not self._versioned:
            return _USE.iter_unpack(self._raw[: self._count.value * _USE.size])
        entries = _USE_V1.iter_unpack(self._raw[: self._count.value * _USE_V1.size])
        return ((pid, stamp, sm) for stamp, pid, sm in entries)

    def _make_room(self, entries: int) -> None:
        self._room = entries
        self._buffer = ctypes.create_string_buffer(entries * (_USE_V1 if self._versioned else _USE).size)
        self._raw = memoryview(self._buffer).cast("B")


def first_present(library: Library, names: tuple[str, ...]) -> Call:
    """The newest of these functions that the driver has; the absent one when it has none."""
    return library.call(next((name for name in names if library.has(name)), names[0]))


Use = tuple[int, int, int]
"""pid, timestamp in us, SM percent."""


def shares(uses: Iterable[Use], after_us: int) -> list[tuple[int, float]]:
    """(pid, SM percent): the mean over time of the samples, all of them newer than ``after_us``.

    A pid without a sample is missing from the result: not measured.
    """
    series: dict[int, list[tuple[int, int]]] = {}
    for pid, stamp, percent in uses:
        series.setdefault(pid, []).append((stamp, percent))
    return [(pid, mean_over_time(points, after_us)) for pid, points in series.items()]


def mean_over_time(points: Sequence[tuple[int, int]], after_us: int) -> float:
    """Each (timestamp, value) stands for the time since the one before it, the first since ``after_us``."""
    if len(points) == 1:
        return points[0][1]
    weighted, before = 0, after_us
    for stamp, value in sorted(points):
        weighted += value * (stamp - before)
        before = stamp
    return weighted / (before - after_us)
