"""What can be wrong with a recording, as failures with a next step.

RecordingError
├── RecordingUnreadable   the file is missing, or is not what its name says
├── BadMapping            the mapping names what is not there, or is malformed itself
└── RecordingUseless      it could be read, but hardly any row of it made sense

What was skipped of a recording, and why: counted wholly, shown in part. Pure.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


class RecordingError(Exception):
    """A recording that cannot be replayed; the message says why and what to do."""


class RecordingUnreadable(RecordingError):
    """The file is missing, or is not what its name says."""


class BadMapping(RecordingError):
    """The mapping names what is not there, or is malformed itself."""


class RecordingUseless(RecordingError):
    """It could be read, but hardly any row of it made sense."""


SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A row that was skipped: its line (1 is the file's first), and what is wrong with it.

    ``uuid`` and ``at_ms`` are known when only another cell is malformed.
    """

    line: int
    reason: str
    uuid: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """All rows that were skipped: how many, how many of each column's making, and the first few."""

    rows: int
    by_reason: tuple[tuple[str, int], ...] = ()
    first: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        if not self.rows:
            return "no rows skipped"
        shown = "; ".join(f"line {fault.line}: {fault.reason}" for fault in self.first)
        more = f"; and {self.rows - len(self.first)} more" if self.rows > len(self.first) else ""
        return f"{self.rows} malformed {'row' if self.rows == 1 else 'rows'} skipped ({shown}{more})"


def refused(faults: Iterable[Fault]) -> Refused:
    """The summary of ``faults``, in the order of their lines."""
    ordered = sorted(faults, key=lambda fault: fault.line)
    kinds = Counter(fault.reason.partition(":")[0] for fault in ordered)
    return Refused(rows=len(ordered), by_reason=tuple(kinds.most_common()), first=tuple(ordered[:SHOWN]))
