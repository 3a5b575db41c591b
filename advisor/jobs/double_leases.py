"""Leases of one GPU to more jobs than it has room for, found when a register is opened, and ended there.

No service that checks its writes leaves any. A store may hold some from a Fallow before decision 37, which
believed what launchers said of their leases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.jobs.claims import displaced
from advisor.jobs.leased_gpus import overfull
from advisor.jobs.lifecycle import PLACING, leased_shares
from advisor.jobs.model import JobRecord
from advisor.jobs.repository import Change, read_directives, write_changes
from advisor.jobs.signing import placed_ms
from advisor.planner.transition import SHARE_SLACK
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A lease that was one too many: of which job, on which GPU, and whose it stays."""

    entry: JobRecord
    gpu: GpuUuid
    stays: JobId


def without_doubles(
    store: "Store", entries: Mapping[JobId, JobRecord], now_ms: int
) -> tuple[dict[JobId, JobRecord], tuple[Ended, ...]]:
    """The entries with room on every GPU, kept so in the store. Blocks. Raises StoreError.

    Who stays on a GPU is whom the service told to be there, by its own commands, and of several the newest.
    """
    settled, ended = dict(entries), []
    for uuid, jobs in overfull(entries).items():
        ranked = sorted(jobs, key=lambda job: _rank(store, settled[job], uuid), reverse=True)
        rest = 1 + SHARE_SLACK
        for job in ranked:
            share = leased_shares(settled[job]).get(uuid, 0.0)
            if share <= rest:
                rest -= share
                continue
            ended.append(Ended(entry=settled[job], gpu=uuid, stays=ranked[0]))
            settled[job] = displaced(settled[job], f"{uuid} is leased to {ranked[0]}", now_ms)
    changes = [Change(before=entries[id], after=settled[id]) for id in {each.entry.id for each in ended}]
    if changes:
        write_changes(store, changes, now_ms)
    return settled, tuple(ended)


def _rank(store: "Store", entry: JobRecord, uuid: GpuUuid) -> tuple[bool, int]:
    has_command = any(
        isinstance(row["body"], PLACING) and uuid in row["body"].gpus and row["failed"] is None
        for row in read_directives(store, entry.id)
    )
    return has_command, placed_ms(entry)
