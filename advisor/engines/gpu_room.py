"""Whether processes fit back onto the GPUs that they left. Pure.

A restore that meets too little memory loses the process for good: the driver answers "out of memory", and
from then on every restore of it with error 304, also when memory is free again (cuda-checkpoint issue 44,
driver 580.95). So room is made sure of before the driver is asked, and "not known" is no room.
"""

from collections.abc import Callable, Collection, Mapping

from analytics import text
from collector.model import GpuUuid

GIB = 1 << 30
SPARE_BYTES = GIB
"""Beside what it held: the driver builds contexts and page tables anew, about 0.5 GiB each (a guess; the step
``move`` of tests/gpu/run.py measures it)."""

ProcessMemory = Mapping[int, Mapping[GpuUuid, int]]
"""Bytes that each process (by pid) held on each GPU; one that is missing or empty is not known."""

FreeMemory = Callable[[Collection[GpuUuid]], Mapping[GpuUuid, int | None]]
"""Bytes that each GPU has free now; ``None``: not known."""


def no_room(pids: Collection[int], memory: ProcessMemory, free: FreeMemory) -> str | None:
    """Why these processes must not be brought back now; ``None`` when all of them fit."""
    unknown = next((pid for pid in pids if not memory.get(pid)), None)
    if unknown is not None:
        return f"how much memory process {unknown} held on which GPU is not known, so it may not fit"
    needs: dict[GpuUuid, int] = {}
    for pid in pids:
        for uuid, size in memory[pid].items():
            needs[uuid] = needs.get(uuid, 0) + size
    has = free(needs)
    for uuid, need in needs.items():
        free_bytes = has.get(uuid)
        if free_bytes is None:
            return f"how much memory {uuid} has free is not known"
        if free_bytes < need + SPARE_BYTES:
            return (
                f"{uuid} has {text.size(free_bytes)} free, and the {text.size(need)} that it held there need "
                f"{SPARE_BYTES // GIB} GiB to spare: end what is on it, then resume again"
            )
    return None
