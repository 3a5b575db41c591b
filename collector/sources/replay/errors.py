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

from collector.sources.replay.set_back import SetBack


class RecordingError(Exception):
    """A recording that cannot be replayed; the message says why and what to do."""


class RecordingUnreadable(RecordingError):
    """The file is missing, or is not what its name says."""


class BadMapping(RecordingError):
    """The mapping names what is not there, or is malformed itself."""


class RecordingUseless(RecordingError):
    """It could be read, but hardly any row of it made sense."""


SHOWN = 5
SET_BACK = "lies in time that earlier rows have"
"""What is wrong with a row that a clock which was set back wrote."""


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
    set_back: tuple[SetBack, ...] = ()
    """The rows that a clock which was set back cost; they are among ``rows``, and not among the first few."""

    def __str__(self) -> str:
        if not self.rows:
            return "no rows skipped"
        said = [str(each) for each in self.set_back[:SHOWN]]
        if len(self.set_back) > SHOWN:
            said.append(f"so {len(self.set_back) - SHOWN} times more")
        malformed = self.rows - sum(each.rows for each in self.set_back)
        if malformed:
            shown = "; ".join(f"line {fault.line}: {fault.reason}" for fault in self.first)
            more = f"; and {malformed - len(self.first)} more" if malformed > len(self.first) else ""
            said.append(
                f"{malformed} malformed {'row' if malformed == 1 else 'rows'} skipped ({shown}{more})"
            )
        return "; ".join(said)


def refused(faults: Iterable[Fault], set_back: tuple[SetBack, ...] = ()) -> Refused:
    """The summary of ``faults``, in the order of their lines."""
    ordered = sorted(faults, key=lambda fault: fault.line)
    kinds = Counter(fault.reason.partition(":")[0] for fault in ordered)
    malformed = [fault for fault in ordered if not fault.reason.endswith(SET_BACK)]
    return Refused(
        rows=len(ordered),
        by_reason=tuple(kinds.most_common()),
        first=tuple(malformed[:SHOWN]),
        set_back=set_back,
    )
