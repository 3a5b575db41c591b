"""Writes telemetry out as files that anybody can read and that ``--source replay=FILE`` takes back.

Columns and units are in ``docs/schema.md``. Streams: memory does not grow with the span.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from collector.arrow import SIMULATED_COLUMN
from collector.spreadsheet import FORMULA, MARK
from collector.store.errors import ExportNoRoom, ExportTooLarge
from collector.store.statements import statement

Format = Literal["parquet", "csv"]
BATCH_ROWS = 122_880
"""DuckDB's own size of a row group."""
OF_HOLDERS = "holder_samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportBounds:
    """The most that an export's files take together, and what they leave free of the disk."""

    most_bytes: int
    least_free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The files written, and the rows in each."""

    files: tuple[Path, ...]
    rows: tuple[int, ...]


def export(
    connection: duckdb.DuckDBPyConnection,
    out: Path,
    kind: Format,
    span_ms: tuple[int, int],
    *,
    simulated: bool = False,
    bounds: ExportBounds | None = None,
) -> Exported:
    """Write samples, allocations and gpus of a span into the folder ``out``, made if missing.

    And what holders of shared GPUs did, where an exporter told it.

    Where they are ``simulated``, each row says so in a last column of that name.
    Existing files of the same names are replaced; each appears whole or not at all. Raises ExportTooLarge
    past the bounds.
    """
    out.mkdir(parents=True, exist_ok=True)
    span = dict(zip(("from_ms", "to_ms"), span_ms, strict=True))
    jobs: tuple[tuple[str, Mapping[str, int]], ...] = (
        ("samples", span),
        (OF_HOLDERS, span),
        ("allocations", span),
        ("gpus", {}),
    )
    files: list[Path] = []
    rows: list[int] = []
    for name, parameters in jobs:
        found = connection.sql(statement(f"export_{name}"), params=dict(parameters) or None)
        target = out / f"{name}.{kind}"
        batches = found.to_arrow_reader(BATCH_ROWS)
        written = _write(_invented(batches) if simulated else batches, target, kind, (files, bounds))
        if not written and name == OF_HOLDERS:  # few have any: a file of none would be one more for everybody
            target.unlink()
            continue
        rows.append(written)
        files.append(target)
    return Exported(files=tuple(files), rows=tuple(rows))


def _invented(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    schema = batches.schema.append(pa.field(SIMULATED_COLUMN, pa.bool_()))
    rows = (
        pa.RecordBatch.from_arrays([*each.columns, pa.repeat(True, each.num_rows)], schema=schema)
        for each in batches
    )
    return pa.RecordBatchReader.from_batches(schema, rows)


Fill = tuple[list[Path], ExportBounds | None]
"""The files that are there already, and the bounds of all."""


def _write(batches: pa.RecordBatchReader, target: Path, kind: Format, fill: Fill) -> int:
    temporary = target.with_name(f".{target.name}.writing")
    rows = 0
    try:
        temporary.unlink(missing_ok=True)
        # "x": never through a link, for others may share the folder
        with temporary.open("xb") as sink, _writer(sink, batches.schema, kind) as writer:
            for batch in batches:
                writer.write_batch(_marked(batch) if kind == "csv" else batch)
                rows += batch.num_rows
                sink.flush()
                _must_fit(temporary, fill)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _must_fit(growing: Path, fill: Fill) -> None:
    files, bounds = fill
    if bounds is None:
        return
    taken = sum(each.stat().st_size for each in (*files, growing))
    if taken > bounds.most_bytes:
        raise ExportTooLarge(
            f"the export would have more than {bounds.most_bytes / 2**30:.3g} GiB (api.export_gib); ask for "
            "a shorter span, several one after the other, or Parquet instead of CSV"
        )
    free = shutil.disk_usage(growing.parent).free
    if free < bounds.least_free_bytes:
        raise ExportNoRoom(
            f"the export would leave the service's disk less than {bounds.least_free_bytes / 2**30:.3g} GiB; "
            "ask for a shorter span"
        )


def _writer(sink: BinaryIO, schema: pa.Schema, kind: Format) -> pq.ParquetWriter | pyarrow.csv.CSVWriter:
    if kind == "csv":
        return pyarrow.csv.CSVWriter(sink, schema)
    return pq.ParquetWriter(sink, schema, compression="zstd")


def _marked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with every text that a spreadsheet would run marked as text."""
    columns = [
        pc.replace_substring_regex(column, FORMULA, rf"{MARK}\1")
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
