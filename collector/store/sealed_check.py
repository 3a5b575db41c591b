"""Sealed days that are damaged amid their pages: found, set aside, and replaced by what can still be read.

The end of a Parquet file says nothing of its pages. Each page bears a checksum since days are sealed with
one; a page of an older file that is damaged is noticed only where it cannot be decoded. A row group with a
wrong page is lost as a whole: which GPUs and times that is stands in the file's end, and becomes gaps.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from collector.store.errors import StoreDamaged
from collector.store.sealing import free_name, lies_within, renew_view, write_whole
from collector.store.statements import statement

log = logging.getLogger(__name__)

ASIDE = ".damaged"
SOURCE = "store"
REASON = "the sealed day is damaged on the disk: these samples cannot be read any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedDay:
    """A recorded file, relative to the data folder, and its row groups that cannot be read."""

    path: str
    day: str
    widest_ms: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostSpan:
    """A GPU's samples that are lost, in UTC ms."""

    gpu_id: int
    from_ms: int
    to_ms: int


def damaged_days(
    connection: duckdb.DuckDBPyConnection, folder: Path, span: tuple[int, int] | None = None
) -> Iterator[DamagedDay]:
    """The recorded files, or those of a span (UTC ms), with pages that are wrong.

    Reads every byte of each; one that is gone is no case.
    """
    from_ms, to_ms = span or (None, None)
    rows = connection.execute(
        "SELECT path, CAST(day AS VARCHAR), widest_ms FROM sealed "
        "WHERE $from_ms IS NULL OR day BETWEEN CAST(epoch_ms(CAST($from_ms AS BIGINT)) AS DATE) "
        "AND CAST(epoch_ms(CAST($to_ms AS BIGINT)) AS DATE) ORDER BY day",
        {"from_ms": from_ms, "to_ms": to_ms},
    ).fetchall()
    for path, day, widest_ms in rows:
        groups = damaged_groups(folder / path) if lies_within(path) else ()
        if groups:
            yield DamagedDay(path=path, day=day, widest_ms=widest_ms or 0, groups=groups)


def refuse_damaged(
    connection: duckdb.DuckDBPyConnection, folder: Path, span: tuple[int, int] | None = None
) -> None:
    """Raise StoreDamaged where a sealed day of the span is damaged: reading it may fail, or tell what never
    was, for DuckDB looks at no page's checksum (2.0.0)."""
    for found in damaged_days(connection, folder, span):
        raise StoreDamaged(
            f"the sealed day {folder / found.path} is damaged: {len(found.groups)} of its row groups cannot "
            "be read. The service uses the rest once it has looked through it, at the latest after a day; "
            "`fallow store salvage --yes` does so without it"
        )


def damaged_groups(file: Path) -> tuple[int, ...]:
    """The row groups of a file that cannot be read; none where its end cannot be read: that is told apart."""
    try:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError):
        return ()
    with parquet:
        return tuple(g for g in range(parquet.metadata.num_row_groups) if _read(parquet, g) is None)


def replace_damaged(connection: duckdb.DuckDBPyConnection, folder: Path, found: DamagedDay) -> str:
    """Put what can be read in the file's place, with gaps for the rest, in the caller's transaction; what to
    tell. The damaged file is renamed by ``set_aside``, once this is committed."""
    old = folder / found.path
    target = old.with_name(free_name({old.name}))
    rows = 0
    with pq.ParquetFile(old, page_checksum_verification=True) as parquet:
        good = [g for g in range(parquet.metadata.num_row_groups) if g not in found.groups]
        lost = tuple(lost_spans(parquet, found.groups))
        if good:
            batches = (batch for g in good for batch in parquet.read_row_group(g).to_batches())
            rows = write_whole(pa.RecordBatchReader.from_batches(parquet.schema_arrow, batches), target)
    connection.execute(statement("forget_sealed"), {"day": found.day})
    if good:
        record = {"day": found.day, "path": target.relative_to(folder).as_posix(), "samples": rows}
        record |= {"bytes": target.stat().st_size, "widest_ms": found.widest_ms}
        connection.execute(statement("record_sealed"), record)
    for span in lost:
        gap = {"source": SOURCE, "node": None, "gpu_id": span.gpu_id, "reason": REASON}
        connection.execute(statement("insert_gap"), {**gap, "from_ms": span.from_ms, "to_ms": span.to_ms})
    renew_view(connection, folder)
    said = (
        f"the sealed day {old} is damaged: {len(found.groups)} of {len(found.groups) + len(good)} row groups "
        f"cannot be read, samples of {len({span.gpu_id for span in lost})} GPUs. They are gaps now (minutes "
        f"and hours are kept); what can be read is used, and the damaged file is kept as {old.name}{ASIDE}"
    )
    log.error("%s", said)
    return said


def set_aside(folder: Path, found: DamagedDay) -> None:
    """Keep the damaged file under another name."""
    old = folder / found.path
    old.rename(old.with_name(old.name + ASIDE))


def lost_spans(parquet: Any, groups: tuple[int, ...]) -> Iterator[LostSpan]:
    """Whose samples of when the row groups held, by the file's end and the groups beside them."""
    for group in groups:
        low, high = _bounds(parquet, group, "gpu_id")
        first, last = _bounds(parquet, group, "ts")
        before = _times(parquet, group - 1) if group and group - 1 not in groups else {}
        later = group + 1 < parquet.metadata.num_row_groups and group + 1 not in groups
        after = _times(parquet, group + 1) if later else {}
        for gpu_id in range(low, high + 1):
            from_ms = before[gpu_id][1] if gpu_id in before else _ms(first)
            to_ms = after[gpu_id][0] if gpu_id in after else _ms(last)
            if from_ms < to_ms:
                yield LostSpan(gpu_id=gpu_id, from_ms=from_ms, to_ms=to_ms)


def _times(parquet: Any, group: int) -> dict[int, tuple[int, int]]:
    """The first and last time of each GPU in a row group that can be read; UTC ms."""
    table = parquet.read_row_group(group, columns=["gpu_id", "ts"])
    found = table.group_by("gpu_id").aggregate([("ts", "min"), ("ts", "max")]).to_pylist()
    return {row["gpu_id"]: (_ms(row["ts_min"]), _ms(row["ts_max"])) for row in found}


def _bounds(parquet: Any, group: int, name: str) -> tuple[Any, Any]:
    column = parquet.schema_arrow.get_field_index(name)
    told = parquet.metadata.row_group(group).column(column).statistics
    return told.min, told.max


def _read(parquet: Any, group: int) -> Any:
    try:
        return parquet.read_row_group(group)
    except (pa.ArrowException, OSError):
        return None


def _ms(at: datetime) -> int:
    return round(at.replace(tzinfo=UTC).timestamp() * 1000)
