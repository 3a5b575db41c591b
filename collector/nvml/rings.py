"""The driver's ring of sub-second samples: what happened between two ticks, not one instant.

``nvmlDeviceGetSamples`` hands out the samples newer than a timestamp (microseconds of the driver's own
clock); the newest one seen is remembered for each ring, so that no sample counts twice. Child only.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

from collector.nvml.library import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, Call

GPU, MEMORY_CONTROLLER = 1, 2
_ENTRY_BYTES = 16
_FIRST_ROOM = 256
_DOUBLE = 0
_PATIENCE = 6
_GAP_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Mean and maximum in percent and the share of samples above zero, over what a ring held.

    ``partial`` says that samples were overwritten before they were read: the ring is shorter than the tick.
    """

    mean: float
    highest: int
    busy: float
    partial: bool


def summarize(stamps: list[int], values: list[int], after_us: int, width_us: int) -> Window | None:
    """Over the samples newer than ``after_us``, or, when that is 0, over the newest ``width_us`` of them.

    Values above 100 are not percentages and are left out; None when nothing remains.
    """
    since = after_us or max(stamps) - width_us
    if min(stamps) <= since or max(values) > 100:
        kept = [(t, v) for t, v in zip(stamps, values, strict=True) if t > since and v <= 100]
        if not kept:
            return None
        stamps, values = [t for t, _ in kept], [v for _, v in kept]
    count = len(values)
    spacing = (stamps[-1] - stamps[0]) // (count - 1) if count > 1 else 0
    late = after_us > 0 and count > 1 and stamps[0] - after_us > 2 * spacing + _GAP_US
    return Window(
        mean=sum(values) / count,
        highest=max(values),
        busy=1 - values.count(0) / count,
        partial=late,
    )


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
        if code == NOT_FOUND or (code == SUCCESS and self._count.value == 0):
            return SUCCESS, self._look_again(width_us)
        if code != SUCCESS:
            return code, None
        return SUCCESS, self._window(after, width_us)

    def _window(self, after: int, width_us: int) -> Window | None:
        stamps, values = self._held()
        self._silent = 0
        self._last.value = max(stamps)
        return summarize(stamps, values, after, width_us)

    def _look_again(self, width_us: int) -> Window | None:
        """After several empty reads: the driver's clock may have been set back behind our timestamp."""
        self._silent += 1
        seen = self._last.value
        if self._silent < _PATIENCE or not seen:
            return None
        self._silent = 0
        self._last.value = 0
        if self._ask() != SUCCESS or not self._count.value or max(self._held()[0]) >= seen:
            self._last.value = seen
            return None
        return self._window(0, width_us)

    def _ask(self) -> int:
        for _ in range(3):
            self._count.value = self._room
            code = self._call(self._handle, self._kind, self._last, *self._out)
            if code != INSUFFICIENT_SIZE:
                return code
            self._make_room(self._room * 4)
        return code

    def _held(self) -> tuple[list[int], list[int]]:
        count = self._count.value
        stamps = self._longs[0 : 2 * count : 2].tolist()
        if self._type.value == _DOUBLE:
            return stamps, [round(value) for value in self._doubles[1 : 2 * count : 2]]
        return stamps, self._words[2 : 4 * count : 4].tolist()

    def _make_room(self, entries: int) -> None:
        self._room = entries
        buffer = ctypes.create_string_buffer(entries * _ENTRY_BYTES)
        raw = memoryview(buffer).cast("B")
        self._longs, self._words, self._doubles = raw.cast("Q"), raw.cast("I"), raw.cast("d")
        self._out = (ctypes.byref(self._type), ctypes.byref(self._count), buffer)
