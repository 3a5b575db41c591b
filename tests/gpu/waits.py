"""How often the host waits for the device in a step, and how much oftener than in a plain loop's.

Torch's warnings of ``set_sync_debug_mode`` would not do: they tell of a number that is read and of no event
that is waited for, which is how a step of ``fallow`` waits. So CUDA's own calls are counted, by a profile.
"""

from collections.abc import Iterable
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, at_most

WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize")
"""CUDA's calls in which the host waits, as torch's profiler names them: a number that is read and a copy that
blocks end in the first, an event that is waited for in the second."""


class Counting:
    """Entered and left once a step: counts the waits of those from ``first`` on and before ``until``.

    By the pretend device's own count, or by a profile on a GPU: that takes time, so steps that warm up are
    counted and none that is timed. A profile's own waits, when it starts and ends, are the same in any loop.
    """

    def __init__(self, first: int, until: int) -> None:
        self._first, self._until = first, until
        self._step, self._waits = -1, 0
        self._profile: Any = None

    @property
    def a_step(self) -> float:
        """Waits, the mean of those steps."""
        return self._waits / (self._until - self._first)

    def __enter__(self) -> None:
        self._step += 1
        if place.dry:
            from tests.fallow import pretend

            pretend.waits.clear()
        elif self._step == self._first:
            profiler = place.torch().profiler
            kinds = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
            self._profile = profiler.profile(activities=kinds)
            self._profile.__enter__()

    def __exit__(self, *error: Any) -> None:
        if place.dry and self._first <= self._step < self._until:
            from tests.fallow import pretend

            self._waits += len(pretend.waits)
        elif self._profile is not None and self._step == self._until - 1:
            self._profile.__exit__(*error)
            self._waits = waits_in(event.name for event in self._profile.events())
            self._profile = None


def waits_in(names: Iterable[str]) -> int:
    """How many of a profile's events are the host's waits."""
    return sum(name in WAITS for name in names)


def more_waits(name: str, ours: float, plain: float) -> Figure:
    """The figure: none more than a plain loop's is right."""
    return at_most(f"{name}: waits a step more than a plain loop's", ours - plain, 0.0)
