"""The single values of a device, each with the ways to get it, best first. Child only.

A way that the driver refuses for good (not supported, no permission, no such function) is not tried again
until NVML is initialized anew; then the next way is. Most values come in one batched call for fields.
"""

import ctypes
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from collector.nvml.library import REFUSED, SUCCESS, Library
from collector.nvml.wire import MEASURES

FIELD_IDS = {"ecc_corrected": 3, "ecc_uncorrected": 4, "energy_mj": 83, "power_mw": 185}
"""NVML_FI_DEV_*: volatile ECC totals (since the driver was loaded), energy in mJ, power over 1 s in mW."""

SCALARS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("temperature_c", "nvmlDeviceGetTemperature", (0,)),
    ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (1,)),
    ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (2,)),
    ("throttle_reasons", "nvmlDeviceGetCurrentClocksEventReasons", ()),
    ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", ()),
    ("encoder", "nvmlDeviceGetEncoderUtilization", ()),
    ("decoder", "nvmlDeviceGetDecoderUtilization", ()),
    ("jpeg", "nvmlDeviceGetJpgUtilization", ()),
    ("ofa", "nvmlDeviceGetOfaUtilization", ()),
    ("power_mw", "nvmlDeviceGetPowerUsage", ()),
    ("energy_mj", "nvmlDeviceGetTotalEnergyConsumption", ()),
    ("ecc_corrected", "nvmlDeviceGetTotalEccErrors", (0, 0)),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, 0)),
)
"""Measure, function and its arguments before the result; volatile ECC errors, corrected and uncorrected."""

ENGINES = ("encoder", "decoder", "jpeg", "ofa")
"""Their functions take a second result, the period that was sampled."""

SLOT = {name: at for at, name in enumerate(MEASURES)}
_FIELD = struct.Struct("IIqqIiQ")
_WIDTH_MASK = {1: 0xFFFFFFFF, 5: 0xFFFFFFFF, 6: 0xFFFF}
_DOUBLE = 0
_WHOLE = frozenset({2, 3, 4})
"""Kinds whose value fills all its 64 bits: unsigned long, unsigned long long, signed long long."""
_USED = SLOT["memory_used_bytes"]
_MEMORY_1 = struct.Struct("QQQ").unpack_from
_MEMORY_2 = struct.Struct("8xQQQQ").unpack_from
_MEMORY_2_VERSION = 2 << 24 | 40


class Scalar:
    """One function that writes one unsigned number, ready to be called."""

    __slots__ = ("cell", "function", "get", "name", "slot")

    def __init__(
        self, library: Library, handle: Any, name: str, function: str, arguments: tuple[int, ...]
    ) -> None:
        self.name = name
        self.function = function
        self.slot = SLOT[name]
        self.cell = ctypes.c_ulonglong(0)
        period = (ctypes.byref(ctypes.c_uint(0)),) if name in ENGINES else ()
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
        used = _USED
        if self.version == 2:
            code = self._two(self._handle, self._buffer)
            if code == SUCCESS:
                total, reserved, _, taken = _MEMORY_2(self._buffer)
                row[used : used + 3] = taken, reserved, total
                return code
            if code not in REFUSED:
                return code
            self.version = 1
        code = self._one(self._handle, self._buffer)
        if code == SUCCESS:
            total, _, taken = _MEMORY_1(self._buffer)
            row[used : used + 3] = taken, None, total
        return code


def _number(kind: int, value: int) -> int:
    if kind == _DOUBLE:
        return round(float(struct.unpack("d", struct.pack("Q", value))[0]))
    return value & _WIDTH_MASK.get(kind, 0xFFFFFFFFFFFFFFFF)
