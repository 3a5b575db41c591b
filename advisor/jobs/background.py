"""Who of the background jobs must leave the idle gaps it is in, where gates are open, what came of it. Pure.

A gate is open only while all of it holds; what is not known shuts it. Leaving loses what the job has not
saved itself, so it follows only where the place is gone, or somebody's word or memory forbids it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from advisor.jobs.gpu_sharing import CONTEXT_BYTES
from advisor.jobs.lifecycle import in_flight, lapsing
from advisor.jobs.model import IdleGapCounts, JobRecord, JobState, StartCommand
from advisor.planner.plan import Rule
from advisor.planner.protection import against_background
from advisor.policies.background import too_slow
from advisor.state.model import ClusterState
from analytics import text
from collector.model import GpuUuid, JobId

SLACK = 0.02
"""Of the memory that it asked for: as ``memory_watchdog`` has it."""

LEFT_FREE_BYTES = 1 << 30
"""Less than this free on the GPU is short: half of what is left free when a job is put beside another."""

FORBIDDING = (Rule.PROTECTED, Rule.OPTED_OUT)
"""Rules by which a job that is there leaves; the others are asked before it comes."""

Held = Mapping[JobId, Mapping[GpuUuid, int]]
"""Bytes that each job's processes hold on each GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A background job's stay beside another: what it did there, what that cost the other, both or neither.
    Times UTC ms; ``step_s`` is the GPU time of one of its steps alone.
    """

    job: JobId
    foreground: JobId
    gpu: GpuUuid
    from_ms: int
    to_ms: int
    steps: int
    step_s: float | None = None
    slowdown_ratio: float | None = None
    foreground_steps: int | None = None

    @property
    def harvested_gpu_s(self) -> float | None:
        """GPU time that it made in idle gaps."""
        return None if self.step_s is None else self.steps * self.step_s


def is_beside(entry: JobRecord) -> bool:
    """Whether a background job may compute in another's idle gaps: it was sent there, and not told to go."""
    if entry.beside is None or lapsing(entry) or entry.state not in (JobState.STARTING, JobState.RUNNING):
        return False
    return not in_flight(entry) or isinstance(entry.directive, StartCommand)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGaps:
    """The ``gpus`` of a job in whose idle gaps somebody may compute now, and which other accounts, by name,
    may read the page of which: who is sent there.
    """

    gpus: tuple[GpuUuid, ...] = ()
    readers: tuple[tuple[GpuUuid, str], ...] = ()


def open_gaps(host: JobRecord, entries: Iterable[JobRecord]) -> OpenGaps:
    """Where in ``host`` somebody may compute now."""
    if host.alone or host.state is not JobState.RUNNING or lapsing(host):
        return OpenGaps()
    there = [
        (each.beside_gpu, each.submission.user)
        for each in entries
        if each.beside == host.id and is_beside(each) and each.beside_gpu in host.gpus
    ]
    return OpenGaps(
        gpus=tuple(sorted({gpu for gpu, _ in there if gpu is not None})),
        readers=tuple(
            sorted(
                {
                    (gpu, user)
                    for gpu, user in there
                    if gpu is not None and user not in (None, host.submission.user)
                }
            )
        ),
    )


def names_page_of_guest(page: str, host: JobRecord, guest: JobRecord) -> bool:
    """Whether another owner's job tells of a page in a folder that the guest's own account made.

    The guest may write there: it would compute by the gaps of another job of its own, and count on that page.
    """
    folder = page.rsplit("/", 2)[-2] if page.count("/") > 1 else ""
    is_guests = guest.submission.uid is not None and folder.startswith(f"fallow.{guest.submission.uid}.")
    return is_guests and host.submission.user != guest.submission.user


def must_leave(
    entry: JobRecord, entries: Mapping[JobId, JobRecord], state: ClusterState, memory: Held
) -> str | None:
    """Why a background job that is beside another has to leave; ``None``: it may stay."""
    if entry.beside is None or entry.beside_gpu is None or not is_beside(entry) or in_flight(entry):
        return None
    host, gpu = entries.get(entry.beside), entry.beside_gpu
    if host is None or host.state is JobState.ENDED:
        return f"{entry.beside} has ended"
    # Its GPU is looked at next, where a guest of the same owner would pass for a process of the host.
    if lapsing(host):
        return f"the launcher of {host.id} is gone"
    if gpu not in host.gpus:
        return f"{host.id} has left its GPU"
    if host.alone:
        return f"the owner of {host.id} wants nobody in its idle gaps"
    objection = against_background(entry.id, host.id, gpu, state)
    if objection is not None and objection.rule in FORBIDDING:
        return objection.reason
    gaps = state.jobs[host.id].idle_gaps.get(gpu) if host.id in state.jobs else None
    if gaps is not None and too_slow(gaps):
        return f"{host.id} takes {gaps.slowdown_ratio:.2f} of its own time for a step beside it"
    return _against_memory(entry, host, gpu, state, memory)


def memory_seen(
    entry: JobRecord, entries: Mapping[JobId, JobRecord], state: ClusterState, memory: Held
) -> int | None:
    """Bytes that a background job holds where its GPU's memory runs short; ``None`` elsewhere, and where what
    the foreground holds is not known. What others may have there counts as the background job's.
    """
    host = None if entry.beside is None else entries.get(entry.beside)
    if host is None or entry.beside_gpu is None:
        return None
    used, theirs = (
        _used_where_short(entry, host, state, memory),
        memory.get(host.id, {}).get(entry.beside_gpu),
    )
    return None if used is None or theirs is None else used - theirs


def stay_of(entry: JobRecord, entries: Mapping[JobId, JobRecord], now_ms: int) -> Stay | None:
    """What a background job has done in its stay so far; ``None`` before it has counted anything."""
    host = None if entry.beside is None else entries.get(entry.beside)
    mine = _counts(entry, entry.beside_gpu)
    if host is None or entry.beside_gpu is None or mine is None or entry.started_ms is None:
        return None
    theirs = _counts(host, entry.beside_gpu)
    ratio = None if theirs is None else theirs.slowdown_ratio
    is_measured = ratio is not None and mine.work_s is not None
    # The count and the length of a step are the background job's own word: more than all the time that it
    # was there it cannot have computed.
    stayed_s = max(0, now_ms - entry.started_ms) / 1000
    work_s = mine.work_s if mine.work_s is None or not mine.steps else min(mine.work_s, stayed_s / mine.steps)
    return Stay(
        job=entry.id,
        foreground=host.id,
        gpu=entry.beside_gpu,
        from_ms=entry.started_ms,
        to_ms=now_ms,
        steps=mine.steps,
        step_s=work_s if is_measured else None,
        slowdown_ratio=ratio if is_measured else None,
        foreground_steps=None if theirs is None else theirs.steps,
    )


def _counts(entry: JobRecord, gpu: GpuUuid | None) -> IdleGapCounts | None:
    gaps = () if entry.report is None else entry.report.idle_gaps
    return next((each for each in gaps if each.gpu == gpu), None)


def _against_memory(
    entry: JobRecord, host: JobRecord, gpu: GpuUuid, state: ClusterState, memory: Held
) -> str | None:
    """What is not measured is no reason: it was asked before the job came."""
    request_bytes, mine = entry.submission.memory_bytes, memory.get(entry.id, {}).get(gpu)
    if (
        mine is not None
        and request_bytes is not None
        and mine > (request_bytes + CONTEXT_BYTES) * (1 + SLACK)
    ):
        return f"it holds {text.size(mine)} of GPU memory and asked for {text.size(request_bytes)}"
    used, total = _used_where_short(entry, host, state, memory), state.gpus.get(gpu)
    if used is None or total is None:
        return None
    return (
        f"the GPU's memory runs short: {text.size(used)} of {text.size(total.memory_bytes or 0)} are in use"
    )


def _used_where_short(entry: JobRecord, host: JobRecord, state: ClusterState, memory: Held) -> int | None:
    """Bytes in use on the GPU of a background job, where too little is left; else ``None``.

    Whose each byte is, is rarely known of a background job, which holds no GPU. What the driver counts on the
    GPU is enough: the guest leaves, whichever of the two has grown.
    """
    gpu = None if entry.beside_gpu is None else state.gpus.get(entry.beside_gpu)
    if gpu is None or gpu.memory_bytes is None:
        return None
    mine, theirs = memory.get(entry.id, {}).get(gpu.uuid), memory.get(host.id, {}).get(gpu.uuid)
    both = 0 if mine is None or theirs is None else mine + theirs
    used = max(both, gpu.memory_used_bytes or 0)
    return used if used > gpu.memory_bytes - LEFT_FREE_BYTES else None
