"""Keeps what frameworks read of a worker's place, RANK and WORLD_SIZE, true while workers come and go.

A worker that nobody has taken in yet keeps the RANK that it was started with, which is no one else's and, for
a joiner, never 0: without the variable, frameworks would take it for the first of the job.
"""

from collections.abc import MutableMapping

RANK, WORLD_SIZE = "RANK", "WORLD_SIZE"


def follow(variables: MutableMapping[str, str], rank: int, world_size: int) -> None:
    """The group that this worker computes in now has ``world_size`` workers, and this one is ``rank``.

    Only variables that are there already: a framework that hid them from itself is to see none.
    """
    if RANK in variables:
        variables[RANK] = str(rank)
    if WORLD_SIZE in variables:
        variables[WORLD_SIZE] = str(world_size)
