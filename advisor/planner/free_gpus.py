"""What is free in one decision: whole GPUs of one kind by node, and room on GPUs that jobs share. Mutable.

Where a gang of n lies best is found without looking at every node: a cell is what one node has of the kind,
and cells are bucketed by how many GPUs they have free, so that "the fullest node that still fits" and "the
fewest nodes" are a look at a few buckets.

What is left of a shared GPU is one minus the exactly rounded sum of its shares, so it does not depend on the
order in which they came.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest, nsmallest
from itertools import islice
from math import fsum

from advisor.planner.transition import SHARE_SLACK, memory_charged
from advisor.state.model import Gpu, Job
from collector.model import GpuUuid, JobId, NodeName

Kind = tuple[str | None, int | None, float | None, str | None]
"""Model, memory, of a MIG instance its part of the device, cluster: a gang lies on GPUs of one kind."""


def kind_of(gpu: Gpu) -> Kind:
    """Its model and memory, what part of a device it is, and in which cluster."""
    return gpu.model, gpu.memory_bytes, gpu.part_of_device, gpu.cluster


def takes(job: Job, kind: Kind, *, only_instances: bool = False) -> bool:
    """Whether the job may lie on GPUs of this kind; memory that is not known is taken to do.

    A process sees one MIG instance (NVIDIA, MIG User Guide), so no gang lies on several. A part of a GPU must
    fit into it. Who asks for a whole GPU gets one if he named its model, or if the cluster has nothing else.
    """
    model, memory_bytes, part, _ = kind
    need = memory_charged(job)
    if (job.gpu_models and model not in job.gpu_models) or (
        need is not None and memory_bytes is not None and need > memory_bytes
    ):
        return False
    if part is None:
        return True
    if job.min_gpus > 1:
        return False
    if job.share < 1:
        return part >= job.share - SHARE_SLACK
    return only_instances or model in job.gpu_models


@dataclass(slots=True, eq=False)
class Cell:
    """One node's free GPUs of one kind, in order; ``at`` is the node's rank, which settles ties.

    ``size`` counts all that it has of the kind, free or not.
    """

    node: NodeName
    at: int
    size: int = 0
    free: list[GpuUuid] = field(default_factory=list)


class Pool:
    """Free GPUs of one model and memory: ``free`` of ``size`` that there are.

    ``part_of_device`` is what a MIG instance of this kind is of its device, ``None`` for whole devices.
    """

    def __init__(self, kind: Kind) -> None:
        self.model, self.memory_bytes, self.part_of_device, _ = self.kind = kind
        self.free = self.size = self.largest = 0
        self.cells: list[Cell] = []
        self._buckets: dict[int, _Bucket] = {}

    def settle(self) -> None:
        """Sort the cells into their buckets, once, after all of them were filled."""
        for at, cell in enumerate(self.cells):
            cell.at = at
            cell.free.sort()
            self.free += len(cell.free)
            self.largest = max(self.largest, cell.size)
            self._bucket(len(cell.free)).add(at)

    def most(self, job: Job) -> int:
        """The most GPUs that the job could ever have of this kind at once: of one node, where it must."""
        return self.largest if job.on_one_node else self.size

    def pick(self, count: int, *, on_one_node: bool = False) -> tuple[GpuUuid, ...] | None:
        """``count`` free GPUs: all on the fullest node that fits, else on as few nodes as can be.

        Nothing is taken. ``None`` when fewer are free, or with ``on_one_node`` no node has so many.
        """
        if self.free < count:
            return None
        for size in sorted(size for size in self._buckets if size >= count):
            at = self._buckets[size].least()
            if at is not None:
                return tuple(self.cells[at].free[:count])
        return None if on_one_node else self._pick_spread(count)

    def freest(self) -> int:
        """How many GPUs the node has free that has most."""
        return max((size for size, bucket in self._buckets.items() if bucket.members), default=0)

    def last(self, most: int) -> list[GpuUuid]:
        """Up to ``most`` free GPUs, the last first, wherever they lie; nothing is taken."""
        some = (at for size, bucket in self._buckets.items() if size for at in bucket.members)
        cells = (self.cells[at] for at in nlargest(most, some))
        return [uuid for cell in cells for uuid in reversed(cell.free)][:most]

    def take(self, cell: Cell, gpus: Iterable[GpuUuid]) -> None:
        """Take free GPUs out of a cell."""
        before = len(cell.free)
        for uuid in gpus:
            cell.free.remove(uuid)
        self._rebucket(cell, before)

    def put(self, cell: Cell, gpus: Iterable[GpuUuid]) -> None:
        """Put GPUs back into their cell."""
        before = len(cell.free)
        for uuid in gpus:
            insort(cell.free, uuid)
        self._rebucket(cell, before)

    def _pick_spread(self, count: int) -> tuple[GpuUuid, ...]:
        """The fullest nodes whole, then the rest on the node that it fits best."""
        picked: list[GpuUuid] = []
        used: set[int] = set()
        for size in sorted((size for size in self._buckets if size > 0), reverse=True):
            members = self._buckets[size].members
            for at in nsmallest((count - len(picked)) // size, members):
                picked += self.cells[at].free
                used.add(at)
            rest = count - len(picked)
            if rest == 0 or not members <= used:
                return (*picked, *self._rest(rest, used))
        raise AssertionError("free counts and buckets disagree")

    def _rest(self, count: int, used: set[int]) -> tuple[GpuUuid, ...]:
        if count == 0:
            return ()
        for size in sorted(size for size in self._buckets if size >= count):
            unused = self._buckets[size].members - used
            if unused:
                return tuple(self.cells[min(unused)].free[:count])
        raise AssertionError("free counts and buckets disagree")

    def _rebucket(self, cell: Cell, before: int) -> None:
        after = len(cell.free)
        self.free += after - before
        self._buckets[before].members.discard(cell.at)
        self._bucket(after).add(cell.at)

    def _bucket(self, size: int) -> "_Bucket":
        bucket = self._buckets.get(size)
        if bucket is None:
            bucket = self._buckets[size] = _Bucket()
        return bucket


class _Bucket:
    """Ranks of cells with equally many free GPUs; the least is found by a heap that forgets lazily."""

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: set[int] = set()
        self._heap: list[int] = []

    def add(self, at: int) -> None:
        if at not in self.members:
            self.members.add(at)
            heappush(self._heap, at)

    def least(self) -> int | None:
        while self._heap and self._heap[0] not in self.members:
            heappop(self._heap)
        return self._heap[0] if self._heap else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A job on a shared GPU: its share, and the bytes set aside for it; ``None`` is not known."""

    job: Job
    share: float
    memory_bytes: int | None


@dataclass(slots=True)
class _Shared:
    free: float = 1.0
    tenants: dict[JobId, Tenant] = field(default_factory=dict)


class Fractions:
    """Shared GPUs, and of those that may take more the fullest first."""

    def __init__(self) -> None:
        self._shared: dict[GpuUuid, _Shared] = {}
        self._open: list[tuple[float, GpuUuid]] = []

    def __contains__(self, uuid: GpuUuid) -> bool:
        return uuid in self._shared

    def enter(self, uuid: GpuUuid, tenant: Tenant, *, is_open: bool) -> None:
        """Put a job on a GPU; others may join it there while the GPU ``is_open``."""
        self.close(uuid)
        self._shared.setdefault(uuid, _Shared()).tenants[tenant.job.id] = tenant
        self._settle(uuid, is_open=is_open)

    def leave(self, uuid: GpuUuid, job: JobId, *, is_open: bool) -> bool:
        """Take a job off a shared GPU; true when nobody is left on it."""
        self.close(uuid)
        del self._shared[uuid].tenants[job]
        if self._shared[uuid].tenants:
            self._settle(uuid, is_open=is_open)
            return False
        del self._shared[uuid]
        return True

    def open(self, uuid: GpuUuid) -> None:
        """Let others join on the GPU, if it is shared."""
        if uuid in self._shared:
            insort(self._open, (self._shared[uuid].free, uuid))

    def close(self, uuid: GpuUuid) -> None:
        """Let nobody join on the GPU from now on."""
        if uuid not in self._shared:
            return
        entry = (self._shared[uuid].free, uuid)
        at = bisect_left(self._open, entry)
        if at < len(self._open) and self._open[at] == entry:
            del self._open[at]

    def with_room(self, share: float) -> Iterator[GpuUuid]:
        """Open GPUs of which so much is left, the fullest first."""
        first = bisect_left(self._open, (share - SHARE_SLACK, ""))
        return (uuid for _, uuid in islice(self._open, first, None))

    def tenants(self, uuid: GpuUuid) -> Collection[Tenant]:
        """Who is on the GPU."""
        return self._shared[uuid].tenants.values()

    def _settle(self, uuid: GpuUuid, *, is_open: bool) -> None:
        shared = self._shared[uuid]
        shared.free = 1.0 - fsum(tenant.share for tenant in shared.tenants.values())
        if is_open:
            self.open(uuid)
