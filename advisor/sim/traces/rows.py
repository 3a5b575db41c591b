"""Reading trace files row by row: columns checked once, and a bad row named instead of lost.

A reader hands ``read_rows`` a function that makes a job of a row and raises ``Refused`` with the reason when
the row makes no sense. Blocks on files.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median_low
from typing import TextIO

from advisor.sim.cluster import MOST_GPUS
from advisor.sim.workload import BadRow, TraceJob, Workload

YEAR_S = 365 * 86_400.0
MOST_S = 5 * YEAR_S
"""No job runs longer, and none is submitted farther from the middle one: such times are slips of a pen.

The traces that are read here span up to five months; a job of theirs runs for as many at most.
"""

MOST = 1e12
"""No number in a trace is larger: as seconds these are 31,689 years."""

# More names than that hide the sentence.
NAMED_COLUMNS = 12

Row = dict[str, str]


class TraceError(Exception):
    """The trace as a whole cannot be read; the message names the file and what to do next."""


class Refused(Exception):
    """This row makes no sense; the message says what is wrong."""


class Unwanted(Exception):
    """This row is well formed and was not asked for; the message is why, the same for all such rows."""


def table(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a CSV file, gzipped or not. Raises TraceError when it or a column is missing."""
    return (row for _, row in numbered(path, columns))


def numbered(
    path: Path, columns: Sequence[str], hint: str = "give a CSV file, gzipped or not"
) -> Iterator[tuple[int, Row]]:
    """The same, each with the line of the file on which it ends; empty lines are lines, and no rows."""
    try:
        with _open(path) as lines:
            reader = csv.DictReader(lines)
            _check_heading(path, columns, reader.fieldnames)
            for row in reader:
                yield reader.line_num, row
    except OSError as error:
        result = error.strerror or str(error)
        raise TraceError(f"reading {path}: {result}; {hint}") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"reading {path}: {error}; it is cut or damaged, fetch it again") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"reading {path}: {error}; give a CSV file in UTF-8, gzipped or not") from error


def measured(path: Path, columns: Sequence[str], take: Callable[[Row], None]) -> None:
    """Hand each row of a table beside the trace to ``take``; where that fails, TraceError names the line."""
    for line, row in numbered(path, columns, "this table lies in the trace's own folder"):
        try:
            take(row)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise TraceError(f"reading {path}: line {line} is no measurement: {error}") from error


def read_rows(path: Path, columns: Sequence[str], job_of: Callable[[Row], TraceJob]) -> Workload:
    """All rows as jobs, sorted by submission and name; a job without a name is its reader's to name."""
    jobs: list[tuple[int, TraceJob]] = []
    bad: list[BadRow] = []
    unwanted: Counter[str] = Counter()
    lines: dict[str, int] = {}
    for line, row in numbered(path, columns):
        try:
            cut = next((name for name in columns if row[name] is None), None)
            if cut is not None:
                raise Refused(f"the row ends before its column {cut}")
            if None in row:
                raise Refused("the row has more columns than the heading")
            job = job_of(row)
            if job.name and lines.setdefault(job.name, line) != line:
                raise Refused(f"its job {job.name} is that of line {lines[job.name]} already")
            jobs.append((line, job))
        except Refused as refused:
            bad.append(BadRow(line=line, reason=str(refused)))
        except Unwanted as reason:
            unwanted[str(reason)] += 1
    near_jobs, far = near(jobs)
    bad = sorted((*bad, *far), key=lambda each: each.line)
    if not near_jobs:
        raise TraceError(f"reading {path}: {_none(bad, unwanted)}")
    return Workload(
        origin=path.name,
        jobs=tuple(sorted(near_jobs, key=lambda job: (job.submitted_s, job.name))),
        bad_rows=tuple(bad),
        left_out=tuple(sorted(unwanted.items())),
    )


def whole(row: Row, column: str, *, least: int = 0) -> int:
    """A whole number of at least ``least``. Raises Refused."""
    value = number(row, column, least=least)
    if value != int(value):
        raise Refused(f"{column} is {row[column]!r}, not a whole number")
    return int(value)


def size(row: Row, column: str) -> int:
    """How many GPUs: at least one, and no more than the largest cluster has. Raises Refused."""
    gpus = whole(row, column, least=1)
    if gpus > MOST_GPUS:
        raise Refused(f"{column} is {row[column]!r}, and no cluster has more than {MOST_GPUS:,} GPUs")
    return gpus


def number(row: Row, column: str, *, least: float = 0.0) -> float:
    """A number from ``least`` to ``MOST``. Raises Refused."""
    text = row.get(column)
    try:
        value = float(text or "")
    except ValueError:
        raise Refused(f"{column} is {text!r}, not a number") from None
    if not least <= value <= MOST:
        raise Refused(f"{column} is {text!r}, which must be at least {least:g} and at most {MOST:g}")
    return value


def named(row: Row, column: str) -> str:
    """A name that is not empty. Raises Refused."""
    if not row[column].strip():
        raise Refused(f"{column} is empty")
    return row[column]


def lasting(seconds: float) -> float:
    """``seconds`` as the length of a run. Raises Refused when no run is so long."""
    if seconds > MOST_S:
        raise Refused(f"it would run for {_years(seconds)}; more than {_years(MOST_S)} are not believed")
    return seconds


def near(jobs: Sequence[tuple[int, TraceJob]]) -> tuple[list[TraceJob], list[BadRow]]:
    """The jobs submitted within years of the middle one, and the others as bad rows."""
    if not jobs:
        return [], []
    middle_s = median_low(job.submitted_s for _, job in jobs)
    near_jobs: list[TraceJob] = []
    far: list[BadRow] = []
    for line, job in jobs:
        away_s = abs(job.submitted_s - middle_s)
        if away_s <= MOST_S:
            near_jobs.append(job)
            continue
        reason = f"it was submitted {_years(away_s)} away from the middle job; more than {_years(MOST_S)}"
        far.append(BadRow(line=line, reason=f"{reason} are not believed"))
    return near_jobs, far


def _years(seconds: float) -> str:
    years = seconds / YEAR_S
    return f"{years:,.0f} years" if years < 1e6 else f"{years:.0e} years"


def _check_heading(path: Path, columns: Sequence[str], heading: Sequence[str] | None) -> None:
    if not heading:
        result = "it is empty" if heading is None else "its first line is empty"
        raise TraceError(f"reading {path}: {result}; a heading with {', '.join(columns)} goes there")
    missing = [name for name in columns if name not in heading]
    if missing:
        shown = ", ".join(repr(name[:40]) for name in heading[:NAMED_COLUMNS])
        more = ", ..." if len(heading) > NAMED_COLUMNS else ""
        raise TraceError(
            f"reading {path}: it has no column {', '.join(missing)}, but {shown}{more}; "
            "is this the right --format?"
        )


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _none(bad: Sequence[BadRow], unwanted: Counter[str]) -> str:
    """Why there is no job at all."""
    if not bad and not unwanted:
        return "it has no rows after its heading"
    lines = [f"line {each.line}: {each.reason}" for each in bad[:3]]
    counts = [f"{count} rows: {reason}" for reason, count in sorted(unwanted.items())]
    none = f"none of its {len(bad) + unwanted.total()} rows is a job to simulate"
    return "; ".join((none, *lines, *counts))
