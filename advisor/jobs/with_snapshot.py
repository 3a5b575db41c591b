"""The state that decisions look at: what is measured of the machine, joined with the register. Pure.

The register has the last word on submitted jobs: who waits, who holds what, who may be disturbed. What such a
job makes of its GPUs is measured like anybody's, by its job id. Everybody else's jobs are as they were read.

A GPU without a fresh sample is nobody's to give away, and whoever is on it is not judged: what was measured
before the measuring stopped says nothing of now.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from advisor.jobs.lifecycle import attained_gpu_s, in_flight, lapsing, leased, leased_share, leased_shares
from advisor.jobs.model import (
    Elasticity,
    ExitReason,
    JobRecord,
    JobState,
    NotifyCommand,
    ReleaseMemoryCommand,
    Report,
    StartCommand,
    Submission,
)
from advisor.jobs.predicted import completed
from advisor.planner.quota import housed
from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import (
    ActionClass,
    ActionTaken,
    ClusterState,
    Gpu,
    IdleGaps,
    Job,
    Node,
    Phase,
    Placement,
    Profile,
    Reservation,
    Telemetry,
    Use,
)
from collector.model import GpuUuid, JobId, JobKind, NodeName

HARMLESS = (StartCommand, NotifyCommand, ReleaseMemoryCommand)
"""Directives in flight that disturb nobody, and need not keep others from being carried out."""

PATIENT_MS = 30_000
"""A job whose start did not work is not tried again for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What else is known at this moment.

    ``newest_ms`` is when each GPU was last measured, ``stale_ms`` how old that may be. ``here`` are the nodes
    that launchers of this service run on, ``absent`` the jobs whose launcher is not to be reached now.
    ``by_launcher`` says of a measured job whether the register has the last word on it.
    """

    now_ms: int
    newest_ms: Mapping[GpuUuid, int]
    stale_ms: int
    here: frozenset[NodeName]
    by_launcher: Callable[[JobId], bool]
    absent: frozenset[JobId] = frozenset()
    actions: tuple[ActionTaken, ...] = ()
    doubtful: frozenset[GpuUuid] = frozenset()
    """GPUs that were let go where something may run on, and were not measured free since."""


def joined(
    live: ClusterState,
    entries: Collection[JobRecord],
    look: Look,
    waiting_as: Callable[[JobRecord], Job] | None = None,
) -> ClusterState:
    """The state of the machine with its submitted jobs. ``waiting_as``: ``waiting_job``, or its memory."""
    alive = [entry for entry in entries if entry.state is not JobState.ENDED]
    present = [entry for entry in alive if not entry.submission.background]
    background = [entry for entry in alive if entry.submission.background and _may_wait(entry, look)]
    holding = {entry.id: entry for entry in present if leased(entry) and _is_known(entry, live)}
    stale = {uuid for uuid in live.gpus if look.now_ms - look.newest_ms.get(uuid, 0) > look.stale_ms}
    leases: defaultdict[GpuUuid, float] = defaultdict(float)
    for entry in holding.values():
        for uuid, share in leased_shares(entry).items():
            leases[uuid] += share
    measured = [placement for id, placement in live.placements.items() if look.by_launcher(id)]
    measured_gpus = {uuid for placement in measured for uuid in placement.gpus}
    new = set(leases) - measured_gpus
    foreign = _foreign(live, leases, stale, look)
    bereft = {uuid for entry in present if entry.id not in holding for uuid in leased(entry)}
    outside = bereft | _outside(live, foreign, leases, look) | look.doubtful
    inner = {project.parent for project in live.projects.values()}
    waiting = [
        entry
        for entry in present
        if not leased(entry) and entry.submission.project not in inner and _may_wait(entry, look)
    ]
    ours = {entry.id: _running(entry, live, look, stale) for entry in holding.values()}
    draw = waiting_as or waiting_job
    ours.update(_dependent({entry.id: draw(entry) for entry in waiting}, waiting, entries))
    expected = [
        entry for entry in present if entry.submission.project not in inner and _is_expected(entry, look)
    ]
    ours.update({entry.id: replace(draw(entry), held=True) for entry in expected})
    placements = {
        entry.id: Placement(gpus=leased(entry), share=leased_share(entry)) for entry in holding.values()
    }
    busy = {live.gpus[uuid].node for entry in holding.values() if _disturbs(entry) for uuid in leased(entry)}
    state = replace(
        live,
        as_of_ms=look.now_ms,
        nodes={name: _node(node, look, busy) for name, node in live.nodes.items()},
        gpus={uuid: _gpu(gpu, leases, new, stale, uuid in outside) for uuid, gpu in live.gpus.items()},
        jobs={**foreign, **ours},
        placements={**{id: live.placements[id] for id in foreign if id in live.placements}, **placements},
        reservations={
            entry.id: Reservation(start_ms=entry.promised_ms, gpus=entry.promised_gpus)
            for entry in (*waiting, *expected)
            if entry.promised_ms is not None
        },
        actions=look.actions or live.actions,
        background={entry.id: draw(entry) for entry in background},
        beside={
            entry.id: (entry.beside, entry.beside_gpu)
            for entry in alive
            if entry.beside is not None and entry.beside_gpu is not None
        },
    )
    return housed(state)


def _dependent(
    jobs: dict[JobId, Job], waiting: Iterable[JobRecord], entries: Iterable[JobRecord]
) -> dict[JobId, Job]:
    """Those that wait, each with the jobs before it that have not ended well.

    Only a job's first start waits. Of a job that is not known any more nobody knows how it ended.
    """
    early = [entry for entry in waiting if entry.submission.after and entry.started_ms is None]
    if not early:
        return jobs
    by_id = {entry.id: entry for entry in entries}
    for entry in early:
        firsts = {job: by_id.get(job) for job in entry.submission.after}
        unmet = tuple(job for job, first in firsts.items() if first is None or not _ended_well(first))
        failed = tuple(
            job for job in unmet if (first := firsts[job]) is None or first.state is JobState.ENDED
        )
        jobs[entry.id] = replace(jobs[entry.id], after=unmet, after_failed=failed)
    return jobs


def _ended_well(entry: JobRecord) -> bool:
    return entry.state is JobState.ENDED and entry.exit_reason is ExitReason.DONE


def waiting_job(entry: JobRecord) -> Job:
    """A job that holds nothing: all that is known of it is its entry.

    Who was paused for idling goes on when touched where somebody can touch it, else after its cooldown."""
    phase = Phase.PAUSED if entry.state is JobState.PAUSED else Phase.PENDING
    untouched = entry.paused_for_idling and entry.submission.kind is JobKind.INTERACTIVE
    return replace(
        _from_submission(entry, None, 0),
        phase=phase,
        paused_on=entry.paused_on,
        held=entry.held_by_user or untouched,
        use=Use.IDLE if entry.paused_for_idling else Use.UNKNOWN,
        memory_bytes=_needed(entry.report) or entry.submission.memory_bytes,
        memory_held_bytes=entry.memory_seen_bytes,
    )


def _is_known(entry: JobRecord, live: ClusterState) -> bool:
    """Whether every GPU that it holds is installed still; one that is gone is held by nobody.

    Where one is gone, its workers may be on the others still: those are nobody else's meanwhile.
    """
    return all(uuid in live.gpus for uuid in leased(entry))


def _may_wait(entry: JobRecord, look: Look) -> bool:
    """Whether it stands in the queue: its launcher is there to start it, and a start did not just fail."""
    if entry.id in look.absent or in_flight(entry):
        return False
    tried_ms = entry.acted_ms if entry.failed is not None else None
    return tried_ms is None or look.now_ms - tried_ms >= PATIENT_MS


def _is_expected(entry: JobRecord, look: Look) -> bool:
    """Whether it was promised a start, and its launcher may yet come back, as after a restart.

    It is not started without its launcher, and what it was promised is nobody else's meanwhile.
    """
    waits = not leased(entry) and not in_flight(entry) and not lapsing(entry)
    return waits and entry.id in look.absent and entry.promised_ms is not None


def _foreign(
    live: ClusterState, leases: Mapping[GpuUuid, float], stale: set[GpuUuid], look: Look
) -> dict[JobId, Job]:
    """Everybody else's jobs. On a GPU that is leased out our lease is the strongest word there is.

    Where they don't all fit beside our lease, none of them has a place there: who came last is not known.
    """
    jobs: dict[JobId, Job] = {}
    crowded = _crowded(live, leases, look)
    for id, job in live.jobs.items():
        placement = live.placements.get(id)
        if look.by_launcher(id) or (placement is not None and not crowded.isdisjoint(placement.gpus)):
            continue
        unseen = placement is not None and any(uuid in stale for uuid in placement.gpus)
        jobs[id] = replace(job, use=Use.UNKNOWN, idle_since_ms=None, idle_gpu_hours=None) if unseen else job
    return jobs


def _crowded(live: ClusterState, leases: Mapping[GpuUuid, float], look: Look) -> set[GpuUuid]:
    """GPUs of which our leases and everybody else's jobs have more together than there is."""
    shares = dict(leases)
    for id, placement in live.placements.items():
        if not look.by_launcher(id):
            shares.update({uuid: shares[uuid] + placement.share for uuid in placement.gpus if uuid in shares})
    return {uuid for uuid, share in shares.items() if share > 1 + SHARE_SLACK}


def _outside(
    live: ClusterState, foreign: Mapping[JobId, Job], leases: Mapping[GpuUuid, float], look: Look
) -> set[GpuUuid]:
    """What is left of the GPUs of those who have no place beside our leases: they may be there still."""
    departed = (job for job in live.placements if not look.by_launcher(job) and job not in foreign)
    theirs = {uuid for job in departed for uuid in live.placements[job].gpus}
    return {uuid for uuid in theirs if leases.get(uuid, 0.0) < 1 - SHARE_SLACK}


def _gpu(
    gpu: Gpu, leases: Mapping[GpuUuid, float], new: set[GpuUuid], stale: set[GpuUuid], is_outside: bool
) -> Gpu:
    """Who is on a GPU that was leased since the last look is no intruder; an unmeasured one has anybody."""
    occupied = (gpu.occupied or is_outside) and gpu.uuid not in new
    if gpu.uuid in stale:
        return replace(gpu, telemetry=Telemetry.UNKNOWN, occupied=occupied or gpu.uuid not in leases)
    return gpu if occupied == gpu.occupied else replace(gpu, occupied=occupied)


def _node(node: Node, look: Look, busy: set[NodeName]) -> Node:
    return replace(
        node,
        schedulable=node.schedulable and node.name in look.here,
        in_flight=node.in_flight or node.name in busy,
    )


def _disturbs(entry: JobRecord) -> bool:
    return in_flight(entry) and not isinstance(entry.directive, HARMLESS)


def _running(entry: JobRecord, live: ClusterState, look: Look, stale: set[GpuUuid]) -> Job:
    """A job with a lease; while something is in flight, or its launcher is away, nothing is done to it."""
    submission, report, running = entry.submission, entry.report, live.jobs.get(entry.id)
    job = _from_submission(entry, running, look.now_ms)
    starting = entry.state is JobState.STARTING or entry.started_ms is None
    unseen = running is None or any(uuid in stale for uuid in leased(entry))
    job = replace(
        job,
        phase=Phase.RUNNING,
        started_ms=look.now_ms if entry.started_ms is None else entry.started_ms,
        memory_bytes=_needed(report)
        or submission.memory_bytes
        or (None if running is None else running.memory_bytes),
        memory_held_bytes=(None if report is None else report.memory_held_bytes)
        or (None if running is None else running.memory_held_bytes),
        use=Use.STARTING if starting else Use.UNKNOWN,
        cannot={} if _reports_cache(report) else {"release-memory": "its own library reports no cache"},
    )
    if running is not None and not unseen and not starting:
        job = replace(
            job,
            use=running.use,
            idle_since_ms=running.idle_since_ms,
            idle_gpu_hours=running.idle_gpu_hours,
            framework=running.framework,
        )
    if in_flight(entry) or lapsing(entry) or entry.id in look.absent:
        return _untouchable(job, len(leased(entry)))
    size = len(entry.gpus)
    rigid = submission.mobility is Elasticity.RIGID
    return replace(job, min_gpus=size, max_gpus=size) if rigid else job


def _untouchable(job: Job, size: int) -> Job:
    cannot = {**job.cannot, "notify": "its launcher has something to carry out first, or is not there"}
    return replace(
        job,
        min_gpus=size,
        max_gpus=size,
        preemptible=False,
        opted_out=frozenset(ActionClass) - ({ActionClass.BACKGROUND} - job.opted_out),
        idle_gaps={},
        cannot=cannot,
    )


def _from_submission(entry: JobRecord, running: Job | None, now_ms: int) -> Job:
    """What was asked for, what is allowed, and what was done to it so far."""
    submission, report = entry.submission, entry.report
    moves = submission.mobility is not Elasticity.RIGID
    interactive = submission.kind is JobKind.INTERACTIVE
    return Job(
        id=entry.id,
        project=submission.project,
        user=submission.user,
        name=submission.name or None,
        kind=submission.kind,
        priority=submission.priority,
        min_gpus=submission.min_gpus,
        max_gpus=submission.max_gpus,
        share=submission.share,
        gpu_models=submission.gpu_models,
        topology=submission.topology,
        submitted_ms=entry.submitted_ms,
        limit_s=submission.limit_s,
        preemptible=submission.preemptible and moves,
        checkpointable=moves,
        checkpoint_ms=None if report is None else report.checkpoint_ms,
        attached=(None if report is None else report.attached) if interactive else False,
        may_share=submission.may_share,
        opted_out=submission.opted_out | ({ActionClass.BACKGROUND} if entry.alone else set()),
        keep_until_ms=entry.keep_until_ms
        if running is None
        else running.keep_until_ms or entry.keep_until_ms,
        keep_count=max(entry.keep_count, 0 if running is None else running.keep_count),
        attained_gpu_s=attained_gpu_s(entry, now_ms),
        acted_ms=entry.acted_ms,
        resized_ms=entry.resized_ms,
        requeues=entry.requeues,
        notified_ms=None if running is None else running.notified_ms,
        notifications=0 if running is None else running.notifications,
        warned_ms=None if running is None else running.warned_ms,
        unreached_ms=None if running is None else running.unreached_ms,
        protected=False if running is None else running.protected,
        next_launch=entry.next_launch,
        profile=_profile(submission, report),
        idle_gaps={} if report is None or submission.background else _gaps(report),
    )


def _gaps(report: Report) -> dict[GpuUuid, IdleGaps]:
    return {
        gap.gpu: IdleGaps(
            page=gap.page,
            steps=gap.steps,
            alone_s=gap.alone_s,
            gaps_s=gap.gaps_s,
            slowdown_ratio=gap.slowdown_ratio,
        )
        for gap in report.idle_gaps
    }


def _profile(submission: Submission, report: Report | None) -> Profile | None:
    step_times = {} if report is None else report.step_s
    measured = {world: step_s for world, step_s in step_times.items() if step_s > 0}
    step_s, predicted = completed(measured, submission.step_s_predicted)
    if not step_s:
        return None
    return Profile(
        step_s=step_s,
        steps_left=None if report is None else report.steps_left,
        resize_s=None if report is None else report.resize_s,
        predicted=predicted,
    )


def _reports_cache(report: Report | None) -> bool:
    """Whether its own library says what it holds and needs: what was measured or asked for is no cache."""
    return report is not None and None not in (report.memory_held_bytes, report.memory_needed_bytes)


def _needed(report: Report | None) -> int | None:
    return None if report is None else report.memory_needed_bytes
