"""The whole free GPUs of one kind, by node: where a gang of n lies best, found without looking at every node.

Private to one decision, mutable. A cell is what one node has of the kind. Cells are bucketed by how many GPUs
they have free, so that "the fullest node that still fits" and "the fewest nodes" are a look at a few buckets.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest, nsmallest

from advisor.model import Gpu, Job
from advisor.transition import SHARE_SLACK, memory_charged
from collector.model import GpuUuid, NodeName

Kind = tuple[str | None, int | None, float | None]
"""Model, memory and, of a MIG instance, its part of the device: a gang lies on GPUs of one kind."""


def kind_of(gpu: Gpu) -> Kind:
    """Its model and memory, and what part of a device it is."""
    return gpu.model, gpu.memory_bytes, gpu.part_of_device


def takes(job: Job, kind: Kind, *, only_instances: bool = False) -> bool:
    """Whether the job may lie on GPUs of this kind; memory that is not known is taken to do.

    A process sees one MIG instance (NVIDIA, MIG User Guide), so no gang lies on several. A part of a GPU must
    fit into it. Who asks for a whole GPU gets one if he named its model, or if the cluster has nothing else.
    """
    model, memory_bytes, part = kind
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
    """One node's free GPUs of one kind, in order; ``at`` is the node's rank, which settles ties."""

    node: NodeName
    at: int
    free: list[GpuUuid] = field(default_factory=list)


class Pool:
    """Free GPUs of one model and memory: ``free`` of ``size`` that there are.

    ``part_of_device`` is what a MIG instance of this kind is of its device, ``None`` for whole devices.
    """

    def __init__(
        self, model: str | None, memory_bytes: int | None, part_of_device: float | None = None
    ) -> None:
        self.model, self.memory_bytes, self.part_of_device = model, memory_bytes, part_of_device
        self.kind: Kind = (model, memory_bytes, part_of_device)
        self.free = self.size = 0
        self.cells: list[Cell] = []
        self._buckets: dict[int, _Bucket] = {}

    def settle(self) -> None:
        """Sort the cells into their buckets, once, after all of them were filled."""
        for at, cell in enumerate(self.cells):
            cell.at = at
            cell.free.sort()
            self.free += len(cell.free)
            self._bucket(len(cell.free)).add(at)

    def pick(self, count: int) -> tuple[GpuUuid, ...] | None:
        """``count`` free GPUs: all on the fullest node that fits, else on as few nodes as can be.

        Nothing is taken. ``None`` when fewer are free.
        """
        if self.free < count:
            return None
        for size in sorted(size for size in self._buckets if size >= count):
            at = self._buckets[size].least()
            if at is not None:
                return tuple(self.cells[at].free[:count])
        return self._pick_spread(count)

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
