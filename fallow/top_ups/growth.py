"""Whether a training may ask Slurm for another top-up job now: a pure function of what Slurm shows.

A top-up takes what nobody else could use, and Slurm can take it back. Whatever is not shown counts as no.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from fallow.top_ups.slurm_text import Site, Start, Waiting

COULD_USE = frozenset({"Resources", "Priority", "None"})
"""Reasons of jobs that could take free GPUs; ``None`` has a job at which the scheduler hasn't looked yet."""
NOW_S = 60.0
"""``sbatch --test-only`` calls a job that could start at once one of the next minute."""
REST_S = 60.0
"""After a restart of slurmctld, which may have forgotten what it said last and use its numbers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What Slurm shows now. ``start`` is when it would start the job, ``None`` never; ``tried`` its words.

    ``neighbours`` are the partitions that share nodes with the job's.
    """

    site: Site
    start: Start | None
    tried: str
    neighbours: frozenset[str]
    waiting: tuple[Waiting, ...]


def refusal(look: Look, own: Collection[str], now: datetime) -> str | None:
    """Why no top-up is asked for, in a sentence; ``None`` when it may be. ``own`` are our jobs' ids.

    ``now`` is local time without a zone, as Slurm prints it.
    """
    if not look.site.preempts:
        return (
            "Slurm takes no job back here (PreemptType=preempt/none), so a top-up could keep others waiting"
        )
    if look.site.hides_jobs:
        return "other people's jobs are not shown here (PrivateData=jobs), so nobody can see who waits"
    if look.start is None:
        return f"Slurm would not take such a job: {look.tried.strip() or 'it said nothing'}"
    wait_s = (datetime.fromisoformat(look.start.at) - now).total_seconds()
    if wait_s > NOW_S:
        return f"nothing is free for it before {look.start.at}"
    could = [
        each
        for each in look.waiting
        if each.job not in own
        and each.wants_gpus
        and each.reason in COULD_USE
        and each.partitions & look.neighbours
    ]
    if could:
        jobs = ", ".join(each.job for each in could[:3])
        return f"{len(could)} waiting jobs could use these GPUs ({jobs}): they go first"
    return None


def rest_s(site: Site, newest: Site | None, now: datetime) -> float:
    """How long to leave Slurm alone: after a restart since ``newest`` was seen. Seconds, 0 for not at all."""
    if newest is None or (site.boot == newest.boot and site.next_job >= newest.next_job):
        return 0.0
    return max(0.0, REST_S - (now - datetime.fromisoformat(site.boot)).total_seconds())
