"""What owners were told and what they answered, folded into the jobs of a state. Pure.

Two tables speak: ``tellings`` (what was said, and whom it reached) and ``keeps`` (the owner's word to be left
alone). A telling counts for the idle time it was said in, and no further: who worked since, or kept the job
since, is told anew before anything is done. What reached nobody is no telling.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from advisor.state.model import ClusterState, Job
from collector.model import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Something that was said to a job's owner at ``at_ms``; ``reached`` names the ways, ``None``: nobody."""

    job: JobId
    at_ms: int
    rung: str = "tell"
    message: str = ""
    reached: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Somebody's word at ``at_ms`` that the job is left alone until ``until_ms``."""

    job: JobId
    at_ms: int
    until_ms: int
    by_user: str


Word = Telling | Keep


def spoken_of(rows: Iterable[Mapping[str, object]]) -> tuple[Word, ...]:
    """The rows of the query ``spoken``."""
    return tuple(_reply(row) for row in rows)


def with_spoken(state: ClusterState, words: Iterable[Word]) -> ClusterState:
    """The state with what was said about each of its jobs; a job nobody spoke about is as it was."""
    by_job: defaultdict[JobId, list[Word]] = defaultdict(list)
    for reply in words:
        if reply.job in state.jobs:
            by_job[reply.job].append(reply)
    if not by_job:
        return state
    return replace(state, jobs={**state.jobs, **{job: _job(state.jobs[job], by_job[job]) for job in by_job}})


def _reply(row: Mapping[str, object]) -> Word:
    job, at_ms, until_ms = JobId(str(row["job"])), int(str(row["at_ms"])), row["until_ms"]
    if until_ms is not None:
        return Keep(job=job, at_ms=at_ms, until_ms=int(str(until_ms)), by_user=str(row["by_user"]))
    reached = row["reached"]
    return Telling(
        job=job, at_ms=at_ms, rung=str(row["rung"]), reached=None if reached is None else str(reached)
    )


def _job(job: Job, words: Iterable[Word]) -> Job:
    """Keeps by others than the owner are an operator's, and do not count against the owner's three.

    What the job itself brings (a submitted job's own record) is judged by the same rule as the rows.
    """
    keeps = [reply for reply in words if isinstance(reply, Keep)]
    until_ms = max((keep.until_ms for keep in keeps), default=None)
    own = sum(1 for keep in keeps if job.user is None or keep.by_user == job.user)
    since_ms = max(job.idle_since_ms or 0, until_ms or 0)
    notices = [w for w in words if isinstance(w, Telling) and job.idle_since_ms is not None]
    reached_ms = sorted(
        reply.at_ms for reply in notices if reply.reached is not None and reply.at_ms >= since_ms
    )
    before = job.notified_ms is not None and job.notified_ms >= since_ms
    first = [*reached_ms[:1], *((job.notified_ms,) if before and job.notified_ms is not None else ())]
    missed = max((reply.at_ms for reply in notices if reply.reached is None), default=None)
    return replace(
        job,
        keep_until_ms=until_ms if job.keep_until_ms is None else max(job.keep_until_ms, until_ms or 0),
        keep_count=max(job.keep_count, own),
        notified_ms=min(first, default=None),
        notifications=max(len(reached_ms), job.notifications if before else 0),
        warned_ms=reached_ms[-1] if reached_ms else None,
        unreached_ms=missed,
    )
