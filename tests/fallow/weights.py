"""Relative speeds as costs: what a rank of weight 2 computes takes it half the time."""

from collections.abc import Sequence

from fallow.data.costs import Cost


def costs_of(weights: Sequence[float] | None) -> tuple[Cost, ...] | None:
    """One cost a rank, every other one with a fixed time; no limits: slow ranks may get nothing."""
    if weights is None:
        return None
    return tuple(Cost(fixed_s=rank % 2, unit_s=1 / weight) for rank, weight in enumerate(weights))
