"""Where a background job's device has got to, and how long its pieces take there.

A mark is put behind what was launched. On a GPU it is an event in the queue, so the host goes on and asks
later; on a processor all that was launched is done, and a mark is the time. A job may use several devices,
none of which need be the current one: a mark is put on each that a piece ran on.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

LATELY = 8
"""Runs of a piece that count: few, so that a batch that got longer is known after some steps."""

LITTLE_KNOWN = 3
"""A piece with fewer runs is little known: a first run loads kernels and takes a hundred times as long."""

FIRST_S = 0.002
"""What a piece is taken to last before it ran once."""

Mark = Any


class Marks(Protocol):
    """Ends of what was launched so far."""

    def use(self, devices: Collection[torch.device]) -> None:
        """Something is about to be launched on these: marks lie there as well from now on."""

    def mark(self) -> Mark:
        """The end of all that was launched up to now."""

    def is_done(self, mark: Mark) -> bool:
        """Whether all devices have got there."""

    def wait(self, mark: Mark) -> None:
        """Until they have."""

    def between_s(self, earlier: Mark, later: Mark, devices: Collection[torch.device]) -> float | None:
        """Seconds from one to the other on these devices, the later one done: the longest of theirs. None
        where that has no meaning.
        """


@dataclass(frozen=True, slots=True)
class DeviceMark:
    """The host's time, and an event of each device that has a queue."""

    at_s: float
    events: dict[torch.device, Any] = field(default_factory=dict)


class DeviceMarks:
    """Of the devices that pieces were launched on; of the current GPU as long as none was named."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._queues: dict[torch.device, Any] = {}

    def use(self, devices: Collection[torch.device]) -> None:
        """Those that do at once what they are asked, as processors, need no events."""
        for device in devices:
            if device not in self._queues and device.type not in ("cpu", "meta"):
                module = torch.get_device_module(device)
                if hasattr(module, "Event") and hasattr(module, "current_stream"):
                    self._queues[device] = module

    def mark(self) -> DeviceMark:
        """An event of each one's current stream."""
        if not self._queues and torch.cuda.is_initialized():
            self.use([torch.device("cuda", torch.cuda.current_device())])
        mark = DeviceMark(self._now_s())
        for device, module in self._queues.items():
            event = module.Event(enable_timing=True)
            event.record(module.current_stream(device))
            mark.events[device] = event
        return mark

    def is_done(self, mark: DeviceMark) -> bool:
        """The host is not held up."""
        return all(event.query() for event in mark.events.values())

    def wait(self, mark: DeviceMark) -> None:
        """The host turns meanwhile: sleeping would cost more than what is waited for."""
        for event in mark.events.values():
            event.synchronize()

    def between_s(
        self, earlier: DeviceMark, later: DeviceMark, devices: Collection[torch.device]
    ) -> float | None:
        """By the devices' own clocks; by the host's where none of them has a queue."""
        own = [device for device in devices or later.events if device in self._queues]
        if not own:
            known = devices or earlier.events.keys() == later.events.keys()
            return later.at_s - earlier.at_s if known else None
        lasted_s = []
        for device in own:
            began, ended = earlier.events.get(device), later.events.get(device)
            if began is None or ended is None or not began.query():
                return None  # of before its first use, or of another stream
            lasted_s.append(float(began.elapsed_time(ended)) / 1000)
        return max(lasted_s)


class Piece:
    """How long one piece usually takes: its upper quartile of late, so that a stray run counts for nothing.

    Its longest run would not do: one that met the foreground lasts as long as the foreground's work.
    ``middle_s`` is the median, 0 before it was measured: what the piece is counted as. ``devices`` are those
    that it was launched on last.
    """

    __slots__ = ("_lately", "devices", "middle_s", "runs", "usual_s")

    def __init__(self) -> None:
        self._lately: deque[float] = deque(maxlen=LATELY)
        self.devices: Collection[torch.device] = ()
        self.runs = 0
        self.usual_s = FIRST_S
        self.middle_s = 0.0

    @property
    def is_little_known(self) -> bool:
        """Whether it ran so seldom that its usual length may be that of a first use."""
        return len(self._lately) < LITTLE_KNOWN

    @property
    def lately_s(self) -> tuple[float, ...]:
        """Its last measured runs, in seconds."""
        return tuple(self._lately)

    def lasted(self, seconds: float) -> None:
        """A run was measured."""
        self._lately.append(seconds)
        longest_first = sorted(self._lately, reverse=True)
        self.middle_s = longest_first[len(longest_first) // 2]
        if len(longest_first) < LITTLE_KNOWN:
            self.usual_s = longest_first[-1]
        else:
            self.usual_s = longest_first[max(1, len(longest_first) // 4)]
