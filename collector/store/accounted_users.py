"""Whose a measured job is, by a workload manager's accounting, where no source told (docs/decisions/0132).

Runs inside the caller's transaction. The name is stored with the holder and judged anew whenever accounting
or holds of that id come, so that the order in which they are imported makes no difference.
"""

from collections.abc import Iterable, Mapping

import duckdb

from collector.model import Holder
from collector.store.allocations import Claim
from collector.store.registry import Registry
from collector.store.runs import as_told
from collector.store.statements import statement


def name_holders(connection: duckdb.DuckDBPyConnection, registry: Registry, jobs: Iterable[str]) -> None:
    """Name, or no longer name, the holders under these ids; all that bear a manager's number are judged."""
    told = sorted({as_told(job) for job in jobs})
    if told:
        changed = connection.execute(statement("name_by_accounting"), {"jobs": told}).fetchall()
        registry.forget_holders([job for (job,) in changed])


def name_told(connection: duckdb.DuckDBPyConnection, registry: Registry, holders: Iterable[Holder]) -> None:
    """The same for holders of whom holds were told: a user whom a source tells is accounting's no more."""
    told = list(holders)
    users = [holder.job for holder in told if holder.user is not None]
    if users:
        connection.execute(statement("told_users"), {"jobs": users})
    name_holders(connection, registry, [holder.job for holder in told if holder.user is None])


def check_opened(
    connection: duckdb.DuckDBPyConnection,
    registry: Registry,
    opened: Iterable[Claim],
    holders: Mapping[str, Holder],
) -> None:
    """Judge anew those whom accounting named and who hold a GPU again: their number may be another's now.

    ``holders``: of the tick, by their jobs.
    """
    holder_ids = sorted({holder_id for _, holder_id, _, _ in opened})
    if holder_ids:
        rows = connection.execute(statement("named_by_accounting"), {"holder_ids": holder_ids}).fetchall()
        name_told(connection, registry, [holders[job] for (job,) in rows])
