"""Opens a file of past jobs and says what it is by what stands in it: nobody has to name the format. Blocks.

Text is read line by line; JSON as a whole, so a file of it may have 512 MiB at most.
"""

import csv
import gzip
import json
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from collector.managers.histories.batch import PBS_RECORD, lsf_records, pbs_records, swf_records
from collector.managers.histories.cluster import kueue_records, ray_records
from collector.managers.histories.model import HistoryError, Record
from collector.managers.histories.slurm import json_records, text_records
from collector.managers.histories.table import columns_of, table_records

HEAD_CHARS = 65_536
"""Ours: enough for any heading, and for the first record of each format."""

MOST_JSON_CHARS = 512 << 20
"""Ours: json.loads takes about ten times as much memory as the text."""

GZIP_MAGIC = b"\x1f\x8b"


class HistoryFormat(StrEnum):
    """Who wrote a history of jobs, as it is said on a command line."""

    SACCT = "sacct"
    SACCT_JSON = "sacct-json"
    PBS = "pbs"
    LSF = "lsf"
    SWF = "swf"
    KUEUE = "kueue"
    RAY = "ray"
    TABLE = "table"


REMARKS = {
    HistoryFormat.SWF: "Each processor of the Standard Workload Format is taken as a GPU.",
    HistoryFormat.RAY: "Ray's list names the GPUs of entry points alone, not those of tasks and actors.",
}
"""What a format cannot tell, for whoever looks at the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The records of a file, read as they are asked for, each with its line or its place in a list."""

    format: HistoryFormat
    records: Iterator[tuple[int, Record]]


@contextmanager
def text_of(path: Path) -> Iterator[TextIO]:
    """A file's text, gzipped or not; what is no UTF-8 is replaced. HistoryError, also while it is read."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
        opener: Any = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            yield file
    except (HistoryError, csv.Error, json.JSONDecodeError, RecursionError) as error:
        raise HistoryError(f"reading {path}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise HistoryError(f"reading {path}: {error}; it is cut or damaged, fetch it again") from error
    except OSError as error:
        raise HistoryError(f"reading {path}: {error.strerror or error}") from error


@contextmanager
def opened(path: Path, format: HistoryFormat | None = None, zone: tzinfo = UTC) -> Iterator[History]:
    """A history of jobs, of ``format`` or of the one that it is recognized as.

    ``zone`` is that of times in a table that name none.

    Raises HistoryError, also while records are read.
    """
    with text_of(path) as file:
        head = file.read(HEAD_CHARS)
        file.seek(0)
        format_name = format or recognized(head)
        yield History(format=format_name, records=_READERS[format_name](file, path, zone))


def recognized(head: str) -> HistoryFormat:
    """Who wrote a text that begins with ``head``. Raises HistoryError where nothing is known of it."""
    stripped = head.lstrip("\ufeff \t\r\n")
    first = next((line for line in stripped.splitlines() if line.strip()), "")
    if stripped.startswith("["):
        return HistoryFormat.RAY
    if stripped.startswith("{"):
        return HistoryFormat.KUEUE if '"items"' in stripped else HistoryFormat.SACCT_JSON
    if PBS_RECORD.fullmatch(first):
        return HistoryFormat.PBS
    if first.startswith('"JOB_'):
        return HistoryFormat.LSF
    if first.startswith(";") or _is_swf(first):
        return HistoryFormat.SWF
    if "|" in first and "jobid" in first.lower():
        return HistoryFormat.SACCT
    if "," in first and not first.replace(",", "").replace(".", "").isdecimal():
        return HistoryFormat.TABLE
    raise HistoryError(
        f"nothing that is known begins with {first[:60]!r}; a heading is needed where there are columns. "
        f"What is read: {', '.join(HistoryFormat)}"
    )


def _is_swf(line: str) -> bool:
    cells = line.split()
    return len(cells) == 18 and all(cell.lstrip("-").replace(".", "", 1).isdecimal() for cell in cells)


def _whole(file: TextIO) -> Any:
    text = file.read(MOST_JSON_CHARS + 1)
    if len(text) > MOST_JSON_CHARS:
        raise HistoryError("more than 512 MiB of JSON; save it by month")
    return json.loads(text)


def _object(file: TextIO) -> dict[str, Any]:
    document = _whole(file)
    if not isinstance(document, dict):
        raise HistoryError("its JSON is no object")
    return document


def _of_lines(reader: Callable[[Iterable[str]], Iterator[tuple[int, Record]]]) -> "_Reader":
    return lambda file, _path, _zone: reader(file)


def _sacct_json(file: TextIO, _path: Path, _zone: tzinfo) -> Iterator[tuple[int, Record]]:
    yield from json_records(_object(file))


def _kueue(file: TextIO, _path: Path, _zone: tzinfo) -> Iterator[tuple[int, Record]]:
    yield from kueue_records(_object(file))


def _ray(file: TextIO, _path: Path, _zone: tzinfo) -> Iterator[tuple[int, Record]]:
    jobs = _whole(file)
    if not isinstance(jobs, list):
        raise HistoryError("its JSON is no list of jobs; save what GET /api/jobs/ answers")
    yield from ray_records(jobs)


def _table(file: TextIO, path: Path, zone: tzinfo) -> Iterator[tuple[int, Record]]:
    reader = csv.reader(file)
    heading = next(reader, [])
    columns = columns_of(heading, _mapping(path))
    rows = ((reader.line_num, row) for row in reader if row)
    yield from table_records(columns, len(heading), rows, zone)


def _mapping(path: Path) -> dict[str, str] | None:
    """``FILE.toml`` beside the table: our column, and what the table calls it."""
    beside = path.with_name(path.name + ".toml")
    if not beside.exists():
        return None
    try:
        table = tomllib.loads(beside.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HistoryError(f"{beside.name}: {error}") from error
    if not all(isinstance(each, str) for each in table.values()):
        raise HistoryError(f'{beside.name}: each line names a column, like gpus = "GPUs used"')
    return table


_Reader = Callable[[TextIO, Path, tzinfo], Iterator[tuple[int, Record]]]
_READERS: dict[HistoryFormat, _Reader] = {
    HistoryFormat.SACCT: _of_lines(text_records),
    HistoryFormat.SACCT_JSON: _sacct_json,
    HistoryFormat.PBS: _of_lines(pbs_records),
    HistoryFormat.LSF: _of_lines(lsf_records),
    HistoryFormat.SWF: _of_lines(swf_records),
    HistoryFormat.KUEUE: _kueue,
    HistoryFormat.RAY: _ray,
    HistoryFormat.TABLE: _table,
}
