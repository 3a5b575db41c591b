"""What a worker reports unasked each second: where the training stands, how fast it goes, what it holds.

How fast a training goes: step time and throughput, smoothed, from the times at which steps ended. Pure.

What this worker tells its scheduler: what the library measured, and what the script knows better.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from fallow.errors import Mistake
from fallow.requests import memory
from fallow.types import Recipe

SMOOTHING = 0.1
"""Weight of the newest step in the moving average: about the last 20 steps count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A moving average of step time for one world size; a resize begins a new one."""

    world_size: int
    last_end_s: float
    step_time_s: float | None = None

    def after(self, end_s: float, world_size: int) -> "Pace":
        """The pace once another step has ended at ``end_s``."""
        if world_size != self.world_size:
            return Pace(world_size=world_size, last_end_s=end_s)
        took = end_s - self.last_end_s
        mean = took if self.step_time_s is None else self.step_time_s + SMOOTHING * (took - self.step_time_s)
        return replace(self, last_end_s=end_s, step_time_s=mean)

    def samples_per_s(self, global_batch: int) -> float | None:
        """Throughput of the whole training; ``None`` before a step was timed."""
        return global_batch / self.step_time_s if self.step_time_s else None


Measurements = Mapping[str, float | int | None]
Send = Callable[[Measurements], None]

# A person looks at figures, and a step may take a millisecond.
EVERY_S = 1.0
NAME = re.compile(r"[a-z][a-z0-9_]*")


class Reporter:
    """Sends measurements through ``send``; without one nothing is sent and nothing is kept.

    What the script told stays in every later report, and wins over what the library measured.
    """

    def __init__(self, send: Send | None):
        self._send = send
        self._told: dict[str, float | int | None] = {}
        self._measured: Measurements = {}
        self._sent_s = float("-inf")

    def tell(self, measurements: Measurements) -> None:
        """The script's own figures, sent at once. Raises Mistake for what is no figure."""
        for name, value in measurements.items():
            if not NAME.fullmatch(name):
                raise Mistake(
                    f"job.report({name}=...): name measurements in small letters with units, step_time_s"
                )
            if value is not None and not isinstance(value, int | float):
                raise Mistake(
                    f"job.report({name}={value!r}): a measurement is a number, or None for not measured; "
                    "use .item() on a tensor"
                )
        if self._send is not None:
            self._told.update(measurements)
            self._send({**self._measured, **self._told})

    def measured(self, now_s: float, measure: Callable[[], Measurements]) -> None:
        """The library's figures, measured and sent at most once in EVERY_S."""
        if self._send is not None and now_s - self._sent_s >= EVERY_S:
            self._sent_s = now_s
            self._measured = measure()
            self._send({**self._measured, **self._told})


def measurements(
    device: torch.device,
    recipe: Recipe,
    pace: Pace,
    *,
    next_step: int,
    total_steps: int | None,
    world_size: int,
    saved_ms: int | None,
) -> Measurements:
    """The report of a worker on ``device``; ``None`` is not measured.

    ``memory_peak_bytes`` is the most that tensors needed since caches were released last, ``checkpoint_ms``
    when this worker saved or resumed the training, UTC; ``can_save`` is 1 where it has a path to save to.
    """
    used = memory.measure(device)
    return {
        "step": next_step,
        "remaining_steps": None if total_steps is None else total_steps - next_step,
        "world_size": world_size,
        "step_time_s": pace.step_time_s,
        "samples_per_s": pace.samples_per_s(recipe.global_batch),
        "memory_reserved_bytes": used.reserved_bytes,
        "memory_peak_bytes": used.peak_needed_bytes,
        "checkpoint_ms": saved_ms,
        "can_save": int(recipe.checkpoint is not None),
    }
