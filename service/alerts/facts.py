"""What one look of the alerts rests on: the state of the cluster, what was measured, who is blind. Values.

They are gathered in ``service.alerts.inputs``; here is no reading of anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.state.model import ClusterState
from analytics.model import FindingKind
from collector.model import GpuUuid, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Blindness:
    """A source that cannot be read now, and why; ``since_ms`` as far back as the gaps tell."""

    source: str
    since_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """The newest time in which no service ran on this store: nothing was measured in it."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The cluster over ``[from_ms, to_ms)``: used over measured time, and how much of it was measured.

    ``utilization_ratio`` is ``None`` where nothing was. ``bound_used_gpu_hours`` were used by GPU utilization
    alone: an upper bound.
    """

    from_ms: int
    to_ms: int
    utilization_ratio: float | None
    measured_ratio: float
    bound_used_gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job that has ended and that nobody was told of yet; ``row`` is its row of the query ``jobs``."""

    job: JobId
    from_ms: int
    to_ms: int
    gpus: tuple[GpuUuid, ...]
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the rules of the alerts may look at.

    ``places`` names GPUs as people do (``node1:3``). ``newest_ms`` has, by node, the newest sample of each
    installed GPU, ``None`` when it has had none for ten minutes. ``last_tick_ms`` is ``None`` before the
    first tick of this service; ``away`` is ``None`` where none ended within the hour. ``halt`` says why
    nothing is done at all, ``waits`` what each waiting job waits for, ``ended`` which ends are to be told.
    """

    now_ms: int
    tick_ms: int
    state: ClusterState
    observed: Observed
    limits: Limits
    advice: PlannerConfig
    last_tick_ms: int | None
    halt: str | None = None
    waits: Mapping[JobId, str] = field(default_factory=dict)
    places: Mapping[GpuUuid, str] = field(default_factory=dict)
    newest_ms: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    blind: tuple[Blindness, ...] = ()
    away: Away | None = None
    day: Day | None = None
    ended: tuple[Ended, ...] = ()

    def unjudged(self, kind: FindingKind) -> set[str]:
        """The UUIDs of GPUs that were not judged for this kind: all of them, while analyses are overdue."""
        analysis = self.observed.analysis
        if analysis.overdue:
            return set(self.state.gpus)
        return {entry.uuid for entry in analysis.unknown if kind in entry.kinds}
