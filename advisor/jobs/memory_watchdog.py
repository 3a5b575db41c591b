"""Who holds more memory than its share of a device, and what follows: told, then paused. Pure.

A share's memory is a promise to the neighbours. Whoever breaks it is told at once; beside neighbours it is
paused when it still does after its time to mend it, which is short where one of them could no longer get what
it was promised. Only ever the one that holds too much: one that cannot be paused is told again, and its
neighbours are left alone. Nobody is put beside it meanwhile, because what it holds is charged to it; making
room for who waits is the business of ``advisor.policies.memory_cap``, which knows gentler means.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.actions import Notify, Pause
from advisor.jobs.gpu_sharing import CONTEXT_BYTES, Device, memory_of
from advisor.jobs.model import Elasticity, JobRecord, JobState
from advisor.state.model import ActionClass, ClusterState
from analytics import text
from collector.model import GpuUuid, JobId, ProcessKey, ProcessSample

SLACK = 0.02
"""Of its share; drivers round, and a context grows a little."""
MEND_MS = 120_000
"""Time to mend it after the owner was told; nobody is harmed yet."""
URGENT_MS = 15_000
"""The same while a neighbour could not get what it was promised."""
FORGET_MS = 600_000
"""So long within its share, and it begins anew."""
GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A job with a share: bytes that it holds on its fullest device, context and all, and may.

    ``beside`` share a device with it, and those that it ``harms`` could get less than they were promised.
    """

    job: JobId
    held_bytes: int
    allowed_bytes: int
    may_pause: bool
    beside: tuple[JobId, ...] = ()
    harms: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What is remembered of a job that held too much: when it was told, when it last did, UTC ms, the most.

    ``again``: it was told a second time.
    """

    told_ms: int
    over_ms: int
    held_bytes: int
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What to do now, and what to remember until the next look."""

    steps: tuple[Notify | Pause, ...] = ()
    noted: Mapping[JobId, Noted]


def holdings(
    samples: Iterable[ProcessSample], owners: Mapping[ProcessKey, JobId]
) -> Mapping[JobId, Mapping[GpuUuid, int]]:
    """Bytes that each job's processes hold on each GPU; a job of which a figure is missing is left out."""
    result: dict[JobId, dict[GpuUuid, int]] = {}
    unknown = set()
    for sample in samples:
        job = owners.get(sample.key)
        if job is None:
            continue
        if sample.memory_used_bytes is None:
            unknown.add(job)
            continue
        on = result.setdefault(job, {})
        on[sample.uuid] = on.get(sample.uuid, 0) + sample.memory_used_bytes
    return {job: on for job, on in result.items() if job not in unknown}


def draws(
    state: ClusterState, entries: Iterable[JobRecord], memory: Mapping[JobId, Mapping[GpuUuid, int]]
) -> tuple[Draw, ...]:
    """What each running job with a share of a device's memory holds; nothing where that was not measured."""
    running = {each.id: each for each in entries if each.state is JobState.RUNNING and each.gpus}
    allowed = {id: _allowed(state, entry) for id, entry in running.items()}
    result = []
    for id, entry in sorted(running.items()):
        most, on = allowed[id], memory.get(id, {})
        if most is None or not on or id not in state.jobs:
            continue
        result.append(
            Draw(
                job=id,
                held_bytes=max(on.values()),
                allowed_bytes=most + CONTEXT_BYTES,
                may_pause=_may_pause(state, entry),
                beside=_beside(state, entry),
                harms=_harmed(state, entry, allowed, memory),
            )
        )
    return tuple(result)


def watch(
    now: Sequence[Draw], noted: Mapping[JobId, Noted], now_ms: int, paused: Container[JobId] = ()
) -> Watched:
    """Whom to tell and whom to pause, given what was ``noted`` before; of ``paused`` jobs it stays."""
    steps: list[Notify | Pause] = []
    remaining = {job: n for job, n in noted.items() if job in paused or now_ms - n.over_ms < FORGET_MS}
    for draw in now:
        if draw.held_bytes <= draw.allowed_bytes * (1 + SLACK):
            continue
        note = remaining.get(draw.job)
        if note is None:
            steps.append(Notify(job=draw.job, message=_warning(draw), reason=_what(draw)))
            remaining[draw.job] = Noted(told_ms=now_ms, over_ms=now_ms, held_bytes=draw.held_bytes)
            continue
        most = max(note.held_bytes, draw.held_bytes)
        remaining[draw.job] = note = replace(note, over_ms=now_ms, held_bytes=most)
        if not draw.beside or now_ms - note.told_ms < (URGENT_MS if draw.harms else MEND_MS):
            continue
        if draw.may_pause:
            steps.append(Pause(job=draw.job, action=ActionClass.CAP_MEMORY, reason=_what(draw)))
        elif not note.again:
            steps.append(Notify(job=draw.job, message=_plea(draw), reason=_what(draw)))
            remaining[draw.job] = replace(note, again=True)
    return Watched(steps=tuple(steps), noted=remaining)


def remembered(state: ClusterState, noted: Mapping[JobId, Noted]) -> ClusterState:
    """The state in which who was paused for its memory is expected to need as much again.

    Without that it would go on at once, take as much, and be paused again, for ever.
    """
    paused = {id: state.jobs[id] for id in noted if id in state.jobs and id not in state.placements}
    history = {
        id: replace(job, memory_bytes=max(job.memory_bytes or 0, noted[id].held_bytes))
        for id, job in paused.items()
    }
    return replace(state, jobs={**state.jobs, **history}) if history else state


def _allowed(state: ClusterState, entry: JobRecord) -> int | None:
    devices = [
        Device(uuid=uuid, memory_bytes=state.gpus[uuid].memory_bytes if uuid in state.gpus else None)
        for uuid in entry.gpus
    ]
    return memory_of(entry.submission, entry.share, devices, entry.sharing)


def _may_pause(state: ClusterState, entry: JobRecord) -> bool:
    """Whether pausing it loses nothing, and nobody has forbidden it."""
    job = state.jobs.get(entry.id)
    if job is None or job.protected or entry.submission.mobility is Elasticity.RIGID:
        return False
    return ActionClass.CAP_MEMORY not in entry.submission.opted_out


def _beside(state: ClusterState, entry: JobRecord) -> tuple[JobId, ...]:
    placed = state.placements.items()
    return tuple(sorted(id for id, on in placed if id != entry.id and set(on.gpus) & set(entry.gpus)))


def _harmed(
    state: ClusterState,
    entry: JobRecord,
    allowed: Mapping[JobId, int | None],
    memory: Mapping[JobId, Mapping[GpuUuid, int]],
) -> tuple[JobId, ...]:
    """Neighbours on a device where what is left does not cover what they were promised and don't hold yet."""
    harmed: set[JobId] = set()
    for uuid in entry.gpus:
        sharers = [id for id, placement in state.placements.items() if uuid in placement.gpus]
        total = state.gpus[uuid].memory_bytes if uuid in state.gpus else None
        on = {id: memory.get(id, {}).get(uuid, 0) for id in sharers}
        lacking = {id: max(0, (allowed.get(id) or 0) - on[id]) for id in sharers if id != entry.id}
        if total is not None and total - sum(on.values()) < sum(lacking.values()):
            harmed |= {id for id, lacking_bytes in lacking.items() if lacking_bytes}
    return tuple(sorted(harmed))


def _what(draw: Draw) -> str:
    use, allowed = text.size(draw.held_bytes), text.size(draw.allowed_bytes)
    beside = f", and {', '.join(draw.harms)} may not get what was promised" if draw.harms else ""
    return f"it holds {use} of GPU memory, and its share is {allowed}{beside}"


def _warning(draw: Draw) -> str:
    after_s = (URGENT_MS if draw.harms else MEND_MS) // 1000
    paused = draw.may_pause and draw.beside
    then = f"Otherwise it is paused in {after_s} s, where pausing is switched on." if paused else ""
    return f"Please give memory back: {_what(draw)}. {then}".strip()


def _plea(draw: Draw) -> str:
    return (
        f"Please end it or give memory back: {_what(draw)}. It cannot be paused without loss, so it is not."
    )
