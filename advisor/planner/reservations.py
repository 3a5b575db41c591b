"""Which GPUs are held back for whom: the books of the promises that stand, private to one decision, mutable.

A GPU is held back for one job at most. It *waits* while it is free and held back; it is free for nobody else
then, so the ``Board`` keeps it out of its pools.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from advisor.planner.free_gpus import Pool
from collector.model import GpuUuid, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Free GPUs that are held back: ``own`` for one job, ``others`` for ``heads`` more, named ``some``."""

    own: int
    others: int
    heads: int
    some: tuple[JobId, ...]


class JobReservations:
    """What is held back, from when, and what of it waits, counted by kind.

    ``released`` counts how often something was held back no longer: while it stays, so does what is promised.
    """

    def __init__(self) -> None:
        self.waiting: dict[GpuUuid, Pool] = {}
        self.latest_ms = self.released = 0
        self._promised: dict[GpuUuid, tuple[JobId, int]] = {}
        self._held: dict[JobId, tuple[GpuUuid, ...]] = {}
        self._counts: defaultdict[Pool, Counter[JobId]] = defaultdict(Counter)
        self._totals: Counter[Pool] = Counter()

    def __contains__(self, uuid: GpuUuid) -> bool:
        return uuid in self._promised

    def promise(self, job: JobId, start_ms: int, gpus: Iterable[GpuUuid]) -> tuple[GpuUuid, ...]:
        """Hold back for the job what of these is held back for nobody; which they are."""
        own = tuple(uuid for uuid in gpus if uuid not in self._promised)
        self._held[job] = own
        self.latest_ms = max(self.latest_ms, start_ms)
        self._promised.update((uuid, (job, start_ms)) for uuid in own)
        return own

    def fulfil(self, job: JobId) -> tuple[GpuUuid, ...]:
        """Hold nothing back for the job any more; what was."""
        own = self._held.pop(job, ())
        self.released += bool(own)
        for uuid in own:
            del self._promised[uuid]
        return own

    def wait(self, uuid: GpuUuid, pool: Pool) -> None:
        """A GPU that is held back is free from now on."""
        self.waiting[uuid] = pool
        self._counts[pool][self._promised[uuid][0]] += 1
        self._totals[pool] += 1

    def end_wait(self, uuid: GpuUuid) -> None:
        """It is taken, or held back no longer: say so before it is."""
        pool, head = self.waiting.pop(uuid), self._promised[uuid][0]
        counts = self._counts[pool]
        self._totals[pool] -= 1
        counts[head] -= 1
        if not counts[head]:
            del counts[head]

    def reserved_for(self, job: JobId) -> tuple[GpuUuid, ...]:
        """What is held back for this job."""
        return self._held.get(job, ())

    def heads(self, gpus: Iterable[GpuUuid]) -> tuple[JobId, ...]:
        """For whom any of these is held back."""
        if not self._promised:
            return ()
        return tuple({self._promised[uuid][0]: None for uuid in gpus if uuid in self._promised})

    def waiting_for(self, job: JobId, pools: Iterable[Pool], names: int) -> Waiting:
        """What waits of these kinds, up to ``names`` of the others named."""
        here = [pool for pool in pools if pool in self._counts]
        counts = [self._counts[pool] for pool in here]
        own, total = sum(count[job] for count in counts), sum(self._totals[pool] for pool in here)
        heads = sum(len(count) - (job in count) for count in counts)
        some = islice((head for count in counts for head in count if head != job), names)
        return Waiting(own=own, others=total - own, heads=heads, some=tuple(some))

    def may_lend(self, uuid: GpuUuid, job: JobId, end_ms: int | None) -> bool:
        """Whether a job that is gone by then may have it meanwhile; whom it is held back for always may."""
        head, start_ms = self._promised[uuid]
        return head == job or (end_ms is not None and end_ms <= start_ms)
