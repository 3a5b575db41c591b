"""Sealed days in a bucket: copied there before the retention lets go of them, and read by the same queries.

A day counts as archived once its object was read back and the table ``archived`` names it; nothing else in
the bucket is ever read. Keys carry a hash of the content, so that a copy that was cut short, or another
store's, is never taken for this one. Queries find an archived day in ``samples_all`` as any other: for the
time of one question, on its own connection, that view has the days of its span too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

import duckdb

from collector.store.bucket import COPY_TRIES, ArchivePlace, Bucket, reason_of, sha256_of
from collector.store.errors import ArchiveAway
from collector.store.sealed_check import damaged_groups
from collector.store.sealing import wrong_with
from collector.store.statements import statement

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from collector.store.database import Store

Reader = duckdb.DuckDBPyConnection
"""What ``Store.reader`` hands out."""

HASH_DIGITS = 16
"""64 bits: no two days of a bucket share them by chance."""
SCANNED = "archived_samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedDay:
    """A day that was copied; ``key`` is below the place's address."""

    day: str
    key: str
    bytes: int


def archive_days(
    store: "Store", place: ArchivePlace, before_ms: int, kept_from_ms: int | None = None
) -> tuple[ArchivedDay, ...]:
    """Copy whole UTC days before ``before_ms`` to the bucket; ticks go on meanwhile. Blocks.

    Objects of days before ``kept_from_ms`` are deleted. Raises ArchiveAway at the end of what could be done:
    for a bucket that fails, or a day that cannot be read. What it did until then is kept.
    """
    bucket = Bucket(place, tries=COPY_TRIES)
    _note_place(store, place)
    _remove(store, bucket, kept_from_ms)
    with store.reader() as connection:
        waiting = connection.execute(statement("archivable_days"), {"before_ms": before_ms}).fetchall()
    done, broken = [], []
    for day, path, sealed_at, samples, size in waiting:
        file = store.folder / path
        trouble = wrong_with(store.folder, path, size)
        if trouble is None and damaged_groups(file):
            trouble = "is damaged"
        if trouble is not None:
            broken.append(f"{path} {trouble}")
            continue
        digest = sha256_of(file)
        key = f"day={day}/samples-{digest[:HASH_DIGITS]}.parquet"
        bucket.put(file, key, digest)
        record = {"day": day, "path": path, "sealed_at": sealed_at, "key": key, "sha256": digest}
        with store.writing("noting an archived day") as connection:
            connection.execute(statement("record_archived"), {**record, "samples": samples, "bytes": size})
        done.append(ArchivedDay(day=day, key=key, bytes=size))
    if broken:
        raise ArchiveAway(
            f"{len(broken)} sealed days cannot be copied to the archive, and stay on this disk: "
            f"{'; '.join(broken[:3])}"
        )
    return tuple(done)


@contextmanager
def reaching(connection: Reader, from_ms: int, to_ms: int) -> Iterator[None]:
    """Within the block, ``samples_all`` on this connection has the archived days of a span (UTC ms, both ends
    included) too; in a transaction or not. Raises ArchiveAway where one cannot be read: an answer without it
    would look whole."""
    span = {"from_ms": from_ms, "to_ms": to_ms}
    found = connection.execute(statement("archived_days"), span).fetchall()
    if not found:
        yield
        return
    bucket = Bucket(read_place(connection))
    _must_be_whole(bucket, found)
    connection.register(SCANNED, _dataset(connection, bucket, [key for _, key, _ in found]))
    (catalog,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    named = '"' + str(catalog).replace('"', '""') + '"'
    # A temporary view hides the store's own on this connection alone: others go on without the bucket.
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW samples_all AS SELECT * FROM {named}.main.samples_all "
        f"UNION ALL BY NAME SELECT * FROM {SCANNED}"
    )
    try:
        yield
    except (duckdb.Error, OSError) as error:
        # A question that was interrupted, or that is wrong itself, is no fault of the bucket.
        if isinstance(error, duckdb.InterruptException) or SCANNED not in str(error):
            raise
        raise _unread(bucket.place, found, reason_of(error)) from error
    finally:
        connection.execute("DROP VIEW IF EXISTS temp.samples_all")
        connection.unregister(SCANNED)


def read_place(connection: Reader) -> ArchivePlace:
    """Where the archived days are. Raises ArchiveAway where nobody noted it."""
    row = connection.execute(statement("read_archive_place")).fetchone()
    if row is None:
        raise ArchiveAway(
            "the store does not say where its archived days are; start the service with [archive]"
        )
    address, endpoint, region, ca_file = row
    return ArchivePlace(address=address, endpoint=endpoint, region=region, ca_file=ca_file)


def _note_place(store: "Store", place: ArchivePlace) -> None:
    with store.reader() as connection:
        row = connection.execute(statement("read_archive_place")).fetchone()
    if row != (place.address, place.endpoint, place.region, place.ca_file):
        with store.writing("noting where the archive is") as connection:
            connection.execute(statement("clear_archive_place"))
            connection.execute(statement("insert_archive_place"), asdict(place))


def _remove(store: "Store", bucket: Bucket, kept_from_ms: int | None) -> None:
    """Delete objects whose time is over, and those that a newer copy replaces; the record goes last."""
    with store.reader() as connection:
        keys = connection.execute(statement("stale_archived")).fetchall()
        if kept_from_ms is not None:
            span = {"before_ms": kept_from_ms}
            keys += connection.execute(statement("expired_archived"), span).fetchall()
    for (key,) in keys:
        bucket.delete(key)
        with store.writing("forgetting an archived day") as connection:
            connection.execute(statement("forget_archived"), {"key": key})


def _must_be_whole(bucket: Bucket, found: list[tuple[str, str, int]]) -> None:
    try:
        sizes = bucket.sizes([key for _, key, _ in found])
    except ArchiveAway as error:
        raise _unread(bucket.place, found, reason_of(error.__cause__ or error)) from error
    wrong = [(day, key, size) for day, key, size in found if sizes[key] != size]
    if wrong:
        _, key, size = wrong[0]
        held = "no such object" if sizes[key] is None else f"{sizes[key]} bytes"
        raise _unread(bucket.place, wrong, f"{key} should have {size} bytes, found {held}")


def _dataset(connection: Reader, bucket: Bucket, keys: list[str]) -> "ds.Dataset":
    """The objects as one table with the columns of ``samples``; what an older file lacks is NULL."""
    import pyarrow.dataset as ds  # half a second of processor time, for who has an archive

    none = cast("pa.Table", connection.execute("SELECT * FROM samples LIMIT 0").to_arrow_table())
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True, pre_buffer=True)
    return ds.dataset(
        [bucket.path(key) for key in keys],
        schema=none.schema,
        filesystem=bucket.files,
        format=ds.ParquetFileFormat(default_fragment_scan_options=checked),
    )


def _unread(place: ArchivePlace, found: list[tuple[str, str, int]], why: str) -> ArchiveAway:
    days = sorted({day for day, _, _ in found})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return ArchiveAway(
        f"the samples of {span} are archived at {place.shown} and cannot be read now: {why}. Ask again, or "
        "for a window without those days; their minutes and hours are kept here"
    )
