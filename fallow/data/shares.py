"""Which worker gets how much of a step, from how fast each was lately. Pure, and the same in every worker.

Each worker's seconds a sample ride in the sum of the gradients, so all see the same figures at the same step
boundary and decide alike, without a further exchange. The figures live as long as the group: a new one
begins with even shares. Shares change only when that makes the step noticeably shorter, because ragged shares
cost a little themselves and every change throws away what was read ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

WINDOW_STEPS = 10
"""Steps that are looked at before shares may change; the median of them counts, so one hiccup does not."""
WORTH_IT = 1.05
"""How many times longer the step must be with the shares as they are than with those that fit the speeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Newest measurements of one group, and the ``weights`` in force: relative speeds, one a rank."""

    weights: tuple[float, ...]
    window: tuple[tuple[float, ...], ...] = ()

    def after(self, seconds_per_sample: Sequence[float]) -> "Speeds":
        """The speeds once a step has ended; where a rank measured nothing, a 0, the step is left out."""
        if min(seconds_per_sample, default=0.0) <= 0:
            return self
        window = (*self.window, tuple(seconds_per_sample))
        if len(window) < WINDOW_STEPS:
            return replace(self, window=window)
        typical = [median(of_rank) for of_rank in zip(*window, strict=True)]
        fitting = tuple(1 / seconds for seconds in typical)
        if _step_time(self.weights, typical) < WORTH_IT * _step_time(fitting, typical):
            return replace(self, window=())
        return Speeds(weights=fitting)


def even(world_size: int) -> Speeds:
    """Nothing measured yet: everybody gets the same."""
    return Speeds(weights=(1.0,) * world_size)


def _step_time(weights: Sequence[float], seconds_per_sample: Sequence[float]) -> float:
    """Seconds a sample of the global batch when the slowest rank has finished its share."""
    total = sum(weights)
    return max(weight / total * seconds for weight, seconds in zip(weights, seconds_per_sample, strict=True))
