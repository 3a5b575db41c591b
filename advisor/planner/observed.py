"""What was measured of the running jobs, as policies look at it beside a ``ClusterState``. Pure values.

A ``ClusterState`` says who wants and has what; this says what they made of it. Ratios are 0..1, ``None`` is
"not measured": a policy abstains on it, and never takes it for zero.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.planner.pairing import Experience
from advisor.planner.run_lengths import RunLengths
from advisor.state.model import Job
from analytics.model import IDLENESS, Analysis, Coverage, Finding, FindingKind
from analytics.vocabulary.findings import LOST_ERROR, LOST_GPU, same_on
from collector.model import Basis, JobId, JobKind

ENGINES_RATIO = 0.05
"""One minute of 20, as for the 95th percentile of utilization that it stands beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUse:
    """One job's use of its GPUs over ``[from_ms, to_ms)``, the part of the window in which it held them.

    ``coverage_ratio`` is the share of that time that was measured. Utilization is on the ``rung`` that
    19 of 20 minutes reach (the others overstate it); ``utilization_p95_ratio`` and ``memory_peak_bytes``
    are those of its busiest GPU, the former over the minutes in which it worked; kernels run there for
    ``kernels_ratio`` of the time while it works. ``excess_ratios``: by how much these minutes exceed 0.05,
    0.10, .. 0.95 of the GPU, on the mean; of jobs on one GPU. ``memory_needed_bytes`` is the peak that
    tensors took, which only the job itself can tell. ``gpus_used`` is on how many of its GPUs it ever
    computed, ``memory_unused_bytes`` the peak of the fullest of the others (``None``: there are none, or not
    measured).
    ``by_engines``: in more than one minute of 20 it worked on video engines, for which the SMs' utilization
    does not stand; ``uses_engines``: they worked at all, in the newest two hours or more than the SMs did
    before. Hours are GPU-hours as the ledger counts them: of a MIG instance its part of the device.
    ``others`` is true when it had neighbours on a GPU, and what was measured there is theirs as well; where
    each one's own work and memory are told, the use is that of the job alone, over the longest window of a
    policy (but ``idle_gpu_hours``, and the memory controller, which is the board's). ``crowded``: the board
    was full then in its busiest minutes, so that it might have done more alone.
    """

    job: JobId
    from_ms: int
    to_ms: int
    coverage_ratio: float
    rung: Basis = Basis.UNKNOWN
    held_gpu_hours: float = 0.0
    idle_gpu_hours: float = 0.0
    utilization_mean_ratio: float | None = None
    utilization_p95_ratio: float | None = None
    excess_ratios: tuple[float, ...] | None = None
    controller_p95_ratio: float | None = None
    kernels_ratio: float | None = None
    memory_peak_bytes: int | None = None
    memory_needed_bytes: int | None = None
    gpus_used: int | None = None
    memory_unused_bytes: int | None = None
    others: bool = False
    crowded: bool = False
    by_engines: bool = False
    uses_engines: bool = False

    @property
    def measured_s(self) -> float:
        """Seconds of the window that were measured."""
        return (self.to_ms - self.from_ms) / 1000 * self.coverage_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleStretch:
    """A time in which a job had GPUs and did nothing on them; ``open`` while it lasts, so it is cut short.

    ``first``: nobody saw it work before, so that the time may have begun earlier; its length is a bound, and
    nothing is expected of others by it. Where part of the time was not measured, each measured part is one,
    cut short in the same ways, and the first of them bears how long nothing was (``unmeasured_ms``).
    ``unstarted``: it lies before all known work of the job; ``worked_after``: the job worked after it.
    ``found_s`` is after how long a finding would have called it idle (``advisor.whatif.idle_clocks``).
    """

    job: JobId
    user: str | None
    kind: JobKind | None
    gpus: float
    from_ms: int
    to_ms: int
    open: bool = False
    first: bool = False
    unmeasured_ms: int = 0
    unstarted: bool = False
    worked_after: bool = False
    found_s: float = 0.0

    @property
    def length_s(self) -> float:
        """How long it was, or is so far."""
        return (self.to_ms - self.from_ms) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job of the window as it was recorded: who, what it had, and what it made of it.

    ``part_of_device`` is the part that each of its MIG instances has of its device, the mean of them;
    ``None``: it had whole devices.
    """

    job: Job
    gpus: int
    model: str | None
    memory_total_bytes: int | None
    from_ms: int
    to_ms: int
    use: JobUse
    part_of_device: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Money for an hour of one GPU model."""

    per_gpu_hour: float
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All that policies may look at beside the state; what is not in it is not known.

    ``stretches`` are the site's idle times of the recent past: what an expectation of the next ones rests on.
    ``endings`` is what is known of how long its jobs run, ``experience`` what was measured of pairs, by GPU
    model.
    """

    analysis: Analysis = field(
        default_factory=lambda: Analysis(
            as_of_ms=0, window_from_ms=0, coverage=Coverage(ratio=0.0, gpus=0, silent_gpus=0)
        )
    )
    uses: Mapping[JobId, JobUse] = field(default_factory=dict)
    stretches: tuple[IdleStretch, ...] = ()
    endings: RunLengths = field(default_factory=RunLengths.of)
    prices: Mapping[str, Price] = field(default_factory=dict)
    experience: Mapping[str, Experience] = field(default_factory=dict)

    def sentences_of(self, job: JobId, kinds: Container[FindingKind] = tuple(FindingKind)) -> tuple[str, ...]:
        """A sentence for each of these kinds that was found of a job; how many more GPUs it is true of.

        That it uses a part of its GPUs names each idle one, and stands for them.
        """
        by_kind: dict[FindingKind, list[Finding]] = {}
        for finding in self.findings_of(job):
            if finding.kind in kinds:
                by_kind.setdefault(finding.kind, []).append(finding)
        named = IDLENESS if FindingKind.USES_PART in by_kind else ()
        return tuple(_together(each) for kind, each in by_kind.items() if kind not in named)

    def findings_of(self, job: JobId) -> tuple[Finding, ...]:
        """What was found about this job's GPUs."""
        return tuple(
            finding
            for finding in self.analysis.findings
            if finding.holder is not None and finding.holder.job == job
        )

    def may_hang(self, job: JobId) -> bool:
        """Whether it is found that the job may hang."""
        return any(finding.kind is FindingKind.MAY_HANG for finding in self.findings_of(job))

    def loss_of(self, job: JobId) -> str | None:
        """Which GPU failed, or is not seen, so that the job does nothing, in a sentence; ``None``: none."""
        for finding in self.findings_of(job):
            evidence = {each.name: each.value for each in finding.evidence}
            if evidence.get(LOST_GPU) is not None:
                name, error = evidence[LOST_GPU], evidence.get(LOST_ERROR)
                failed = "is not seen any more" if error is None else f"failed under it ({error})"
                return f"{name} {failed}: it may wait for that."
        return None

    def is_bound(self, job: JobId, since_ms: int | None) -> bool:
        """Whether it may have been idle for longer: its GPU's records begin, or a gap in them ends, then."""
        for finding in self.findings_of(job):
            if finding.kind in IDLENESS and finding.since_ms != since_ms == measured_since_ms(finding):
                return True
            evidence = {each.name: each.value for each in finding.evidence}
            began = finding.since_ms == since_ms and evidence.get("older_than_records")
            if began and not evidence.get("has_computed"):
                return True
        return False

    def price_of(self, model: str | None) -> Price | None:
        """The model's own price, else the one for every model."""
        return self.prices.get(model or "") or self.prices.get("*")


def measured_since_ms(finding: Finding) -> int:
    """Since when the idleness that was found was measured without a gap that is too large to look across."""
    evidence = {each.name: each.value for each in finding.evidence}
    from_ms = evidence.get("measured_from_ms")
    return max(finding.since_ms, int(from_ms)) if isinstance(from_ms, int | float) else finding.since_ms


def _together(findings: Sequence[Finding]) -> str:
    """Findings of one kind about one job in a message: the first one's sentence stands for the others."""
    first = findings[0]
    return first.sentence + same_on(first.kind, [(each.uuid, each.wasted_gpu_hours) for each in findings])
