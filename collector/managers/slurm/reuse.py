"""Slurm's numbers are used again: after a crash of its controller the next job may get the last one's. Pure.

Seen with 22.05.8: sbatch had answered 812, slurmctld was killed within two seconds, and the next sbatch,
anybody's, was 812 too. A job id of ours is unique for all time, so whoever comes second gets its submission's
time as well: ``slurm:812@1795660771``. Who was first keeps the plain one, under which its past is stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.managers.model import KnownRun, ManagedJob
from collector.model import JobId

MOST = 500_000
"""Numbers remembered, the newest: some 100 MB. A crash loses the last seconds' jobs, not last year's."""


class Numbers:
    """Gives each run the job id of ours; remembers which."""

    def __init__(self, known: Iterable[KnownRun] = ()) -> None:
        self._known = {each.key.id: each for each in sorted(known, key=lambda each: each.key.submitted_ms)}

    def named(self, jobs: Sequence[ManagedJob]) -> tuple[ManagedJob, ...]:
        """The jobs under their ids; a run put back into the queue is the same job."""
        named = tuple(self._named(job) for job in jobs)
        for number in list(self._known)[: len(self._known) - MOST]:
            del self._known[number]
        return named

    def _named(self, job: ManagedJob) -> ManagedJob:
        known = self._known.get(job.key.id)
        own = job.holder.job
        if known is not None:
            own = known.job if _is_same(job, known) else JobId(f"{own}@{job.key.submitted_ms // 1000}")
        self._known[job.key.id] = KnownRun(key=job.key, user=job.holder.user, job=own)
        return replace(job, holder=replace(job.holder, job=own))


def _is_same(job: ManagedJob, known: KnownRun) -> bool:
    """A requeued job has a new time of submission, and was restarted once more than before."""
    if job.key.submitted_ms == known.key.submitted_ms or job.key.cluster != known.key.cluster:
        return job.holder.user == known.user or known.user is None
    return job.key.restarts > known.key.restarts and job.holder.user == known.user
