"""The driver's ring of sub-second samples: what happened between two ticks, not one instant.

``nvmlDeviceGetSamples`` hands out the samples newer than a timestamp (microseconds of the driver's own
clock); the newest one seen is remembered for each ring, so that no sample counts twice. Child only.
"""

import ctypes
from functools import partial
from typing import Any, NamedTuple

from collector.nvml.library import INSUFFICIENT_SIZE, NOT_FOUND, SUCCESS, Call

GPU, MEMORY_CONTROLLER = 1, 2
_ENTRY_BYTES = 16
_FIRST_ROOM = 256
_DOUBLE = 0
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
    kept = [(t, v) for t, v in zip(stamps, values, strict=True) if t > since_us and v <= 100]
    return [t for t, _ in kept], [v for _, v in kept]


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
        if self._type.value == _DOUBLE:
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
        seen = self._last.value
        if self._silent < _PATIENCE or not seen:
            return None
        self._silent = 0
        self._last.value = 0
        if self._ask() != SUCCESS or not self._count.value or self._newest_held() >= seen:
            self._last.value = seen
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
