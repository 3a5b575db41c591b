"""A job's id that another person uses later is another job. Pure.

Ids are told by workload managers: Kubernetes uses a pod's name again as a matter of course, Slurm a number
after a crash. A holder's row, its hours and what is found of it hang on the id, so whoever comes second gets
the time of the first hold as well: ``pod:ns/train@1772438400``. Who was first keeps the plain one. One
person's runs under one id stay one job: a pod that is started anew has the same name and is the same work to
its owner.

A claim without a user says nothing of whose it is: it is the newest run's.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from collector.arrow import HeldInterval
from collector.model import Allocation, ClaimSource, Holder, JobId

LATER_RUN = re.compile(r".+@\d{1,12}")
"""The id of one that was not the first; Slurm's reader names it so too (``managers.slurm.reuse``)."""

Run = tuple[JobId, str | None]
"""A job's id in the store, and whose it is."""
Known = Callable[[JobId], Sequence[Run]]
"""The runs that there are of an id as it is told, in the order in which they came."""


def as_told(job: str) -> str:
    """The manager's own id, without the cluster or the second that tells it from another's: ``slurm:812``."""
    return job.partition("@")[0]


def run_of(holder: Holder, runs: Sequence[Run], since_ms: int, going: JobId | None = None) -> JobId:
    """The id in the store of what is told as ``holder``, which holds since ``since_ms`` (UTC ms).

    ``going``: the run that has had the GPU until now without a break; of it another user is a better word,
    not another person.
    """
    if not runs:
        return holder.job
    if holder.user is None:
        return going or runs[-1][0]
    own = next((job for job, user in runs if user == holder.user), None)
    unnamed = next((job for job, user in runs if user is None), None)
    if chosen := own or going or unnamed:
        return chosen
    taken, second = {job for job, _ in runs}, since_ms // 1000
    while f"{holder.job}@{second}" in taken:
        second += 1
    return JobId(f"{holder.job}@{second}")


class Naming:
    """Gives the allocations of one tick or history their jobs' ids.

    ``goes_on`` says whether a run has had a GPU until now. ``several``: of ids that mean several runs the one
    on each GPU, the newest last.
    """

    def __init__(
        self, known: Known, goes_on: Callable[[JobId, str], bool] = lambda _job, _uuid: False
    ) -> None:
        self._known, self._goes_on = known, goes_on
        self._runs: dict[JobId, list[Run]] = {}
        self.several: dict[JobId, dict[str, JobId]] = {}

    def named(self, allocation: Allocation, since_ms: int) -> Allocation:
        """The allocation under its job's id in the store. To be asked in the order of time."""
        holder, uuid = allocation.holder, allocation.uuid
        if allocation.source is ClaimSource.LEASE:  # Fallow gave the id itself, and gives none twice
            return allocation
        runs = self._runs.get(holder.job)
        if runs is None:
            runs = self._runs[holder.job] = list(self._known(holder.job))
        if not runs or (len(runs) == 1 and runs[0] == (holder.job, holder.user)):
            job = holder.job
        else:
            going = next((job for job, _ in runs if self._goes_on(job, uuid)), None)
            job = run_of(holder, runs, since_ms, going)
        self._note(runs, job, holder.user)
        if len(runs) > 1:
            on = self.several.setdefault(holder.job, {})
            on.pop(uuid, None)
            on[uuid] = job
        return allocation if job == holder.job else replace(allocation, holder=replace(holder, job=job))

    def _note(self, runs: list[Run], job: JobId, user: str | None) -> None:
        at = next((at for at, (known, _) in enumerate(runs) if known == job), None)
        if at is None:
            runs.append((job, user))
        elif runs[at][1] is None:
            runs[at] = (job, user)


def named_intervals(
    held: Iterable[HeldInterval], known: Known
) -> tuple[tuple[HeldInterval, ...], Mapping[JobId, tuple[HeldInterval, ...]]]:
    """The intervals under their jobs' ids in the store, and those of ids that mean more than the first run.

    The second are all of the id's intervals, by the id as told, in the order of time.
    """
    naming = Naming(known)
    named: list[HeldInterval] = []
    of: dict[JobId, list[HeldInterval]] = {}
    for interval in sorted(held, key=lambda each: each.from_ms):
        own = replace(interval, allocation=naming.named(interval.allocation, interval.from_ms))
        named.append(own)
        of.setdefault(interval.allocation.holder.job, []).append(own)
    several = {
        job: tuple(each) for job, each in of.items() if any(i.allocation.holder.job != job for i in each)
    }
    return tuple(named), several


def run_at(intervals: Sequence[HeldInterval], at_ms: int, uuid: str | None = None) -> JobId:
    """Which run a moment was of (UTC ms), on a GPU if one is given: what held then, else the last before."""
    there = [each for each in intervals if uuid in (None, each.allocation.uuid)] or list(intervals)
    for interval in there:
        if interval.from_ms < at_ms and (interval.to_ms is None or at_ms <= interval.to_ms):
            return interval.allocation.holder.job
    before = [each for each in there if each.from_ms < at_ms]
    return (before[-1] if before else there[0]).allocation.holder.job


def run_now(several: Mapping[JobId, Mapping[str, JobId]], job: JobId, uuid: str | None = None) -> JobId:
    """Which run an id means now, on a GPU if one is given: as told where it means one only."""
    on = several.get(job)
    if not on:
        return job
    return on.get(uuid or "", list(on.values())[-1])
