"""How the register's entries lie in the store: rows out of entries, and entries out of rows.

One ``Change`` a job is what a transaction brings: the entry as it is kept, and as it is now. Directives and
leases follow from the difference, in the same transaction, so that no lease is without its entry.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from advisor.jobs.lifecycle import leased_shares
from advisor.jobs.model import Command, JobRecord
from advisor.serialize import Unreadable, from_text, to_text
from advisor.statements import asked, statement
from collector.model import GpuUuid, JobId

if TYPE_CHECKING:
    from collector.store.database import Store

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An entry as it is kept (``None``: not yet), and as it is to be kept."""

    before: JobRecord | None
    after: JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the store has of the register; ``remarks`` say which rows can't be read or don't fit together.

    ``number`` is that of the newest entry, ``given`` that of the newest order (``numbers``).
    """

    entries: tuple[JobRecord, ...]
    number: int
    given: int = 0
    remarks: tuple[str, ...] = ()


def read_register(store: "Store", ended: int) -> Kept:
    """Every entry that has not ended, and the newest ``ended`` others. Blocks. Raises StoreError."""
    entries: list[JobRecord] = []
    unreadable: list[str] = []
    for row in asked(store, "read_entries", {"ended": ended}):
        try:
            entries.append(from_text(JobRecord, row["body"]))
        except Unreadable as error:
            unreadable.append(str(error))
    number = asked(store, "last_entry", {})[0]["number"]
    newest = asked(store, "next_number", {"above": 0})[0]["number"] - 1
    return Kept(entries=tuple(entries), number=int(number), given=int(newest), remarks=tuple(unreadable))


def read_entry(store: "Store", job: JobId) -> JobRecord | None:
    """One entry, however old; ``None`` when there is none. Blocks."""
    rows = asked(store, "read_entry", {"job": job})
    return from_text(JobRecord, rows[0]["body"]) if rows else None


def read_directives(store: "Store", job: JobId) -> tuple[Row, ...]:
    """What one job's launcher was told: number, given_ms, directive, acknowledged_ms, failed. Blocks."""
    rows = asked(store, "read_directives", {"job": job})
    return tuple({**row, "body": from_text(Command, row["body"])} for row in rows)


class KeptLease(TypedDict):
    """A lease as the store keeps it: a ``share`` of a GPU, since when, UTC ms."""

    job: JobId
    gpu: GpuUuid
    share: float
    since_ms: int


def read_leases(store: "Store") -> tuple[KeptLease, ...]:
    """The leases in force. Blocks."""
    return tuple(
        KeptLease(job=row["job"], gpu=row["gpu"], share=row["share"], since_ms=row["since_ms"])
        for row in asked(store, "read_leases", {})
    )


def write_changes(store: "Store", changes: Sequence[Change], at_ms: int) -> None:
    """Keep all of these, in order, or none. Blocks for one commit. Raises StoreFull, StoreDamaged.

    Of several changes of one job every directive is kept, and otherwise what they come to together.
    """
    net: dict[JobId, Change] = {}
    for each in changes:
        first = net.get(each.after.id)
        net[each.after.id] = each if first is None else Change(before=first.before, after=each.after)
    sums = tuple(net.values())
    tables = (
        ("put_entries", "coming", [_entry_row(each.after) for each in sums]),
        ("put_directives", "telling", [row for each in changes for row in _command_rows(each, at_ms)]),
        ("settle_directives", "acknowledged", [row for each in sums for row in _handled(each, at_ms)]),
        ("release_leases", "releasing", [row for each in sums for row in _released(each, at_ms)]),
        ("grant_leases", "granting", [row for each in sums for row in _granted(each, at_ms)]),
    )

    def keep(connection: Any) -> None:
        for name, table, rows in tables:
            if rows:
                _run(connection, name, table, rows)

    store.together(f"keeping {len(changes)} entries of the register", keep)


def put_leases(
    store: "Store",
    closing: Sequence[tuple[JobId, GpuUuid]],
    opening: Sequence[tuple[JobRecord, GpuUuid, float]],
    at_ms: int,
) -> None:
    """Close the rows of pairs in ``closing``, open one for each of ``opening`` with its share, at once.

    Blocks. Raises StoreFull, StoreDamaged.
    """
    closed = [{"job": job, "gpu_uuid": uuid, "at_ms": at_ms} for job, uuid in closing]
    opened = [_lease_row(job, uuid, share, at_ms) for job, uuid, share in opening]

    def keep(connection: Any) -> None:
        for name, table, rows in (
            ("release_leases", "releasing", closed),
            ("grant_leases", "granting", opened),
        ):
            if rows:
                _run(connection, name, table, rows)

    store.together(f"matching {len(closed) + len(opened)} leases with their jobs", keep)


def _run(connection: Any, name: str, table: str, rows: Sequence[Row]) -> None:
    import pyarrow as pa

    connection.register(table, pa.Table.from_pylist(list(rows), schema=pa.schema(_SCHEMAS[table])))
    try:
        connection.execute(statement(name))
    except BaseException:
        with suppress(Exception):  # the transaction is over, and what ended it is what is to be said
            connection.unregister(table)
        raise
    connection.unregister(table)


_SCHEMAS = {
    "coming": [
        ("job", "string"),
        ("number", "int64"),
        ("nonce", "string"),
        ("user_name", "string"),
        ("project", "string"),
        ("stand", "string"),
        ("submitted_ms", "int64"),
        ("ended_ms", "int64"),
        ("body", "string"),
    ],
    "telling": [("number", "int64"), ("job", "string"), ("given_ms", "int64"), ("body", "string")],
    "acknowledged": [("job", "string"), ("handled", "int64"), ("at_ms", "int64"), ("failed", "string")],
    "releasing": [("job", "string"), ("gpu_uuid", "string"), ("at_ms", "int64")],
    "granting": [
        ("lease_id", "string"),
        ("gpu_uuid", "string"),
        ("job", "string"),
        ("user_name", "string"),
        ("project", "string"),
        ("job_name", "string"),
        ("kind", "string"),
        ("share", "double"),
        ("at_ms", "int64"),
    ],
}


def _entry_row(entry: JobRecord) -> Row:
    return {
        "job": entry.id,
        "number": number_of(entry.id),
        "nonce": entry.submission.nonce,
        "user_name": entry.submission.user,
        "project": entry.submission.project,
        "stand": entry.state.value,
        "submitted_ms": entry.submitted_ms,
        "ended_ms": entry.ended_ms,
        "body": to_text(replace(entry, last_seen_ms=None)),
    }


def number_of(job: JobId) -> int:
    """The number in ``fallow:N``."""
    return int(job.partition(":")[2])


def _command_rows(change: Change, at_ms: int) -> Iterable[Row]:
    command = change.after.directive
    earlier = None if change.before is None else change.before.directive
    if command is not None and (earlier is None or earlier.number != command.number):
        body = to_text(command, Command)
        yield {"number": command.number, "job": change.after.id, "given_ms": at_ms, "body": body}


def _handled(change: Change, at_ms: int) -> Iterable[Row]:
    after = change.after
    if change.before is not None and after.acknowledged > change.before.acknowledged:
        yield {"job": after.id, "handled": after.acknowledged, "at_ms": at_ms, "failed": after.failed}


def _holds(entry: JobRecord | None) -> dict[GpuUuid, float]:
    return {} if entry is None else leased_shares(entry)


def _released(change: Change, at_ms: int) -> Iterable[Row]:
    had, has = _holds(change.before), _holds(change.after)
    for uuid, share in had.items():
        if has.get(uuid) != share:
            yield {"job": change.after.id, "gpu_uuid": uuid, "at_ms": at_ms}


def _granted(change: Change, at_ms: int) -> Iterable[Row]:
    had = _holds(change.before)
    for uuid, share in _holds(change.after).items():
        if had.get(uuid) != share:
            yield _lease_row(change.after, uuid, share, at_ms)


def _lease_row(job: JobRecord, uuid: GpuUuid, share: float, at_ms: int) -> Row:
    submission = job.submission
    number = max(job.acknowledged, 0 if job.directive is None else job.directive.number)
    return {
        "lease_id": f"{job.id}/{uuid}/{number}/{at_ms}",
        "gpu_uuid": uuid,
        "job": job.id,
        "user_name": submission.user,
        "project": submission.project,
        "job_name": submission.name or None,
        "kind": submission.kind.value,
        "share": share,
        "at_ms": at_ms,
    }
