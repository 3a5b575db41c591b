"""Moves past days from the hot table to one Parquet file a day, which anybody can read.

The commit is the only moment of truth: a file counts once the table ``sealed`` names it, and that record,
the removal from the hot table and the new ``samples_all`` are one transaction. So after a crash a file is
either recorded, and its rows are nowhere else, or it is not, and its rows are still in the hot table.

Encoding: sorted by (GPU, time), so that neighbours are alike; every integer as DELTA_BINARY_PACKED, then
zstd. ``bench/store.py`` has the sizes, beside Prometheus and VictoriaMetrics.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from collector.store.statements import statement

DAY_MS = 86_400_000
SEALED_FOLDER = "sealed"
ROW_GROUP_ROWS = 122_880
"""DuckDB's own size of a row group, so that a sealed day is read by as many threads as a table."""
ZSTD_LEVEL = 9
_TEMPORARY = ".writing"
_UNCLAIMED = ".unclaimed"
ELSEWHERE = f"is outside of the store's folder {SEALED_FOLDER}: no day of it is read from there"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDay:
    """A day in its file; ``path`` is relative to the data folder."""

    day: str
    path: str
    samples: int
    bytes: int


def seal_day(connection: duckdb.DuckDBPyConnection, folder: Path, day_ms: int) -> SealedDay | None:
    """Move one day (UTC, starting at ``day_ms``) out of the hot table, inside the caller's transaction.

    A day that was sealed before is written anew with what came late. ``None`` when the hot table has no
    row of that day, or an earlier file of it is missing. The file is on disk, whole, when this returns; the
    caller commits.
    """
    span = {"from_ms": day_ms, "to_ms": day_ms + DAY_MS}
    counted = connection.execute(statement("count_hot"), span).fetchone()
    if not counted or not counted[0]:
        return None
    day = str(counted[1])
    before = connection.execute(statement("sealed_of_day"), {"day": day}).fetchall()
    # The new file takes the place of all earlier ones of the day: the rows of one that is missing now would
    # be forgotten, though somebody may yet put it back.
    if any(_wrong(folder / path, size) for path, size in before):
        return None
    target = folder / SEALED_FOLDER / f"day={day}" / free_name({path for path, _ in before})
    batches = connection.sql(statement("read_day"), params=span).to_arrow_reader(ROW_GROUP_ROWS)
    rows = write_whole(batches, target)
    record = {
        "day": day,
        "path": target.relative_to(folder).as_posix(),
        "samples": rows,
        "bytes": target.stat().st_size,
    }
    connection.execute(statement("forget_sealed"), {"day": day})
    connection.execute(statement("record_sealed"), {**record, "widest_ms": counted[2]})
    # Before the rows leave: a GPU that fell silent is still shown with its newest sample (decision 0019).
    connection.execute(statement("keep_latest"), span)
    connection.execute(statement("clear_hot"), span)
    renew_view(connection, folder)
    return SealedDay(day=day, path=str(record["path"]), samples=rows, bytes=int(str(record["bytes"])))


def renew_view(connection: duckdb.DuckDBPyConnection, folder: Path) -> tuple[str, ...]:
    """Let ``samples_all`` read the recorded files, in the caller's transaction; what to tell of missing ones.

    A file that is gone, has another size than recorded, or is no Parquet any more, is left out until it is
    put back: one lost day must not stop the watching of all others.
    """
    broken = broken_days(connection, folder)
    remarks = tuple(
        f"the sealed day {folder / path} {found}: its samples are left out (its minutes and hours are not); "
        "put the file back from a backup and start again"
        for path, found in broken.items()
    )
    recorded = connection.execute("SELECT path FROM sealed ORDER BY day").fetchall()
    usable = [path for (path,) in recorded if path not in broken]
    if not usable:
        connection.execute("CREATE OR REPLACE VIEW samples_all AS SELECT * FROM samples")
        return remarks
    files = ", ".join("'" + path.replace("'", "''") + "'" for path in usable)
    connection.execute(
        "CREATE OR REPLACE VIEW samples_all AS SELECT * FROM samples UNION ALL BY NAME "
        f"SELECT * EXCLUDE (uuid) FROM read_parquet([{files}], hive_partitioning = false, "
        "union_by_name = true)"
    )
    return remarks


def lies_within(path: str) -> bool:
    """Whether a recorded path is in the sealed folder: whoever made a store's file wrote its paths."""
    parts = Path(path).parts
    return len(parts) == 3 and parts[0] == SEALED_FOLDER and ".." not in parts


def broken_days(connection: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, str]:
    """The recorded files that cannot be read, and what is wrong with each."""
    recorded = connection.execute("SELECT path, bytes FROM sealed ORDER BY day").fetchall()
    looked = ((path, wrong_with(folder, path, size)) for path, size in recorded)
    return {path: wrong for path, wrong in looked if wrong is not None}


def wrong_with(folder: Path, path: str, size: int) -> str | None:
    """What is wrong with a recorded file; ``None``: nothing, as far as its end tells."""
    return _wrong(folder / path, size) if lies_within(path) else ELSEWHERE


def days_to_seal(connection: duckdb.DuckDBPyConnection, before_ms: int) -> tuple[int, ...]:
    """The starts, UTC ms, of the whole days before ``before_ms`` that have rows in the hot table."""
    bound = {"before_ms": before_ms // DAY_MS * DAY_MS}
    return tuple(row[0] for row in connection.execute(statement("hot_days"), bound).fetchall())


def sweep(connection: duckdb.DuckDBPyConnection, folder: Path) -> tuple[Path, ...]:
    """Remove what a crash left in the sealed folder; returns files set aside because nothing explains them.

    A file without a record goes when its rows are in the hot table or in a later file of the day, or when
    the retention let go of the day. Any other is renamed to ``*.unclaimed`` and kept.
    """
    expired = _expired_before(connection)
    recorded = {row[0]: row[1] for row in connection.execute("SELECT path, day FROM sealed").fetchall()}
    sealed_days = {str(day) for day in recorded.values()}
    aside = []
    for file in sorted((folder / SEALED_FOLDER).glob("day=*/*")):
        if file.name.endswith(_TEMPORARY):
            file.unlink()
        elif file.suffix == ".parquet" and file.relative_to(folder).as_posix() not in recorded:
            day = file.parent.name.removeprefix("day=")
            if day in sealed_days or day < expired or _is_hot(connection, file):
                file.unlink()
            else:
                aside.append(file.rename(file.with_name(file.name + _UNCLAIMED)))
    return tuple(aside)


def remove_files(folder: Path, paths: Iterable[str]) -> None:
    """Delete files that are recorded no more, and their empty folders."""
    for path in filter(lies_within, paths):
        file = folder / path
        file.unlink(missing_ok=True)
        if file.parent.is_dir() and not any(file.parent.iterdir()):
            file.parent.rmdir()


def free_name(before: set[str]) -> str:
    """``samples.parquet``, and for a day written anew a name that no recorded file has."""
    taken = {Path(path).name for path in before}
    number = len(taken) + 1
    while (name := "samples.parquet" if number == 1 else f"samples-{number}.parquet") in taken:
        number += 1
    return name


def _wrong(file: Path, size: int) -> str | None:
    """What is wrong with a file that was recorded; ``None``: nothing, as far as its end tells."""
    if not file.is_file():
        return f"should have {size} bytes, found no file"
    if file.stat().st_size != size:
        return f"should have {size} bytes, found {file.stat().st_size}"
    try:
        pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        return f"is damaged ({error})"
    return None


def write_whole(batches: pa.RecordBatchReader, target: Path) -> int:
    """All rows in ``target``, on disk; the file appears at once or not at all. The number of rows."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + _TEMPORARY)
    rows = 0
    try:
        with temporary.open("wb") as file:
            with pq.ParquetWriter(file, batches.schema, **_encoding(batches.schema)) as writer:
                for batch in batches:
                    writer.write_batch(batch, row_group_size=ROW_GROUP_ROWS)
                    rows += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # A power cut takes a new name, or a new day's folder, with it until the folder above is on the disk too.
    for made in (target.parent, target.parent.parent):
        _sync_folder(made)
    return rows


def _encoding(schema: pa.Schema) -> dict[str, object]:
    words = [field.name for field in schema if pa.types.is_string(field.type)]
    numbers = [field.name for field in schema if field.name not in words]
    return {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL,
        "use_dictionary": words,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "write_statistics": True,
        "write_page_checksum": True,
    }


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _expired_before(connection: duckdb.DuckDBPyConnection) -> str:
    """The first day, YYYY-MM-DD, that the retention keeps; empty before anything was let go of."""
    row = connection.execute(statement("first_kept_day")).fetchone()
    return row[0] if row else ""


def _is_hot(connection: duckdb.DuckDBPyConnection, file: Path) -> bool:
    """Whether every row of the file is in the hot table too."""
    try:
        missing = connection.execute(statement("rows_not_hot"), {"path": str(file)}).fetchone()
    # A file that cannot be read explains nothing: it is set aside, never removed.
    except duckdb.Error:
        return False
    return missing is not None and missing[0] == 0
