"""The GPUs that Fallow itself gave away: open rows of the table ``leases``, read through a port.

The store hands the rows over; this file knows neither SQL nor the store's engine.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from collector.model import (
    Allocation,
    ClaimSource,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    ProcessKey,
    Unavailable,
)
from collector.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An open row of ``leases``: granted, not released."""

    gpu_uuid: GpuUuid
    job: JobId
    user: str | None = None
    project: str | None = None
    name: str | None = None
    kind: JobKind | None = None
    share: float = 1.0


OpenLeases = Callable[[], Iterable[Lease]]
"""The leases that are open now; may raise OSError or RuntimeError when the store cannot be asked."""


Launched = Callable[[Collection[JobId]], Mapping[JobId, tuple[ProcessKey, ...]]]
"""The processes of leased jobs that are theirs by the kernel's word; of others nothing is known."""


Guests = Callable[[], Mapping[GpuUuid, tuple[Holder, ...]]]
"""The background jobs that were sent into the idle gaps of whoever has a lease of a GPU."""


class LeaseSource:
    """The leases as a source of allocations."""

    name = "leases"

    def __init__(
        self, open_leases: OpenLeases, launched: Launched | None = None, guests: Guests = dict
    ) -> None:
        self._open_leases, self._launched, self._guests = open_leases, launched, guests

    def read(self, now_ms: int) -> Reading | Unavailable:
        """One allocation a lease; blocks as long as the port does."""
        try:
            leases = tuple(self._open_leases())
            jobs = {lease.job for lease in leases}
            launched = {} if self._launched is None or not jobs else self._launched(jobs)
        except (OSError, RuntimeError) as error:
            reason = f"the leases could not be read from the store: {error}"
            return Unavailable(source=self.name, at_ms=now_ms, reason=reason)
        guests = self._guests()
        allocations = tuple(
            replace(as_allocation(lease, launched.get(lease.job, ())), guests=guests.get(lease.gpu_uuid, ()))
            for lease in leases
        )
        return Reading(source=self.name, at_ms=now_ms, allocations=allocations)

    def close(self) -> None:
        """Nothing is held; the store belongs to the service."""


def as_allocation(lease: Lease, launched: tuple[ProcessKey, ...] = ()) -> Allocation:
    """The lease as an allocation, on the strongest word there is: our own."""
    holder = Holder(job=lease.job, user=lease.user, project=lease.project, name=lease.name, kind=lease.kind)
    return Allocation(
        uuid=lease.gpu_uuid, holder=holder, share=lease.share, source=ClaimSource.LEASE, launched=launched
    )
