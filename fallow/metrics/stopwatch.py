"""How long this worker computes in a step: from its beginning until it can but wait for others.

A GPU works on after its kernels were launched, so there the time between two events on its stream counts.
"""

import time
from typing import Any

import torch


class Stopwatch:
    """Started and stopped once a step; on a GPU ``seconds`` is known once the step's sum has been read."""

    def __init__(self, device: torch.device):
        self._device = device
        self._events: tuple[Any, Any] | None = None
        if device.type == "cuda":
            self._events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        self._began_s = self._took_s = 0.0

    def start(self) -> None:
        """The step begins."""
        self._began_s = time.perf_counter()
        if self._events is not None:
            self._events[0].record(torch.cuda.current_stream(self._device))

    def stop(self) -> None:
        """This worker's part is done."""
        self._took_s = time.perf_counter() - self._began_s
        if self._events is not None:
            self._events[1].record(torch.cuda.current_stream(self._device))

    def seconds(self) -> float:
        """What the last start and stop were apart; blocks on a GPU until the second was reached."""
        if self._events is None:
            return self._took_s
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) / 1000
