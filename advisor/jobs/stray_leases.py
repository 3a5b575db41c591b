"""Rows of leases that no job holds, and leases of jobs that have no row: mended when the jobs are read.

Each commit writes a job and its leases together, so the two agree, unless a part of the store was lost and
the rest saved (`fallow store salvage`). Then a lease whose job is gone would be charged to its owner for
ever, and a job whose lease is gone would hold its GPU in no ledger. The jobs decide: by them GPUs are
given out.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.jobs.lifecycle import leased_shares
from advisor.jobs.model import JobRecord
from advisor.jobs.repository import put_leases, read_leases
from advisor.planner.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store


def match_leases(store: "Store", jobs: Mapping[JobId, JobRecord], now_ms: int) -> tuple[str, ...]:
    """Make the rows of leases say what the jobs hold. One sentence for each job whose rows were wrong.

    A row is closed at ``now_ms`` (UTC ms): when its job let go is not known. Blocks. Raises StoreError.
    """
    rows = read_leases(store)
    right, closing = set(), []
    for row in rows:
        key, job = (row["job"], row["gpu"]), jobs.get(row["job"])
        share = None if job is None else leased_shares(job).get(row["gpu"])
        if share is not None and abs(share - row["share"]) <= SHARE_SLACK and key not in right:
            right.add(key)
        else:
            closing.append(key)
    # All rows of a (job, GPU) are closed together, a right one beside a wrong one too: it is opened again.
    opening = [
        (job, uuid, share)
        for job in jobs.values()
        for uuid, share in leased_shares(job).items()
        if (job.id, uuid) not in right or (job.id, uuid) in closing
    ]
    if closing or opening:
        put_leases(store, sorted(set(closing)), opening, now_ms)
    return (*_closed(closing, jobs), *_opened(opening))


def _closed(closing: Sequence[tuple[JobId, GpuUuid]], jobs: Mapping[JobId, JobRecord]) -> tuple[str, ...]:
    return tuple(
        f"leases of {job} on {_on(closing, job)} were left in the store, but "
        + ("that job does not hold them" if job in jobs else "there is no such job")
        + "; they are ended now. Was a part of the store lost? The hours until now stay in the ledger"
        for job in sorted({job for job, _ in closing})
    )


def _opened(opening: Sequence[tuple[JobRecord, GpuUuid, float]]) -> tuple[str, ...]:
    pairs = [(job.id, uuid) for job, uuid, _ in opening]
    return tuple(
        f"leases of {job} on {_on(pairs, job)} were not in the store, but that job holds them; they are in "
        "the ledger from now on. Was a part of the store lost?"
        for job in sorted({job for job, _ in pairs})
    )


def _on(pairs: Sequence[tuple[JobId, GpuUuid]], job: JobId) -> str:
    gpus = len({uuid for whose, uuid in pairs if whose == job})
    return "one GPU" if gpus == 1 else f"{gpus} GPUs"
