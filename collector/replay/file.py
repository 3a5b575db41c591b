"""A recording's file as a table, nothing interpreted: CSV cells stay text, and every row knows its line.

Blocks while the whole file is read into memory; a recording of a month of 1,000 GPUs wants a few GB, so cut
it by day.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from collector.replay.errors import RecordingUnreadable
from collector.replay.faults import Fault
from collector.replay.smi import without_units
from collector.spreadsheet import MARKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """The rows as they stand, the 1-based line (or row) of each, and the lines that were broken."""

    table: pa.Table
    lines: npt.NDArray[np.int64]
    faults: tuple[Fault, ...] = ()


def read_raw(path: Path) -> Raw:
    """The file's rows: ``.parquet``, or ``.csv`` also compressed. Raises RecordingUnreadable."""
    suffixes = path.suffixes
    try:
        if ".parquet" in suffixes:
            table = pyarrow.parquet.read_table(path)
            return Raw(table=table, lines=np.arange(1, table.num_rows + 1))
        if ".csv" in suffixes:
            return _read_csv(path)
    except UnicodeDecodeError as error:
        raise RecordingUnreadable(
            f"replaying {path}: it is not text in UTF-8 ({error.reason}). Save it so, or give a compressed "
            "file the name that says so, such as .csv.gz"
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise RecordingUnreadable(
            f"replaying {path}: it could not be read: {error}. Is it complete, and what its name says?"
        ) from error
    raise RecordingUnreadable(
        f"replaying {path}: the kind of file is not known from its name; "
        "give .parquet, .csv, or a compressed .csv such as .csv.gz"
    )


def _read_csv(path: Path) -> Raw:
    broken: list[tuple[int, str]] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        broken.append((row.number, f"{row.actual_columns} columns instead of {row.expected_columns}"))
        return "skip"

    with pa.input_stream(path, compression="detect") as stream:
        names = next(csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")), [])
    table = pyarrow.csv.read_csv(
        path,
        # One thread: only then does the reader number the rows that it refuses.
        read_options=pyarrow.csv.ReadOptions(use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=note, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    lines = np.arange(2, table.num_rows + len(broken) + 2)  # line 1 has the names
    bad = np.array([number for number, _ in broken], np.int64)
    return Raw(
        table=without_units(_as_it_was(table)),
        lines=lines[~np.isin(lines, bad)] if len(bad) else lines,
        faults=tuple(Fault(line=number, reason=reason) for number, reason in broken),
    )


def _as_it_was(table: pa.Table) -> pa.Table:
    """Names without blanks around them, and cells without the mark that keeps spreadsheets from running them
    (``collector.spreadsheet``)."""
    columns = [pc.replace_substring_regex(column, MARKED, r"\1") for column in table.columns]
    return pa.table(columns, names=[name.strip() for name in table.column_names])
