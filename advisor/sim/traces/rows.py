"""Reading trace files row by row: columns checked once, and a bad row named instead of lost.

A reader hands ``read_rows`` a function that makes a job of a row and raises ``Refused`` with the reason when
the row makes no sense. Blocks on files.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from advisor.sim.workload import BadRow, TraceJob, Workload

Row = dict[str, str]


class TraceError(Exception):
    """The trace as a whole cannot be read; the message names the file and what to do next."""


class Refused(Exception):
    """This row makes no sense; the message says what is wrong."""


class Unwanted(Exception):
    """This row is well formed and was not asked for; the message is why, the same for all such rows."""


def table(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a CSV file, gzipped or not. Raises TraceError when it or a column is missing."""
    try:
        with _open(path) as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(
                    f"reading {path}: it has no column {', '.join(missing)}, but {reader.fieldnames}; "
                    "is this the right --format?"
                )
            yield from reader
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"reading {path}: {error}; give --trace a CSV file, gzipped or not") from error


def read_rows(path: Path, columns: Sequence[str], job_of: Callable[[Row], TraceJob]) -> Workload:
    """All rows as jobs, sorted by submission and name; the first submission is second 0."""
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    unwanted: Counter[str] = Counter()
    for line, row in enumerate(table(path, columns), start=2):
        try:
            cut = next((name for name in columns if row[name] is None), None)
            if cut is not None:
                raise Refused(f"the row ends before its column {cut}")
            jobs.append(job_of(row))
        except Refused as refused:
            bad.append(BadRow(line=line, reason=str(refused)))
        except Unwanted as reason:
            unwanted[str(reason)] += 1
    if not jobs:
        said = "; ".join(f"line {each.line}: {each.reason}" for each in bad[:3])
        raise TraceError(
            f"reading {path}: none of its {len(bad) + unwanted.total()} rows is a job to simulate"
            f"{'; ' + said if said else ''}{_told(unwanted)}"
        )
    jobs.sort(key=lambda job: (job.submitted_s, job.name))
    return Workload(
        origin=path.name,
        jobs=tuple(jobs),
        bad_rows=tuple(bad),
        left_out=tuple(sorted(unwanted.items())),
    )


def whole(row: Row, column: str, *, least: int = 0) -> int:
    """A whole number of at least ``least``. Raises Refused."""
    value = number(row, column, least=least)
    if value != int(value):
        raise Refused(f"{column} is {row[column]!r}, not a whole number")
    return int(value)


def number(row: Row, column: str, *, least: float = 0.0) -> float:
    """A finite number of at least ``least``. Raises Refused."""
    text = row.get(column)
    try:
        value = float(text or "")
    except ValueError:
        raise Refused(f"{column} is {text!r}, not a number") from None
    if not least <= value < float("inf"):
        raise Refused(f"{column} is {text!r}, which must be at least {least:g} and finite")
    return value


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _told(unwanted: Counter[str]) -> str:
    return "".join(f"; {count} rows: {reason}" for reason, count in sorted(unwanted.items()))
