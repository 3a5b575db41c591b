"""GPUs that jobs share: who has how much of each, which have room; the books of one decision, mutable.

What is left of a GPU is one minus the exactly rounded sum of its shares, so it does not depend on the order
in which they came.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import fsum

from advisor.model import Job
from advisor.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId


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
