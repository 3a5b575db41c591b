"""The nouns of understanding: a GPU's recent past as judged, and what was found in it.

Pure values. Thresholds live in ``analytics.thresholds``, the judgement in ``analytics.findings``. Ratios are
0..1, times UTC milliseconds, ``None`` is "not measured".
"""

from dataclasses import dataclass, field, fields

from analytics.vocabulary.findings import IDLENESS as IDLENESS  # noqa: PLC0414
from analytics.vocabulary.findings import FindingKind as FindingKind  # noqa: PLC0414
from analytics.vocabulary.patterns import PatternKind as PatternKind  # noqa: PLC0414
from collector.model import Basis, GpuUuid, Holder, NodeName

BIN_MS = 30_000
"""Judgement looks at bins of 30 s, as Run:ai and jobstats do; the roll-ups use the same bins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When a holder has been active on a GPU: the newest seven days, and the newest 24 hours of them.

    ``active_until_ms`` is the end of its newest active minute, however short, within seven days;
    ``known_since_ms`` the measured time since then, and ``measured_from_ms`` the end of the newest gap in it
    that is too large to look across (``None``: there is none). ``silence_p90_ms`` is the 90th percentile of
    the times between its spells of activity in seven days, ``absence_p90_ms`` that of those in which nobody
    was on the GPU for ten minutes or more. Of the last 24 hours, or of its hold if that is shorter:
    ``known_ms`` was measured, the bins of ``busy_ms`` busy, in ``spells`` spells of ``spells_ms`` together;
    it began anew ``begins`` times after a minute or more without activity, ``silence_longest_ms`` at most,
    and ``busy_ratio`` is the mean utilization while busy; ``idle_gpu_hours`` were idle or empty.
    """

    active_until_ms: int | None = None
    known_since_ms: int = 0
    measured_from_ms: int | None = None
    silence_p90_ms: int | None = None
    absence_p90_ms: int | None = None
    known_ms: int = 0
    busy_ms: int = 0
    spells: int = 0
    spells_ms: int = 0
    begins: int = 0
    silence_longest_ms: int | None = None
    busy_ratio: float | None = None
    idle_gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One holder's hold on a GPU, and what is known of its past.

    ``first_used_ms`` is when the job first computed on a GPU it was given alone, ``busy_until_ms`` when this
    GPU was last busy for it beyond a blip; both ``None`` when it never was. ``process_started_ms`` is the
    start of its newest process here. ``idle_gpu_hours`` counts this GPU's allocated-empty and held-idle time
    since ``busy_until_ms``, or since it was given. ``processes_started`` is how many processes
    were seen to start here in the last six hours, ``longest_life_ms`` how long the oldest of
    those hours was seen to live; ``process_arrivals`` how often somebody was there after nobody was, where
    no single process is seen and the job has not computed. ``listening_unknown``: whether its processes
    listen, as servers do, could be read of none. ``holder_id`` is the holder's number in the store.
    ``bins``: what the holder did on a GPU that others hold too, where that is told apart, and
    ``memory_bytes`` what it kept of its memory, bin by bin. ``suspended``: its workload manager keeps it from
    computing.
    """

    holder: Holder
    share: float
    from_ms: int
    first_used_ms: int | None = None
    busy_until_ms: int | None = None
    process_started_ms: int | None = None
    idle_gpu_hours: float | None = None
    processes_started: int = 0
    process_arrivals: int = 0
    longest_life_ms: int | None = None
    listening_unknown: bool = False
    suspended: bool = False
    rhythm: Rhythm = field(default_factory=Rhythm)
    holder_id: int | None = None
    bins: "Bins | None" = None
    memory_bytes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """How memory rose when a GPU was first used: what TensorFlow's allocation at start looks like."""

    first_used_ms: int
    full_after_ms: int | None
    flat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFall:
    """When a GPU's power fell to where it is now under the same holder, and what it drew in the hour before.

    ``measured_ratio``: how much of the time since then was measured.
    """

    fell_ms: int
    before_mw: float
    now_mw: float
    measured_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Measures of consecutive bins, oldest first, all columns equally long; ``None``: no value in that bin.

    ``covered`` says whether samples cover at least half of the bin. ``utilization`` is on the best rung,
    ``busiest`` the largest on any rung, video engines that do more than noise included, ``video`` that of
    the busiest of these; ``processes`` the most that were counted; ``hot`` the part in which heat held the
    clocks down, ``copies`` that in which memory was read or written while nothing on the board computed.
    """

    end_ms: int
    covered: tuple[bool, ...] = ()
    utilization: tuple[float | None, ...] = ()
    busiest: tuple[float | None, ...] = ()
    video: tuple[float | None, ...] = ()
    gpu_utilization: tuple[float | None, ...] = ()
    memory_controller: tuple[float | None, ...] = ()
    copies: tuple[float | None, ...] = ()
    hot: tuple[float | None, ...] = ()
    memory_bytes: tuple[int | None, ...] = ()
    power_mw: tuple[int | None, ...] = ()
    processes: tuple[int | None, ...] = ()

    def last(self, count: int) -> "Bins":
        """The newest ``count`` bins; fewer when there are fewer."""
        return Bins(
            end_ms=self.end_ms,
            covered=self.covered[-count:],
            utilization=self.utilization[-count:],
            busiest=self.busiest[-count:],
            video=self.video[-count:],
            gpu_utilization=self.gpu_utilization[-count:],
            memory_controller=self.memory_controller[-count:],
            copies=self.copies[-count:],
            hot=self.hot[-count:],
            memory_bytes=self.memory_bytes[-count:],
            power_mw=self.power_mw[-count:],
            processes=self.processes[-count:],
        )

    def first(self, count: int) -> "Bins":
        """The oldest ``count`` bins of all."""
        columns = {
            each.name: getattr(self, each.name)[:count] for each in fields(self) if each.name != "end_ms"
        }
        return Bins(end_ms=self.end_ms - (len(self.covered) - count) * BIN_MS, **columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intruder:
    """A process on a GPU that was given to others; ``to_ms`` is ``None`` while it is there."""

    pid: int
    from_ms: int
    to_ms: int | None = None
    user: str | None = None
    uid: int | None = None
    name: str | None = None
    command: str | None = None
    memory_used_bytes: int | None = None
    sm_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenClaim:
    """A launcher's word that its job runs on a GPU which Fallow did not give it; ``why`` in words."""

    job: str
    user: str
    from_ms: int
    last_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPast:
    """One GPU as it has been lately: everything a judgement may look at.

    ``siblings_fresh`` says whether other GPUs of the same node were measured at the newest tick; ``None``
    when there are no others. ``lost_ms`` is when the GPU was last reported lost, if it has not returned.
    ``is_off_the_bus``: its driver says so, or XID 79 does; silence alone may be its exporter's or a file's.
    ``gpu_place`` is what it is called on its node (``collector.gpu_place``).
    ``last_claims`` are those at its newest sample, of a GPU that fell silent and that nobody holds any more.
    ``memory_free_bytes`` is the least memory that was taken on it while nobody held it: the board's own.
    ``xid`` is the newest XID of the board's own ("48: double-bit ECC error"), told at ``xid_ms``;
    ``ecc_errors`` the uncorrected memory errors within the bins.
    """

    uuid: GpuUuid
    node: NodeName
    gpu_index: int | None = None
    gpu_place: str | None = None
    model: str | None = None
    mig_profile: str | None = None
    share_of_device: float = 1.0
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    idle_power_mw: int | None = None
    power_limit_mw: int | None = None
    installed_from_ms: int = 0
    newest_ms: int | None = None
    newest_width_ms: int = 0
    rung: Basis = Basis.UNKNOWN
    bins: Bins = field(default_factory=lambda: Bins(end_ms=0))
    claims: tuple[Claim, ...] = ()
    last_claims: tuple[Claim, ...] = ()
    intruders: tuple[Intruder, ...] = ()
    unproven: tuple[UnprovenClaim, ...] = ()
    onset: Onset | None = None
    power_fall: PowerFall | None = None
    siblings_fresh: bool | None = None
    lost_ms: int | None = None
    falls: int = 0
    is_off_the_bus: bool = False
    xid: str | None = None
    xid_ms: int | None = None
    ecc_errors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind a finding; its unit is in its name."""

    name: str
    value: float | int | bool | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fact about waste or a fault, with all that it rests on.

    ``since_ms`` is when what was found began, as far back as the store tells; ``rung`` is the measure behind
    its utilization; ``wasted_gpu_hours`` was idle or empty since then, ``None`` where waste
    is not the point; what was wasted in a range is the ledger's to say (query ``waste``).
    """

    kind: FindingKind
    uuid: GpuUuid
    node: NodeName
    gpu_index: int | None
    holder: Holder | None
    since_ms: int
    window_from_ms: int
    window_to_ms: int
    coverage: float
    rung: Basis
    wasted_gpu_hours: float | None
    sentence: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What could not be judged about a GPU, and why. Unknown is never idle."""

    uuid: GpuUuid
    kinds: tuple[FindingKind, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingUp:
    """A job that was given a GPU and has not computed on it yet, still within its grace."""

    uuid: GpuUuid
    holder: Holder
    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All that was concluded about one GPU."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    starting: tuple[StartingUp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How a holder's minutes lie over a window: a run is minutes of activity, a gap the quiet between runs.

    Minutes that nobody measured are in neither. ``utilization_ratio`` is the mean over the active minutes of
    each GPU; of ``engine_minutes`` of them it says nothing: their work was done on video engines.
    ``held_gpu_minutes`` counts the minutes of every GPU that it held, ``measured_gpu_minutes`` those of them
    that were measured, ``suspect_gpu_minutes`` those whose counters contradict each other; ``minutes`` counts
    a minute once however many GPUs there are.
    """

    holder: Holder
    held_gpu_minutes: int
    measured_gpu_minutes: float
    minutes: int
    active_minutes: int
    runs: int
    run_median_minutes: float | None = None
    run_longest_minutes: int | None = None
    gap_median_minutes: float | None = None
    gap_longest_minutes: int | None = None
    edge_longest_minutes: int = 0
    utilization_ratio: float | None = None
    engine_minutes: int = 0
    suspect_gpu_minutes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How a holder works, with the numbers that made it so; ``reason`` says why it is unknown."""

    holder: Holder
    kind: PatternKind
    evidence: tuple[Evidence, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of the window of an analysis was measured, over all GPUs that were installed in it."""

    ratio: float
    gpus: int
    silent_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What is understood of the cluster at ``as_of_ms`` from ``[window_from_ms, as_of_ms)``.

    ``overdue``: nobody has judged it lately, so that of no GPU anything is known but the warnings that stand.
    """

    as_of_ms: int
    window_from_ms: int
    coverage: Coverage
    findings: tuple[Finding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    starting: tuple[StartingUp, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    overdue: bool = False
