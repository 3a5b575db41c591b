"""What the parent and the child that reads NVML say to each other, and how: marshalled values on a pipe.

Standard library and the list of metrics only, since the child imports it. A frame is a 32-bit little-endian
length and that many bytes of ``marshal``, a fifth of the cost of JSON; both ends are one interpreter, started
by one person, and nobody else holds the pipe. Nothing here knows the driver.
"""

import marshal
import math
import os
import select
import struct
import time
from typing import Any

from collector.metrics import METRICS

PERCENT = tuple(each.name for each in METRICS if each.nvml and each.is_ratio and each.nvml.is_percent)
"""The fields of a sample that are percent here."""
FIELDS = (*PERCENT, *(each.name for each in METRICS if each.nvml and each.name not in PERCENT))
"""The order of the values in a device's row, percent first. ``None`` is not measured."""
MEASURES = tuple(name.removesuffix("_ratio") for name in FIELDS)
"""The same by the names that a row's values have here."""
FIRST_ROW = (
    "gpu_utilization",
    "gpu_utilization_max",
    "gpu_busy",
    "memory_controller",
    "encoder",
    "decoder",
    "graphics_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "memory_used_bytes",
    "memory_reserved_bytes",
    "memory_total_bytes",
    "power_mw",
    "energy_mj",
    "temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttle_reasons",
    "ecc_corrected",
    "ecc_uncorrected",
    "jpeg",
    "ofa",
)
"""The order for a parent that names none: it runs from before an upgrade, and reads rows by place. Not to be
changed."""

_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 16
_LARGEST = 1 << 26
"""64 MiB: no node's answer comes near it, so a larger number is no length."""


class PipeClosed(Exception):
    """The other end is gone."""


class PipeSilent(Exception):
    """The other end said nothing in the time it was given."""


def send(fd: int, message: Any) -> None:
    """Write one frame. Raises PipeClosed."""
    body = marshal.dumps(message)
    frame = memoryview(_LENGTH.pack(len(body)) + body)
    try:
        while frame:
            frame = frame[os.write(fd, frame) :]
    except (BrokenPipeError, ConnectionResetError) as error:
        raise PipeClosed("the pipe is closed") from error


def receive(fd: int, timeout_s: float | None = None) -> Any:
    """Read one frame; blocks for at most ``timeout_s``. Raises PipeClosed or PipeSilent."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    body = _read(fd, deadline)
    while len(body) < _LENGTH.size:
        body += _read(fd, deadline)
    (size,) = _LENGTH.unpack_from(body)
    if size > _LARGEST:
        raise PipeClosed(f"a frame of {size} bytes cannot be one of ours")
    while len(body) < _LENGTH.size + size:
        body += _read(fd, deadline)
    return marshal.loads(memoryview(body)[_LENGTH.size :])


def has_something(fd: int, timeout_s: float) -> bool:
    """Whether there is something to read, or the end, in time; select(2) knows no descriptor over 1023."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(math.ceil(timeout_s * 1000)))


def _read(fd: int, deadline: float | None) -> bytes:
    if deadline is not None:
        remaining = deadline - time.monotonic()
        if not has_something(fd, max(remaining, 0)):
            raise PipeSilent("no answer in time")
    chunk = os.read(fd, _CHUNK)
    if not chunk:
        raise PipeClosed("the pipe is closed")
    return chunk
