"""What ``sacct --parsable2`` prints, as rows of cells, and each row as a run of a job. Pure.

The first line names the columns and shows what stands between them: ``|``, or whatever ``--delimiter`` said.
A job's name is its owner's and may hold separators and line ends. Between marks that nobody could guess a
record is found by its number of cells; between ``|`` a line with cells too many is taken apart around the
name alone, and a line that then is none is refused, with its number.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from collector.inventory.hostlist import expand
from collector.managers.slurm.jobstats import GpuMean, means_of
from collector.procfs.accounts import nameless
from collector.procfs.job_root import bounded

FIELDS = (
    "JobIDRaw", "JobID", "User", "UID", "Account", "Partition", "QOS", "State", "Submit", "Start", "End",
    "AllocTRES", "ReqTRES", "ExitCode", "TimelimitRaw", "Reservation", "JobName", "AdminComment", "NodeList",
    "Cluster",
)  # fmt: skip
"""sacct(1), "--format"; what a person writes neither first nor last, where records are told apart."""

NEEDED = frozenset(
    {"JobIDRaw", "User", "Account", "State", "Submit", "Start", "End", "AllocTRES", "NodeList", "Cluster"}
)
FREE = "JobName"
"""The one column in which ``|`` may be, of those that are read."""

ABSENT = frozenset({"", "None", "Unknown", "N/A", "(null)", "NONE", "None assigned"})
UNDECIDED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "STOPPED"})
"""States of a run that is not over; what End says of it then is no end."""

TEXT_CHARS = 256
LINE_CHARS = 1 << 20
"""Ours: a longer line is none of sacct's."""

DIGITS = 12
MOST_GPUS = 1_000_000
EARLIEST_S, LATEST_S = 946_684_800, 4_102_444_800
"""2000 to 2100: Slurm is from 2002, and what lies outside is a broken clock or another column."""

_NAME = re.compile(r"[A-Za-z]+")
_TRES_GPU = re.compile(r"gres/gpu(?::(?P<type>[^=,]+))?=(?P<count>\d{1,12})(?:,|$)")
_TRES_SHARD = re.compile(r"gres/(?:shard|mps)=(?P<count>\d{1,12})(?:,|$)")

Cells = Sequence[str]


class NotAccounting(ValueError):
    """A text is not what sacct prints; the message says what was found, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A record that can't be read: its first line's number, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountedRun:
    """A run that is over. Times are UTC ms; ``started_ms`` is ``None`` where it never began."""

    cluster: str
    number: str
    shown_id: str
    user: str | None
    project: str | None
    name: str | None
    partition: str
    qos: str
    reservation: str
    state_name: str
    exit_code: str
    submitted_ms: int
    started_ms: int | None
    ended_ms: int
    nodes: tuple[str, ...]
    gpus: int
    gpu_types: str
    shards: int
    asked_gpus: int | None
    limit_s: int | None
    means: tuple[GpuMean, ...] = ()
    unreadable_comment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The columns in their order, and what stands between two."""

    columns: tuple[str, ...]
    delimiter: str

    @property
    def is_marked(self) -> bool:
        """Whether cells are told apart by something that nobody writes by chance or could guess."""
        return len(self.delimiter) >= 8


def header_of(line: str, needed: Iterable[str] = NEEDED) -> Header:
    """Reads the first line. Raises NotAccounting where it isn't one that names the columns ``needed``."""
    line = line.rstrip("\r\n")
    first = _NAME.match(line)
    known = {name.lower(): name for name in FIELDS}
    if first is None or first[0].lower() not in known:
        raise NotAccounting(_no_header(line))
    delimiter = _delimiter(line, first.end(), known)
    names = line.removesuffix(delimiter).split(delimiter)
    columns = tuple(known.get(name.lower(), name) for name in names)
    missing = sorted(set(needed) - set(columns))
    if missing:
        raise NotAccounting(
            f"the text has no column {', '.join(missing)}; ask sacct with --format={','.join(FIELDS)}"
        )
    return Header(columns=columns, delimiter=delimiter)


def _delimiter(line: str, start: int, known: Iterable[str]) -> str:
    """What stands behind the first name: ``|``, or all up to the next name that is known."""
    if line[start : start + 1] == "|" and all(map(str.isalpha, filter(None, line.split("|")))):
        return "|"
    low = line.lower()
    following = [at for name in known if (at := low.find(name, start + 1)) > 0]
    if not following:
        raise NotAccounting(_no_header(line))
    return line[start : min(following)]


def _no_header(line: str) -> str:
    return (
        f"the first line names no columns of sacct's: {line[:80]!r}; save it with the header: "
        f"sacct --allusers --duplicates --allocations --parsable2 --format={','.join(FIELDS)}"
    )


def records(
    header: Header, lines: Iterable[str], first_line: int = 2
) -> Iterator[tuple[int, Cells | Refused]]:
    """Each record behind the header with its first line's number. At most one record is held at a time."""
    width = len(header.columns)
    pending, began = "", first_line
    for number, line in enumerate(lines, first_line):
        if not pending:
            began = number
        pending += line.rstrip("\r\n") if not header.is_marked else line
        if header.is_marked and pending.count(header.delimiter) < width - 1 and len(pending) < LINE_CHARS:
            continue  # a line end within a name
        text, pending = pending.rstrip("\r\n"), ""
        if text:
            yield began, _cells(header, text, width, began)
    if pending.strip():
        yield began, Refused(line=began, reason="cut off at the end")


def _cells(header: Header, text: str, width: int, line: int) -> Cells | Refused:
    if len(text) > LINE_CHARS:
        return Refused(line=line, reason="longer than any record")
    cells = text.split(header.delimiter)
    if len(cells) == width + 1 and not cells[-1]:
        cells.pop()  # --parsable ends each record with the delimiter too
    if len(cells) == width:
        return cells
    if len(cells) > width and not header.is_marked and FREE in header.columns:
        at, more = header.columns.index(FREE), len(cells) - width
        return [*cells[:at], header.delimiter.join(cells[at : at + more + 1]), *cells[at + more + 1 :]]
    return Refused(
        line=line, reason=f"{len(cells)} cells where the header has {width}: cut, or a name with a line end"
    )


def is_step(row: Mapping[str, str]) -> bool:
    """Whether a record is of a job's step (``812.batch``, ``812.extern``, ``812.0``): no run of its own."""
    return "." in row["JobIDRaw"]


def run_of(row: Mapping[str, str], zone: tzinfo) -> AccountedRun | str | None:
    """The run that a record tells of; ``None`` where it is not over, or why it can't be read."""
    number = row["JobIDRaw"].partition("+")[0]
    if not number.isdecimal() or len(number) > DIGITS:
        return f"no number of a job: {row['JobIDRaw'][:40]!r}"
    state, cluster = row["State"].strip(), row["Cluster"].strip()
    word = state.partition(" ")[0].rstrip("+")
    if not word.isascii() or not word.replace("_", "").isalpha() or not word.isupper():
        return f"no state of a job: {state[:40]!r}"
    told: dict[str, int | None] = {}
    for name in ("Submit", "Start", "End"):
        try:
            told[name] = _ms(row[name], zone)
        except ValueError:
            return f"{name} is no time: {row[name][:40]!r}"
    submitted_ms, started_ms, ended_ms = told["Submit"], told["Start"], told["End"]
    if word in UNDECIDED or ended_ms is None:
        return None
    if submitted_ms is None:
        return "no time of submission"
    if started_ms is not None and ended_ms < started_ms:
        ended_ms = _ms(row["End"], zone, fold=1) or ended_ms  # the hour that a clock's change brings twice
        if ended_ms < started_ms:
            if word != "CANCELLED":
                return "ends before it begins"
            started_ms = None  # cancelled while it waited: Start is when it might have begun
    gpus, types = gpus_of(row["AllocTRES"])
    asked, _ = gpus_of(row.get("ReqTRES", ""))
    means = means_of(row.get("AdminComment", ""))
    return AccountedRun(
        cluster=bounded(cluster, TEXT_CHARS),
        number=number,
        shown_id=bounded(row.get("JobID") or number, TEXT_CHARS),
        user=_told(row["User"]) or _by_uid(row.get("UID", "")),
        project=_told(row["Account"]) or None,
        name=bounded(row.get("JobName", ""), TEXT_CHARS) or None,
        partition=_told(row.get("Partition", "")),
        qos=_told(row.get("QOS", "")),
        reservation=_told(row.get("Reservation", "")),
        state_name=bounded(state, TEXT_CHARS),
        exit_code=_told(row.get("ExitCode", "")),
        submitted_ms=submitted_ms,
        started_ms=started_ms,
        ended_ms=ended_ms,
        nodes=() if row["NodeList"] in ABSENT else _nodes(row["NodeList"]),
        gpus=gpus,
        gpu_types=bounded(types, TEXT_CHARS),
        shards=_shards(row["AllocTRES"]),
        asked_gpus=asked if row.get("ReqTRES") else None,
        limit_s=_limit_s(row.get("TimelimitRaw", "")),
        means=means or (),
        unreadable_comment=means is None,
    )


def _ms(text: str, zone: tzinfo, fold: int = 0) -> int | None:
    """Seconds since the epoch, or a local time without a zone, in ms. Raises ValueError."""
    if text in ABSENT or text == "0":
        return None
    if text.isdecimal():
        seconds = int(text[: DIGITS + 1])
    else:
        at = datetime.fromisoformat(text)
        seconds = int((at if at.tzinfo else at.replace(tzinfo=zone, fold=fold)).timestamp())
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise ValueError(text)
    return seconds * 1000


def gpus_of(tres: str) -> tuple[int, str]:
    """``gres/gpu=3,gres/gpu:a100=2,gres/gpu:h100=1``: three, and their types; the first is the sum."""
    whole, typed, types = 0, 0, []
    for match in _TRES_GPU.finditer(tres):
        if match["type"] is None:
            whole = int(match["count"])
        else:
            typed += int(match["count"])
            types.append(match["type"])
    return min(max(whole, typed), MOST_GPUS), ",".join(types)


def _shards(tres: str) -> int:
    return min(sum(int(match["count"]) for match in _TRES_SHARD.finditer(tres)), MOST_GPUS)


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except ValueError:  # a range without numbers
        return ()


def _limit_s(text: str) -> int | None:
    """TimelimitRaw is in minutes; UNLIMITED and Partition_Limit are no number."""
    return int(text) * 60 if text.isdecimal() and len(text) <= DIGITS else None


def _by_uid(text: str) -> str | None:
    return nameless(int(text)) if text.isdecimal() and len(text) <= DIGITS else None


def _told(text: str) -> str:
    return "" if text in ABSENT else bounded(text, TEXT_CHARS)
