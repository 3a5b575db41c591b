"""The live cluster as decisions take it: a ``ClusterState`` and what was ``Observed``, from named queries.

``ask`` runs a named query and returns its rows; over HTTP, on the file, or on a connection, it is all the
same here. Who may be disturbed, shared with or checkpointed is never guessed: it stands in the site's
configuration, and whoever is not named there may not be.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.jobs.slowdown_watchdog import experience_of, pairs_of
from advisor.live.job_use import own_from_ms, own_rows, use_of
from advisor.planner.limits import PlannerConfig
from advisor.planner.observed import IdleStretch, Observed, Price, measured_since_ms
from advisor.planner.quota import housed
from advisor.planner.run_lengths import RunLength, RunLengths
from advisor.state.model import (
    MAY_BE_SAT_AT,
    ActionClass,
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    ProjectName,
    Telemetry,
    Usage,
    Use,
)
from advisor.state.owner_replies import spoken_of, with_spoken
from advisor.state.site_protection import Protect, with_protection
from analytics.model import IDLENESS, Analysis, Finding, FindingKind
from collector.gpu_place import node_place
from collector.model import GpuUuid, Holder, JobId, JobKind, NodeName

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SPOKEN_MS = 30 * DAY_MS
"""How long an owner's word is remembered: the three keeps are counted over so long."""
PAIRS_MS = 365 * DAY_MS
"""What was learnt of pairs is believed for so long: drivers and frameworks change."""
RUNS_MS = 90 * DAY_MS
"""How long jobs ran is believed for so long: work changes sooner."""
# What a job reads and writes now, not what it did in an earlier phase.
CONTROLLER_WINDOW_MS = 2 * HOUR_MS
EVERYBODY = "*"
NO_PROJECT = ProjectName("unassigned")
NEVER_COMPUTED = frozenset({FindingKind.NOT_STARTED, FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP})
"""Told, and never acted upon: what such a job is doing is not known."""
# Shorter rests are pauses between two steps of work, not idle times that predictions could learn from.
STRETCH_LEAST_MINUTES = 10
DIGITS = 9
"""Sums over rows come in any order: their last digits differ, and decisions must not."""

Row = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, object]], Sequence[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What people decided: quotas, and who allows what. Names are users, projects, or ``*`` for everybody."""

    projects: Mapping[ProjectName, Project] = field(default_factory=dict)
    may_share: frozenset[str] = frozenset()
    preemptible: frozenset[str] = frozenset()
    checkpointable: frozenset[str] = frozenset()
    opted_out: Mapping[str, frozenset[ActionClass]] = field(default_factory=dict)
    protect: Protect = field(default_factory=Protect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One instant of the live cluster, and what was measured up to it."""

    state: ClusterState
    observed: Observed


def read_live(ask: Ask, analysis: Analysis, site: Site, rules: PlannerConfig, days: float = 7.0) -> Live:
    """The cluster at the instant of ``analysis``, with ``days`` of history behind it. Blocks while it asks.

    Pending jobs are not in it: nobody who is asked here knows of them.
    """
    now_ms = analysis.as_of_ms
    to_ms = now_ms // MINUTE_MS * MINUTE_MS
    from_ms = to_ms - round(days * DAY_MS)
    window, past = {"from_ts": from_ms, "to_ts": to_ms}, {"from_ts": to_ms - RUNS_MS, "to_ts": to_ms}
    gpu_rows = [row for row in ask("decide_gpus", {"as_of": now_ms}) if not row["is_parent"]]
    claims: dict[str, list[Row]] = defaultdict(list)
    for row in ask("decide_jobs", {"as_of": now_ms, "from_ts": from_ms}):
        claims[row["job"]].append(row)
    touched = ask("decide_controller", {"as_of": now_ms, "from_ts": to_ms - CONTROLLER_WINDOW_MS})
    working = {row["uuid"]: row for row in touched}
    own = {}
    own_ms = own_from_ms(to_ms, rules)
    if any(row["others"] for rows in claims.values() for row in rows):
        shares = ask("decide_shared", {"as_of": now_ms, "from_ts": own_ms})
        own = {(row["job"], row["uuid"]): row for row in shares}
    parts = {row["uuid"]: row["part_of_device"] for row in gpu_rows}
    stretches = ask("idle_stretches", {**window, "least_minutes": STRETCH_LEAST_MINUTES})
    gpus = {GpuUuid(row["uuid"]): row for row in gpu_rows}
    # a judgement says nothing of what it has no samples of
    silent = [uuid for uuid, row in gpus.items() if row["newest_ms"] is None]
    judged = _Judged.of(analysis, gpus, silent)
    shares_of: dict[str, float] = defaultdict(float)
    for row in (row for rows in claims.values() for row in rows):
        shares_of[row["uuid"]] += row["share"]
    facts = _Facts(gpus=gpus, judged=judged, site=site, given=shares_of)
    jobs = [_job(rows, facts) for rows in claims.values()]
    jobs_read = [job for job in jobs if job is not None]
    state = ClusterState(
        as_of_ms=now_ms,
        nodes={NodeName(row["node"]): Node(name=NodeName(row["node"])) for row in gpu_rows},
        gpus=_gpus(gpus, judged, shares_of),
        projects=site.projects,
        jobs={job.id: job for job in jobs_read},
        placements={job.id: _placement(claims[job.id], shares_of) for job in jobs_read},
        usage=usage_of(ask("project_use", window)),
    )
    places = {
        GpuUuid(row["uuid"]): node_place(row["node"], row["gpu_place"], row["uuid"]) for row in gpu_rows
    }
    replies = spoken_of(ask("spoken", {"from_ts": now_ms - SPOKEN_MS}))
    state = with_spoken(with_protection(state, site.protect, places), replies)
    observed = Observed(
        analysis=analysis,
        uses={
            job.id: use_of(own_rows(claims[job.id], own, own_ms, now_ms, rules), working, parts, now_ms)
            for job in jobs_read
        },
        stretches=tuple(stretch_of(row) for row in stretches if not row["first"]),
        prices=_prices(gpu_rows),
        endings=RunLengths.of(run_length_of(row) for row in ask("run_lengths", past)),
        experience=experience_of(pairs_of(ask("pairs", {"from_ts": now_ms - PAIRS_MS}))),
    )
    return Live(state=housed(state), observed=observed)


def usage_of(rows: Iterable[Row]) -> dict[ProjectName, Usage]:
    """What projects held lately: the rows of the query ``project_use``."""
    return {
        ProjectName(row["project"] or NO_PROJECT): Usage(
            allocated_ratio=round(row["allocated_ratio"] or 0.0, DIGITS),
            held_idle_ratio=round(row["held_idle_ratio"] or 0.0, DIGITS),
        )
        for row in rows
    }


def kind_of(row: Row) -> JobKind | None:
    """How the job of a row is used; ``None`` where nobody said and no process of it was seen."""
    return None if row["kind"] is None else JobKind(row["kind"])


def stretch_of(row: Row) -> IdleStretch:
    """One row of the query ``idle_stretches``."""
    return IdleStretch(
        job=JobId(row["job"]),
        user=row["user_name"],
        kind=kind_of(row),
        gpus=row["gpus"],
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
        open=row["open"],
        first=row["first"],
        # a service that is older than its client does not tell these two
        unstarted=bool(row.get("unstarted")),
        worked_after=bool(row.get("worked_after")),
        unmeasured_ms=row["unmeasured_ms"],
    )


def run_length_of(row: Row) -> RunLength:
    """One row of the query ``run_lengths``."""
    return RunLength(
        kind=kind_of(row),
        gpus=row["gpus"],
        length_s=row["length_s"],
        open=row["open"],
        jobs=row["jobs"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The judgement by GPU and by job."""

    by_gpu: Mapping[GpuUuid, tuple[Finding, ...]]
    idle: Mapping[tuple[JobId, GpuUuid], Finding]
    starting: frozenset[tuple[JobId | None, GpuUuid]]
    unknown: frozenset[GpuUuid]

    @classmethod
    def of(cls, analysis: Analysis, gpus: Iterable[GpuUuid], silent: Iterable[GpuUuid] = ()) -> "_Judged":
        by_gpu: dict[GpuUuid, list[Finding]] = defaultdict(list)
        for finding in analysis.findings:
            by_gpu[finding.uuid].append(finding)
        never = (f for f in analysis.findings if f.kind in NEVER_COMPUTED)
        beginning = [(f.uuid, f.holder) for f in never] + [(e.uuid, e.holder) for e in analysis.starting]
        return cls(
            by_gpu={uuid: tuple(result) for uuid, result in by_gpu.items()},
            idle={
                (finding.holder.job, finding.uuid): finding
                for finding in analysis.findings
                if finding.kind in IDLENESS and finding.holder is not None
            },
            starting=frozenset((_job_of(holder), uuid) for uuid, holder in beginning),
            unknown=frozenset(gpus if analysis.overdue else (*_unknown(analysis), *silent)),
        )

    def is_starting(self, job: JobId, uuid: GpuUuid) -> bool:
        """Whether this job has not computed there: its neighbour's start is its neighbour's alone."""
        return (job, uuid) in self.starting or (None, uuid) in self.starting

    def has(self, uuid: GpuUuid, *kinds: FindingKind) -> bool:
        return any(finding.kind in kinds for finding in self.by_gpu.get(uuid, ()))


def _job_of(holder: Holder | None) -> JobId | None:
    """The job; ``None`` where no holder is told, who may then be any of the GPU's."""
    return None if holder is None else holder.job or None


def _unknown(analysis: Analysis) -> Iterator[GpuUuid]:
    """The GPUs of which nobody can tell whether they are idle."""
    return (entry.uuid for entry in analysis.unknown if IDLENESS & set(entry.kinds))


def _gpus(rows: Mapping[GpuUuid, Row], judged: _Judged, held: Collection[str]) -> dict[GpuUuid, Gpu]:
    several = len({row.get("cluster") for row in rows.values()} - {None}) > 1
    return {uuid: _gpu(row, judged, in_use=uuid in held, several=several) for uuid, row in rows.items()}


def _gpu(row: Row, judged: _Judged, *, in_use: bool, several: bool) -> Gpu:
    uuid = GpuUuid(row["uuid"])
    telemetry = Telemetry.GOOD
    if judged.has(uuid, FindingKind.SUSPECT_COUNTERS):
        telemetry = Telemetry.SUSPECT
    elif row["newest_ms"] is None or uuid in judged.unknown:
        telemetry = Telemetry.UNKNOWN
    # Whoever nobody gave the GPU to holds a part of it: it is no place for a job.
    foreign = judged.has(uuid, FindingKind.ZOMBIE_MEMORY, FindingKind.INTRUDER)
    return Gpu(
        uuid=uuid,
        node=NodeName(row["node"]),
        model=row["model"],
        memory_bytes=row["memory_total_bytes"] or None,
        memory_used_bytes=row["memory_used_bytes"] if telemetry is Telemetry.GOOD else None,
        part_of_device=row["part_of_device"],
        mig_profile=row["mig_profile"],
        # a service that is older than its client does not tell it
        cluster=row.get("cluster") if several else None,
        healthy=not judged.has(uuid, FindingKind.FALLING_GPU) and row["newest_ms"] is not None,
        occupied=foreign or (not in_use and row["is_taken"] is not False),
        unseen=not foreign and not in_use and row["is_taken"] is None,
        telemetry=telemetry,
    )


def _placement(rows: Sequence[Row], shares: Mapping[str, float]) -> Placement:
    """What the job was given; where more of a GPU was given away than there is, each has its part of it."""
    share = min(row["share"] / max(1.0, shares[row["uuid"]]) for row in rows)
    return Placement(gpus=tuple(GpuUuid(row["uuid"]) for row in rows), share=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the making of a job looks at beside its own rows."""

    gpus: Mapping[GpuUuid, Row]
    judged: _Judged
    site: Site
    given: Mapping[str, float]


def _job(rows: Sequence[Row], facts: _Facts) -> Job | None:
    """A running job; ``None`` when it holds a GPU that is not installed any more, or that was cut up."""
    first, gpus, site = rows[0], facts.gpus, facts.site
    if any(row["uuid"] not in gpus for row in rows):
        return None
    kind = kind_of(first)
    names = {EVERYBODY, first["user_name"], first["project"]} - {None}
    use, since_ms, hours = _idleness(rows, facts.judged)
    alone = all(row["others"] == 0 for row in rows)
    sizes = [gpus[row["uuid"]]["memory_used_bytes"] for row in rows]
    peaks = [row["memory_peak_bytes"] for row in rows]
    return Job(
        id=JobId(first["job"]),
        project=ProjectName(first["project"] or NO_PROJECT),
        user=first["user_name"],
        name=first["job_name"],
        kind=kind,
        framework=first["framework"],
        phase=Phase.RUNNING,
        min_gpus=len(rows),
        max_gpus=len(rows),
        share=_placement(rows, facts.given).share,
        memory_bytes=(max(peaks) or None) if alone and None not in peaks else None,
        memory_held_bytes=max(sizes) if alone and None not in sizes else None,
        submitted_ms=min(row["from_ms"] for row in rows),
        started_ms=min(row["from_ms"] for row in rows),
        preemptible=bool(names & site.preemptible),
        checkpointable=bool(names & site.checkpointable),
        may_share=bool(names & site.may_share),
        attached=None if kind in MAY_BE_SAT_AT else False,
        opted_out=frozenset().union(*(site.opted_out.get(name, frozenset()) for name in names)),
        use=use,
        idle_since_ms=since_ms,
        idle_gpu_hours=hours,
    )


def _idleness(rows: Sequence[Row], judged: _Judged) -> tuple[Use, int | None, float | None]:
    """What the job makes of its GPUs, since when it is idle, and its idle GPU-hours since then.

    Idle only when every GPU of it is: one at work, one starting or one unknown speaks for all. Idle is what
    was found idle, and nothing else: silences are judged there, by the clocks of the ladder and by
    the habits of the job, so that nobody who rests between two pieces of work reaches a rung. It counts from
    the last time that was not measured, where that was too long to look across: the job may have worked then.
    """
    uuids = [GpuUuid(row["uuid"]) for row in rows]
    result = [judged.idle.get((JobId(row["job"]), uuid)) for row, uuid in zip(rows, uuids, strict=True)]
    if any(judged.is_starting(JobId(row["job"]), uuid) for row, uuid in zip(rows, uuids, strict=True)):
        return Use.STARTING, None, None
    if any(uuid in judged.unknown for uuid in uuids):
        return Use.UNKNOWN, None, None
    idle = [finding for finding in result if finding is not None]
    if len(idle) == len(rows):
        since_ms = max(measured_since_ms(finding) for finding in idle)
        return Use.IDLE, since_ms, sum(finding.wasted_gpu_hours or 0.0 for finding in idle)
    return Use.ACTIVE, None, None


def _prices(gpu_rows: Sequence[Row]) -> dict[str, Price]:
    return {
        row["model"]: Price(per_gpu_hour=row["per_gpu_hour"], currency=row["currency"])
        for row in gpu_rows
        if row["model"] is not None and row["per_gpu_hour"] is not None
    }
