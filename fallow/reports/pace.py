"""How fast a training goes: step time and throughput, smoothed, from the times at which steps ended. Pure."""

from dataclasses import dataclass, replace

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
