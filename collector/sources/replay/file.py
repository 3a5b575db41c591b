"""A recording's file as a table, nothing interpreted: CSV cells stay text, and every row knows its line.

Blocks while the whole file is read into memory; a recording of a month of 1,000 GPUs wants a few GB, so cut
it by day. A file says of itself how much it becomes, and a small one may become anything: it is read piece by
piece, and no further than to what the machine has room for.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from collector.procfs.checkpoint_blockers import available_bytes
from collector.sources.replay.errors import Fault, RecordingUnreadable
from collector.sources.replay.smi import without_units
from collector.spreadsheet import MARKED

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

LEAST_ROOM_BYTES = 4 << 30
"""Where the machine does not say how much is free."""
BATCH_ROWS = 65_536
LONGEST_HEADING = 1 << 20
"""A table of samples has some thirty columns; what lies beyond a MiB is no heading."""


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
        most = room_bytes()
        if ".parquet" in suffixes:
            table = _read_parquet(path, most)
            return Raw(table=table, lines=np.arange(1, table.num_rows + 1))
        if ".csv" in suffixes:
            return _read_csv(path, most)
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


def room_bytes() -> int:
    """How much a table may take: a quarter of the memory that is free, for it is turned into another one."""
    return (available_bytes() or LEAST_ROOM_BYTES) // 4


class _TooLarge(OSError):
    """There is no room for all of it."""


def _too_large(most: int) -> _TooLarge:
    return _TooLarge(
        f"it becomes more than {most / 2**30:.2g} GiB, a quarter of the memory that is free here; cut it by "
        "day"
    )


def _read_parquet(path: Path, most: int) -> pa.Table:
    with pyarrow.parquet.ParquetFile(path) as file:
        schema, batches, size = file.schema_arrow, [], 0
        rows = file.metadata.num_rows
        if rows * max(1, len(schema)) > most:  # a byte a cell is less than any table takes
            raise _too_large(most)
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            size += batch.nbytes
            if size > most:
                raise _too_large(most)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


class _Bounded(io.RawIOBase):
    """What a stream holds, up to so many bytes. Reading on raises ``_TooLarge``."""

    def __init__(self, stream: pa.NativeFile, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, into: "Buffer") -> int:
        """The next bytes."""
        view = memoryview(into).cast("B")
        piece = self._stream.read(len(view))
        self._left -= len(piece)
        if self._left < 0:
            raise _too_large(self._most)
        view[: len(piece)] = piece
        return len(piece)


def _heading(path: Path) -> list[str]:
    """The names in the first line."""
    with pa.input_stream(path, compression="detect") as stream:
        start = stream.read(LONGEST_HEADING)
    if len(start) == LONGEST_HEADING and b"\n" not in start:
        raise _TooLarge(f"its first line has more than {LONGEST_HEADING >> 20} MiB")
    text = (start.rpartition(b"\n")[0] or start).decode("utf-8-sig")
    return next(csv.reader(io.StringIO(text, newline="")), [])


def _read_csv(path: Path, most: int) -> Raw:
    broken: list[tuple[int, str]] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        broken.append((row.number, f"{row.actual_columns} columns instead of {row.expected_columns}"))
        return "skip"

    names = _heading(path)
    with pa.input_stream(path, compression="detect") as stream:
        table = pyarrow.csv.read_csv(
            _Bounded(stream, most),
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
