"""The single values of a device, each with the ways to get it, best first. Child only.

A way that the driver refuses for good (not supported, no permission, no such function) is not tried again
until NVML is initialized anew; then the next way is. Most values come in one batched call for fields.

GPM (Hopper and later): how much of the SMs, tensor cores and memory was active between two samples.

The driver keeps the counters in samples that we hold; a metric is computed from two of them. Windows under
0.1 s give wild values (vendor's note at ``nvmlGpmMetricsGet``) and are skipped. Child only.

The driver's ring of sub-second samples: what happened between two ticks, not one instant.

``nvmlDeviceGetSamples`` hands out the samples newer than a timestamp (microseconds of the driver's own
clock); the newest one seen is remembered for each ring, so that no sample counts twice. Child only.
"""

import ctypes
import math
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pynvml

from collector.metrics import METRICS
from collector.sources.nvml.library import (
    INSUFFICIENT_SIZE,
    NOT_FOUND,
    NOT_SUPPORTED,
    REFUSED,
    SUCCESS,
    Call,
    Library,
)
from collector.sources.nvml.wire import MEASURES

_ASKED = {each.short: each.nvml for each in METRICS if each.nvml}
FIELD_IDS = {name: way.field_id for name, way in _ASKED.items() if way.field_id is not None}
SCALARS = tuple((name, *call, way.has_period) for name, way in _ASKED.items() for call in way.calls)
"""Measure, function, its arguments before the result, and whether there is a second result."""

SLOT = {name: at for at, name in enumerate(MEASURES)}
_FIELD = struct.Struct("IIqqIiQ")
_WIDTH_MASK = {1: 0xFFFFFFFF, 5: 0xFFFFFFFF, 6: 0xFFFF}
_DOUBLE = 0
_WHOLE = frozenset({2, 3, 4})
"""Kinds whose value fills all its 64 bits: unsigned long, unsigned long long, signed long long."""
_USED, _RESERVED, _TOTAL = (SLOT[f"memory_{part}_bytes"] for part in ("used", "reserved", "total"))
_MEMORY_1 = struct.Struct("QQQ").unpack_from
_MEMORY_2 = struct.Struct("8xQQQQ").unpack_from
_MEMORY_2_VERSION = 2 << 24 | 40


class Scalar:
    """One function that writes one unsigned number, ready to be called."""

    __slots__ = ("cell", "function", "get", "name", "slot")

    def __init__(
        self,
        library: Library,
        handle: Any,
        name: str,
        function: str,
        arguments: tuple[int, ...],
        *,
        has_period: bool,
    ) -> None:
        self.name = name
        self.function = function
        self.slot = SLOT[name]
        self.cell = ctypes.c_ulonglong(0)
        period = (ctypes.byref(ctypes.c_uint(0)),) if has_period else ()
        self.get = partial(library.call(function), handle, *arguments, ctypes.byref(self.cell), *period)


class Fields:
    """The batched call: one round into the driver for several values."""

    def __init__(self, library: Library, handle: Any, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._slots = [SLOT[name] for name in self.names]
        self._buffer = ctypes.create_string_buffer(max(len(self.names), 1) * _FIELD.size)
        self._raw = memoryview(self._buffer).cast("B")
        for at, name in enumerate(self.names):
            _FIELD.pack_into(self._buffer, at * _FIELD.size, FIELD_IDS[name], 0, 0, 0, 0, 0, 0)
        ask = library.call("nvmlDeviceGetFieldValues")
        self._get = partial(ask, handle, len(self.names), self._buffer)

    def read(self, row: list[Any]) -> tuple[int, list[tuple[str, int]]]:
        """Fill the row; (the call's code, the fields that failed with their codes)."""
        if not self.names:
            return SUCCESS, []
        code = self._get()
        if code != SUCCESS:
            return code, [(name, code) for name in self.names]
        failed = []
        for slot, (_, _, _, _, kind, status, value) in zip(
            self._slots, _FIELD.iter_unpack(self._raw), strict=False
        ):
            if status == SUCCESS:
                row[slot] = value if kind in _WHOLE else _number(kind, value)
            else:
                failed.append((MEASURES[slot], status))
        return SUCCESS, failed


class Memory:
    """Used, reserved and total: version 2, else version 1, which counts the reserved part as used."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._handle = handle
        self._two = library.call("nvmlDeviceGetMemoryInfo_v2")
        self._one = library.call("nvmlDeviceGetMemoryInfo")
        self.version = 2
        self._buffer = ctypes.create_string_buffer(40)
        struct.pack_into("I", self._buffer, 0, _MEMORY_2_VERSION)

    def read(self, row: list[Any]) -> int:
        """Fill the row; the code."""
        if self.version == 2:
            code = self._two(self._handle, self._buffer)
            if code == SUCCESS:
                total, reserved, _, used = _MEMORY_2(self._buffer)
                row[_USED], row[_RESERVED], row[_TOTAL] = used, reserved, total
                return code
            if code not in REFUSED:
                return code
            self.version = 1
        code = self._one(self._handle, self._buffer)
        if code == SUCCESS:
            total, _, used = _MEMORY_1(self._buffer)
            row[_USED], row[_RESERVED], row[_TOTAL] = used, None, total
        return code


def _number(kind: int, value: int) -> int:
    if kind == _DOUBLE:
        return round(float(struct.unpack("d", struct.pack("Q", value))[0]))
    return value & _WIDTH_MASK.get(kind, 0xFFFFFFFFFFFFFFFF)


GPM = {name: way.gpm for name, way in _ASKED.items() if way.gpm is not None}
"""The measures that GPM has, all in percent, with its number for each."""

SHORTEST_US = 100_000
_METRIC = struct.Struct("Iid24x")
_HEADER_BYTES = 24


def is_supported(library: Library, handle: Any) -> int:
    """SUCCESS when the device has GPM, else the code that says why not."""
    support = pynvml.c_nvmlGpmSupport_t()
    support.version = pynvml.NVML_GPM_SUPPORT_VERSION
    code = library.call("nvmlGpmQueryDeviceSupport")(handle, pynvml.byref(support))
    if code != SUCCESS:
        return code
    return SUCCESS if support.isSupportedDevice else NOT_SUPPORTED


def open_gpm(library: Library, handle: Any, gpu_instance: int | None = None) -> "Gpm | int":
    """GPM for this device, or the code with which the driver refused room for its samples."""
    try:
        return Gpm(library, handle, gpu_instance)
    except pynvml.NVMLError as error:
        return int(error.value)


class Gpm:
    """The two samples of one device, or of one GPU instance when ``gpu_instance`` is given."""

    def __init__(self, library: Library, handle: Any, gpu_instance: int | None = None) -> None:
        self._get = library.call("nvmlGpmSampleGet" if gpu_instance is None else "nvmlGpmMigSampleGet")
        self._first = (handle,) if gpu_instance is None else (handle, gpu_instance)
        self._metrics = library.call("nvmlGpmMetricsGet")
        self._free = library.call("nvmlGpmSampleFree")
        self._samples = [pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()]
        self._sampled_us: int | None = None
        self._request = _request()
        self._raw = memoryview(self._request).cast("B")

    def read(self, now_us: int) -> tuple[int, list[float | None] | None]:
        """(code, percent for each of GPM); no values at the first call or in too short a window."""
        elapsed = None if self._sampled_us is None else now_us - self._sampled_us
        if elapsed is not None and 0 <= elapsed < SHORTEST_US:
            return SUCCESS, None
        older, newer = self._samples
        code = self._get(*self._first, newer)
        if code != SUCCESS:
            self._sampled_us = None
            return code, None
        self._samples = [newer, older]
        self._sampled_us = now_us
        if elapsed is None or elapsed < 0:
            return SUCCESS, None
        self._request.sample1, self._request.sample2 = older, newer
        code = self._metrics(ctypes.byref(self._request))
        return code, self._values() if code == SUCCESS else None

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in self._samples:
            self._free(sample)
        self._samples = []

    def _values(self) -> list[float | None]:
        end = _HEADER_BYTES + len(GPM) * _METRIC.size
        return [
            value if code == SUCCESS and math.isfinite(value) else None
            for _, code, value in _METRIC.iter_unpack(self._raw[_HEADER_BYTES:end])
        ]


def _request() -> Any:
    """Room for our metrics alone: the driver touches ``numMetrics`` of them, and the whole array is 23 kB."""

    class Request(ctypes.Structure):
        _fields_ = (
            ("version", ctypes.c_uint),
            ("numMetrics", ctypes.c_uint),
            ("sample1", pynvml.c_nvmlGpmSample_t),
            ("sample2", pynvml.c_nvmlGpmSample_t),
            ("metrics", pynvml.c_nvmlGpmMetric_t * len(GPM)),
        )

    request = Request(version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(GPM))
    for slot, metric in zip(request.metrics, GPM.values(), strict=True):
        slot.metricId = metric
    return request


GPU, MEMORY_CONTROLLER = 1, 2
_ENTRY_BYTES = 16
_FIRST_ROOM = 256
_DOUBLE_RINGS = 0
_PATIENCE = 6
_GAP_US = 1_000_000


class Window(NamedTuple):
    """Mean and maximum in percent, over the values that a ring held.

    ``partial`` says that samples were overwritten before they were read: the ring is shorter than the tick.
    """

    mean: float
    highest: int
    values: list[int]
    partial: bool

    @property
    def busy(self) -> float:
        """The share of samples above zero."""
        return 1 - self.values.count(0) / len(self.values)


def believable(stamps: list[int], values: list[int], since_us: int) -> tuple[list[int], list[int]]:
    """The samples newer than ``since_us`` with values that are percentages."""
    samples = [(t, v) for t, v in zip(stamps, values, strict=True) if t > since_us and v <= 100]
    return [t for t, _ in samples], [v for _, v in samples]


def summarize(oldest_us: int, newest_us: int, values: list[int], highest: int, after_us: int) -> Window:
    """Over at least one value, all of them percentages, sampled between two timestamps.

    ``after_us`` is the newest sample seen before, 0 when there was none.
    """
    count = len(values)
    late = False
    if count > 1 and after_us > 0:
        late = oldest_us - after_us > 2 * (newest_us - oldest_us) // (count - 1) + _GAP_US
    return Window(sum(values) / count, highest, values, late)


class Ring:
    """One ring of one device; ``read`` answers (code, what it held since the last read)."""

    def __init__(self, get_samples: Call, handle: Any, kind: int) -> None:
        self._call = get_samples
        self._handle = handle
        self._kind = kind
        self._type = ctypes.c_uint(0)
        self._count = ctypes.c_uint(0)
        self._last = ctypes.c_ulonglong(0)
        self._silent = 0
        self._make_room(_FIRST_ROOM)

    @property
    def newest_us(self) -> int:
        """Timestamp of the newest sample seen, 0 before the first."""
        return self._last.value

    def read(self, width_us: int) -> tuple[int, Window | None]:
        """What is new; (SUCCESS, None) when nothing is. Sets nothing when the driver refuses."""
        after = self._last.value
        code = self._ask()
        count = self._count.value
        if code == SUCCESS and count:
            return SUCCESS, self._window(count, after, width_us)
        if code in (SUCCESS, NOT_FOUND):
            return SUCCESS, self._look_again(width_us)
        return code, None

    def _window(self, count: int, after: int, width_us: int) -> Window | None:
        """The driver hands samples out oldest first and newer than asked; else they are sorted out here."""
        values = self._words[2 : 4 * count : 4].tolist()
        if self._type.value == _DOUBLE_RINGS:
            values = [round(value) for value in self._doubles[1 : 2 * count : 2]]
        last = 2 * count - 2
        oldest, newest, highest = self._longs[0], self._longs[last], max(values)
        since = after or newest - width_us
        self._silent = 0
        self._last.value = newest
        if since < oldest <= newest and highest <= 100:
            return summarize(oldest, newest, values, highest, after)
        stamps, values = believable(self._longs[0 : last + 1 : 2].tolist(), values, since)
        self._last.value = max(stamps, default=newest)
        return summarize(stamps[0], stamps[-1], values, max(values), after) if values else None

    def _look_again(self, width_us: int) -> Window | None:
        """After several empty reads: the driver's clock may have been set back behind our timestamp."""
        self._silent += 1
        value = self._last.value
        if self._silent < _PATIENCE or not value:
            return None
        self._silent = 0
        self._last.value = 0
        if self._ask() != SUCCESS or not self._count.value or self._newest_held() >= value:
            self._last.value = value
            return None
        return self._window(self._count.value, 0, width_us)

    def _ask(self) -> int:
        self._count.value = self._room
        code = self._get()
        for _ in range(2):
            if code != INSUFFICIENT_SIZE:
                break
            self._make_room(self._room * 4)
            self._count.value = self._room
            code = self._get()
        return code

    def _newest_held(self) -> int:
        return max(self._longs[0 : 2 * self._count.value : 2].tolist())

    def _make_room(self, entries: int) -> None:
        self._room = entries
        buffer = ctypes.create_string_buffer(entries * _ENTRY_BYTES)
        raw = memoryview(buffer).cast("B")
        self._longs, self._words, self._doubles = raw.cast("Q"), raw.cast("I"), raw.cast("d")
        out = (ctypes.byref(self._type), ctypes.byref(self._count), buffer)
        self._get = partial(self._call, self._handle, self._kind, self._last, *out)
