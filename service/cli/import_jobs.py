"""``fallow import jobs``: runs that are over, from Slurm's accounting or a file of any manager's.

It reads here and stores through the service where one runs: the service needs no rights in Slurm for it.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.managers import SLURM
from service.cli.screen import console
from service.client import Client, connect
from service.config.flags import settle
from service.durations import window
from service.errors import FallowError
from service.schemas.service import ImportedRanges, RunsCounted
from service.usecases import accounting
from service.usecases.accounting import Counts

if TYPE_CHECKING:
    from collector.managers.histories.model import Record as HistoryRecord
    from collector.managers.slurm.sacct_text import Cells, Refused
    from service.config.flags import Settings

    Record = tuple[int, Cells | Refused]

ROWS = 1_500
CHARS = 600_000
"""Of one order, below the 1 MiB that the service takes."""

OWN_ROWS = 20_000
"""At once where the store is opened here: each piece looks once through the runs that are stored."""

LATE_MS = 2 * 86_400_000
"""A day that is younger is read again next time: slurmctld keeps what slurmdbd could not take for a while."""

LOCALTIME = Path("/etc/localtime")


class NotImported(FallowError):
    """Nothing can be read; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where rows go, to the service or to the store itself; ``ranges`` says what of an origin is there."""

    store: Callable[[Mapping[str, object]], RunsCounted]
    ranges: Callable[[Mapping[str, object]], ImportedRanges]
    rows: int
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Records of past jobs, read as they are wanted; ``left`` counts those left out, by their reason."""

    columns: Sequence[str]
    rows: "Iterator[Record]"
    left: Counter[str] = field(default_factory=Counter)


def run(flags: argparse.Namespace) -> int:
    """Say what there is; with --yes store it."""
    manager = _manager_of(flags)
    zone = flags.timezone or local_zone()
    accounting.zone_of(zone)
    if not flags.yes:
        return _tried(flags, zone, manager)
    settings = settle(flags)
    with ExitStack() as stack:
        client = stack.enter_context(connect(settings.data))
        sink = _sink_of(client, stack, settings)
        if flags.file:
            with _opened(flags.file, manager, zone) as past:
                counts = _stored(sink, manager, past, zone)
        else:
            past = None
            counts = _from_slurm(flags, sink)
    _say(counts, zone, stored=True)
    _say_left(past)
    return 0


def local_zone(environment: "os._Environ[str] | dict[str, str]" = os.environ) -> str:
    """This machine's time zone by its name; UTC where it has none."""
    name = environment.get("TZ", "").lstrip(":")
    if not name and LOCALTIME.is_symlink():
        name = str(LOCALTIME.readlink()).partition("zoneinfo/")[2]
    return name or "UTC"


def _sink_of(client: Client, stack: ExitStack, settings: "Settings") -> Sink:
    if client.mode == "service":
        return Sink(store=client.import_runs, ranges=client.imported_runs, rows=ROWS, chars=CHARS)
    from service.server.startup import make_data_dir
    from service.store.open import own_store

    make_data_dir(settings.data)
    store = stack.enter_context(own_store(settings.data, settings.effective.config))
    return Sink(
        store=lambda given: accounting.stored(store, given),
        ranges=lambda given: accounting.ranges(store, given),
        rows=OWN_ROWS,
        chars=1 << 30,
    )


def _tried(flags: argparse.Namespace, zone: str, manager: str) -> int:
    """What would be read, and nothing is stored."""
    screen = console()
    if flags.file:
        counts = Counts()
        with _opened(flags.file, manager, zone) as jobs:
            while piece := list(islice(jobs.rows, OWN_ROWS)):
                good, bad = _parted(piece)
                counts = counts.plus(bad).plus(accounting.judge(jobs.columns, good, zone, manager)[1])
        _say(counts, zone, stored=False)
        _say_left(jobs)
    else:
        from collector.managers.slurm import past

        start, end = window(flags.since, flags.until, datetime.now(UTC))
        screen.print(
            f"Slurm's accounting: {text.length((end - start).total_seconds())} to read, a day at a time."
        )
        if hidden := past.who_is_seen():
            screen.print(hidden)
    screen.print("Nothing was imported; add --yes to do it. It can be stopped and repeated at any time.")
    return 0


def _from_slurm(flags: argparse.Namespace, sink: Sink) -> Counts:
    from collector.inventory.slurm_programs import NoAnswer, answer
    from collector.inventory.slurm_rights import account_of
    from collector.managers.slurm import past
    from collector.managers.slurm.sacct_text import NotAccounting

    start, end = window(flags.since, flags.until, datetime.now(UTC))
    end = end if flags.until else datetime.now(UTC)  # a window ends with the last whole minute
    screen, counts = console(), Counts()
    try:
        origin = f"slurm:{account_of(answer).cluster}"
        hidden = past.who_is_seen()
        if hidden:
            screen.print(hidden)
        done = [] if hidden else [(each[0], each[1]) for each in sink.ranges({"origin": origin}).ranges]
        for from_ms, to_ms in left_of(_ms(start), _ms(end), done):
            began_ms = from_ms
            for end_ms, header, rows in past.pages(from_ms, to_ms):
                page = _stored(sink, origin, Past(columns=header.columns, rows=rows), "UTC")
                counts = counts.plus(page)
                if not hidden and end_ms <= time.time() * 1000 - LATE_MS:
                    sink.ranges({"origin": origin, "done": [began_ms, end_ms], "added": page.added})
                began_ms = end_ms
                if screen.is_terminal:
                    screen.print(
                        f"up to {datetime.fromtimestamp(end_ms / 1000, UTC):%Y-%m-%d}: {counts.added:,}"
                    )
    except (NoAnswer, NotAccounting) as failure:
        raise NotImported(f"{failure}; what was stored stays, repeat the import to go on") from failure
    return counts


def left_of(from_ms: int, to_ms: int, done: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a span that no range of ``done`` covers."""
    at_ms = from_ms
    for start_ms, end_ms in sorted(done):
        if at_ms < min(start_ms, to_ms):
            yield at_ms, min(start_ms, to_ms)
        at_ms = max(at_ms, end_ms)
    if at_ms < to_ms:
        yield at_ms, to_ms


def _stored(sink: Sink, origin: str, past: Past, zone: str) -> Counts:
    counts = Counts()
    manager = origin.partition(":")[0]
    order = {"origin": origin, "manager": manager, "columns": list(past.columns), "zone": zone}
    for piece in _pieces(past.rows, sink):
        good, bad = _parted(piece)
        counts = counts.plus(bad)
        if good:
            answer = sink.store({**order, "rows": [[line, list(cells)] for line, cells in good]})
            counts = counts.plus(accounting.counts_of(answer))
    return counts


def _pieces(rows: "Iterator[Record]", sink: Sink) -> "Iterator[list[Record]]":
    """So many records at once as an order holds."""
    piece: list[Record] = []
    chars = 0
    for record in rows:
        size = len(json.dumps(record[1])) if isinstance(record[1], list) and sink.chars < 1 << 30 else 0
        if piece and (len(piece) >= sink.rows or chars + size > sink.chars):
            yield piece
            piece, chars = [], 0
        piece.append(record)
        chars += size
    if piece:
        yield piece


def _parted(piece: "list[Record]") -> "tuple[list[tuple[int, Cells]], Counts]":
    """The rows, and the count of what is none."""
    from collector.managers.slurm.sacct_text import Refused

    good: list[tuple[int, Cells]] = []
    counts = Counts()
    for line, cells in piece:
        if isinstance(cells, Refused):
            counts = counts.plus(accounting.refusal(cells.line, cells.reason))
        else:
            good.append((line, cells))
    return good, counts


@contextmanager
def _opened(name: str, manager: str, zone: str) -> "Iterator[Past]":
    """A file's records, read as they are wanted. Raises NotImported."""
    if manager == SLURM:
        with _sacct(name) as past:
            yield past
        return
    from collector.managers.histories.cells import COLUMNS
    from collector.managers.histories.model import HistoryError
    from collector.managers.histories.read import HistoryFormat, opened

    counts: Counter[str] = Counter()
    try:
        with opened(Path(name), HistoryFormat(manager), accounting.zone_of(zone)) as history:
            yield Past(columns=COLUMNS, rows=_cells(history.records, counts), left=counts)
    except HistoryError as error:
        raise NotImported(str(error)) from error


def _cells(records: "Iterator[tuple[int, HistoryRecord]]", left: Counter[str]) -> "Iterator[Record]":
    """Jobs as cells; what is none is refused, or counted by its reason in ``left``."""
    from collector.managers.histories.cells import cells_of
    from collector.managers.histories.model import PastJob, Unreadable
    from collector.managers.slurm.sacct_text import Refused

    for line, record in records:
        if isinstance(record, PastJob):
            yield line, cells_of(record)
        elif isinstance(record, Unreadable):
            yield line, Refused(line=line, reason=record.reason)
        else:
            left[record.reason] += 1


def _manager_of(flags: argparse.Namespace) -> str:
    """Whose jobs these are: what was said, else what the file begins with. Raises NotImported."""
    from collector.managers.histories.model import HistoryError
    from collector.managers.histories.read import HEAD_CHARS, HistoryFormat, recognized, text_of

    said: str | None = flags.origin_of
    if not flags.file or flags.file == "-":
        if said != SLURM:
            raise NotImported("jobs are asked of Slurm alone (--from slurm); others come as a --file")
        return said
    if said is not None:
        return said
    try:
        with text_of(Path(flags.file)) as file:
            form = recognized(file.read(HEAD_CHARS))
    except HistoryError as error:
        raise NotImported(f"{flags.file}: {error}") from error
    if form is HistoryFormat.SWF:
        raise NotImported(
            f"{flags.file} is in the Standard Workload Format, which counts processors and not GPUs; "
            "`fallow simulate --trace FILE` plays it"
        )
    if form is HistoryFormat.SACCT_JSON:
        raise NotImported(f"{flags.file} is sacct's JSON; save its text instead: sacct --parsable2")
    return SLURM if form is HistoryFormat.SACCT else form.value


@contextmanager
def _sacct(name: str) -> "Iterator[Past]":
    """A file of sacct's text, or ``-``."""
    from collector.managers.slurm.sacct_text import NotAccounting, header_of, records

    where: int | str = os.dup(sys.stdin.fileno()) if name == "-" else name
    try:
        file = open(where, encoding="utf-8", errors="replace", newline="\n")  # noqa: PTH123, SIM115  or a descriptor
    except OSError as error:
        raise NotImported(f"{name} can't be read: {error.strerror}") from error
    with file:
        try:
            header = header_of(file.readline())
        except NotAccounting as error:
            raise NotImported(f"{name}: {error}") from error
        yield Past(columns=header.columns, rows=records(header, file))


def _say_left(past: Past | None) -> None:
    """What was in a file and is no run that can be stored, by its reason."""
    for reason, count in past.left.most_common() if past is not None else ():
        console().print(f"  left out: {count:,} {reason}", markup=False)


def _say(counts: Counts, zone: str, *, stored: bool) -> None:
    screen = console()
    new = (
        f"{counts.added:,} new runs of jobs with GPUs"
        if stored
        else f"{counts.runs:,} runs of jobs with GPUs"
    )
    parts = [
        f"{counts.records:,} records read",
        *([f"{counts.runs - counts.added - counts.completed:,} were there before"] if stored else []),
        *([f"{counts.completed:,} have means now"] if counts.completed else []),
        *([f"{counts.measured:,} with means of jobstats"] if counts.measured else []),
        f"{counts.no_gpus:,} without GPUs",
        *([f"{counts.steps:,} steps"] if counts.steps else []),
        *([f"{counts.not_over:,} not over yet: repeat the import then"] if counts.not_over else []),
    ]
    screen.print(f"{new}: {', '.join(parts)}.")
    if counts.comments:
        screen.print(
            f"{text.many(counts.comments, 'comment')} of jobstats can't be read: runs without means."
        )
    if counts.refused:
        screen.print(f"{text.many(counts.refused, 'record')} can't be read, and left out:")
        for line in counts.refusals:
            screen.print(f"  {line}", markup=False)
    if counts.no_gpus and not counts.runs:
        screen.print("No run has GPUs in AllocTRES: slurm.conf needs AccountingStorageTRES=gres/gpu for it.")
    screen.print(
        f"Times without a zone are taken as {zone}'s; --timezone says another.", style="bright_black"
    )


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
