"""What one source brings at one look, and what all of them bring at one tick. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collector.managers.model import Look
from collector.model import (
    Allocation,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    HolderSample,
    Intrusion,
    JobId,
    MigPlace,
    NodeClaim,
    NodeName,
    NodeState,
    Process,
    ProcessKey,
    ProcessSample,
    Unavailable,
    Withheld,
)

if TYPE_CHECKING:
    from collector.arrow import History


LAST_HEARD = " was last heard "
"""Behind a node's name in the reason of a gap that lasts until it is heard, and tells what it measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMark:
    """How far a node that pushes is taken in: the highest number of its spool, and what is known of it.

    ``at_ms`` is when its newest tick was, ``heard_ms`` when it last pushed, both by the head's clock;
    ``ahead_ms`` how far its own clock is ahead. ``lost`` counts ticks that it made and nobody has.
    ``waiting`` ticks were in its spool then and not received yet, the oldest ``waits_ms`` old.
    """

    node: NodeName
    credential: str = ""
    machine: str = ""
    spool: str = ""
    version: str = ""
    sequence: int = 0
    at_ms: int = 0
    heard_ms: int = 0
    ahead_ms: int = 0
    lost: int = 0
    waiting: int | None = None
    waits_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTicks:
    """What a node measured while nobody took it in.

    ``since``: of each GPU whose holders it names, the time (UTC ms) from which they are told anew. Until then
    the last ones were believed.
    """

    history: "History"
    since: Mapping[GpuUuid, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one source saw at one tick; it owns all its data and never reaches back to the driver.

    ``processes``, ``process_samples``, ``allocations``, ``claims`` and ``nodes`` are ``None`` when the source
    did not look, and empty when it looked and found none. ``nodes`` are those whose GPUs it gives out.
    ``withheld``: what another collector says of GPUs that nobody holds. ``mig_places``: where its MIG
    instances lie, if it knows. ``look``: all that a workload manager showed, its queue with it.
    ``holder_samples``: what each holder of a shared GPU did, if that is told. ``marks`` and ``late`` are of
    nodes that push: how far each is taken in with this reading, and what comes after its time. ``removed``:
    of GPUs that it names no more, when they were taken out (UTC ms), if that is told.
    """

    source: str
    at_ms: int
    gpus: tuple[Gpu, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    processes: tuple[Process, ...] | None = None
    process_samples: tuple[ProcessSample, ...] | None = None
    allocations: tuple[Allocation, ...] | None = None
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    claims: tuple[NodeClaim, ...] | None = None
    nodes: tuple[NodeState, ...] | None = None
    withheld: tuple[Withheld, ...] = ()
    mig_places: tuple[MigPlace, ...] = ()
    look: Look | None = None
    holder_samples: tuple[HolderSample, ...] = ()
    marks: tuple[NodeMark, ...] = ()
    late: tuple[LateTicks, ...] = ()
    duration_ms: float = 0.0
    removed: Mapping[GpuUuid, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """All that one tick brings to the store, to be committed in one transaction.

    ``allocations`` are the effective ones, after attribution; ``None`` means that nobody looked and the
    open intervals stay open. A GPU missing from a tuple is held by nobody. ``owners`` says whose job each
    process is, where that is known. ``unclear`` says which environments could not be read as
    a claim, and why. ``withheld`` are the GPUs of these that nobody holds and that are not free;
    ``out_of_service`` the nodes that get no jobs and have none, whether or not their GPUs can be read.
    """

    at_ms: int
    width_ms: int
    outcomes: tuple[Reading | Unavailable, ...] = ()
    allocations: tuple[Allocation, ...] | None = None
    gaps: tuple[Gap, ...] = field(default_factory=tuple)
    owners: tuple[tuple[ProcessKey, JobId], ...] = ()
    intrusions: tuple[Intrusion, ...] = ()
    unclear: tuple[tuple[ProcessKey, str], ...] = ()
    withheld: tuple[Withheld, ...] = ()
    out_of_service: tuple[NodeState, ...] = ()

    @property
    def is_after_all(self) -> bool:
        """Whether every source has said all that it will: nobody is silent then, however narrow its rows."""
        return bool(self.outcomes) and all(
            isinstance(outcome, Unavailable) and outcome.is_over for outcome in self.outcomes
        )
