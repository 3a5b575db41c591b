"""Runs from a workload manager's accounting into the store: what comes as rows of text, what is made of it.

Whoever owns the store judges the rows, the service or a verb by itself: one way in for both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from analytics.vocabulary.managers import MANAGERS, SLURM
from service.errors import FallowError
from service.schemas.service import ImportedRanges, RunsCounted

if TYPE_CHECKING:
    from collector.managers.slurm.sacct_text import AccountedRun
    from collector.store.database import Store

MOST_NAMED = 5
"""Records that could not be read, named one by one; all are counted."""

MOST_ROWS = 20_000
MOST_COLUMNS = 200
"""sacct has 110."""


class RowsRefused(FallowError):
    """Rows that are none of sacct's, or a time zone that nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of so many records. ``added`` are new, ``completed`` were there without means.

    ``no_gpus``: of a job that neither got nor asked for any. ``refused`` can't be read; ``refusals`` says of
    the first of them why. ``comments`` are AdminComments of jobstats' that can't be read.
    """

    records: int = 0
    steps: int = 0
    not_over: int = 0
    no_gpus: int = 0
    runs: int = 0
    measured: int = 0
    added: int = 0
    completed: int = 0
    comments: int = 0
    refused: int = 0
    refusals: tuple[str, ...] = field(default=())

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        summed = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "refusals"
        }
        return Counts(**summed, refusals=(*self.refusals, *other.refusals)[:MOST_NAMED])


def counts_of(answer: RunsCounted) -> Counts:
    """The counts in a service's answer."""
    return Counts(**{each.name: getattr(answer, each.name) for each in fields(Counts)})


def refusal(line: int, reason: str) -> Counts:
    """Of one record that is none."""
    return Counts(records=1, refused=1, refusals=(f"line {line}: {reason}",))


def judge(
    columns: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]], zone: str, manager: str = SLURM
) -> tuple[list["AccountedRun"], Counts]:
    """The runs in rows of so many cells, each with its line, and what the others were. Raises RowsRefused."""
    return _of_slurm(columns, rows, zone) if manager == SLURM else _of_others(columns, rows)


def _of_others(
    columns: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]]
) -> tuple[list["AccountedRun"], Counts]:
    """Runs of other managers come as the cells of ``collector.managers.histories.cells``."""
    from collector.managers.histories.cells import run_of

    runs: list[AccountedRun] = []
    refused: list[str] = []
    for line, cells in rows:
        run = run_of(dict(zip(columns, cells, strict=True)))
        if isinstance(run, str):
            refused.append(f"line {line}: {run}")
        else:
            runs.append(run)
    return runs, Counts(
        records=len(runs) + len(refused),
        runs=len(runs),
        refused=len(refused),
        refusals=tuple(refused[:MOST_NAMED]),
    )


def _of_slurm(
    columns: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]], zone: str
) -> tuple[list["AccountedRun"], Counts]:
    from collector.managers.slurm.sacct_text import is_step, run_of

    where = zone_of(zone)
    runs: list[AccountedRun] = []
    counts = dict.fromkeys(("records", "steps", "not_over", "no_gpus", "runs", "measured", "comments"), 0)
    refused: list[str] = []
    for line, cells in rows:
        row = dict(zip(columns, cells, strict=True))
        counts["records"] += 1
        if is_step(row):
            counts["steps"] += 1
            continue
        run = run_of(row, where)
        if run is None:
            counts["not_over"] += 1
        elif isinstance(run, str):
            refused.append(f"line {line}: {run}")
        elif not (run.gpus or run.shards or (run.asked_gpus and run.started_ms is None)):
            counts["no_gpus"] += 1
        else:
            counts["runs"] += 1
            counts["measured"] += bool(run.means)
            counts["comments"] += run.unreadable_comment
            runs.append(run)
    return runs, Counts(**counts, refused=len(refused), refusals=tuple(refused[:MOST_NAMED]))


def store_rows(
    store: "Store",
    columns: Sequence[str],
    rows: Iterable[tuple[int, Sequence[str]]],
    zone: str,
    manager: str = SLURM,
) -> Counts:
    """Store the runs that are not there. Raises RowsRefused, store errors."""
    from dataclasses import replace

    runs, counts = judge(columns, rows, zone, manager)
    if not runs:
        return counts
    added, completed = store.write_accounted(manager, runs)
    return replace(counts, added=added, completed=completed)


def ordered(store: "Store", order: Mapping[str, object]) -> RunsCounted | ImportedRanges:
    """What an order asks for: ``rows`` to store, a range that is ``done``, or the ranges that are.

    Raises RowsRefused.
    """
    try:
        return stored(store, order) if "rows" in order else ranges(store, order)
    except (KeyError, TypeError, ValueError) as error:
        raise RowsRefused(
            f"runs are told by origin, columns and rows of a line's number and its cells; got {error!r}"
        ) from error


def stored(store: "Store", order: Mapping[str, Any]) -> RunsCounted:
    """What became of an order's ``rows``.

    Raises RowsRefused; KeyError, TypeError, ValueError where it is none.
    """
    _ = order["origin"]  # every order names one
    manager = str(order.get("manager") or SLURM)
    if manager not in MANAGERS:
        raise RowsRefused(f"runs are stored of {', '.join(MANAGERS)}; got {manager[:40]!r}")
    columns, rows = _checked(order["columns"], order["rows"], manager)
    counts = store_rows(store, columns, rows, str(order.get("zone") or "UTC"), manager)
    return RunsCounted(**asdict(counts))


def ranges(store: "Store", order: Mapping[str, Any]) -> ImportedRanges:
    """The ranges of an origin that are imported, with the one that an order says is ``done``.

    Raises KeyError, TypeError, ValueError for no order.
    """
    origin = str(order["origin"])[:200]
    if "done" in order:
        from_ms, to_ms = (int(each) for each in order["done"])
        store.note_import(origin, from_ms, to_ms, int(order.get("added") or 0))
    return ImportedRanges(ranges=store.imported_ranges(origin))


def zone_of(name: str) -> ZoneInfo:
    """Raises RowsRefused for a time zone that nobody knows."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise RowsRefused(f"no time zone is called {name!r}; name one like Europe/Berlin or UTC") from error


def _checked(columns: Any, rows: Any, manager: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Raises TypeError, ValueError for what is none."""
    from collector.managers.histories.cells import COLUMNS
    from collector.managers.slurm.sacct_text import NEEDED

    needed = NEEDED if manager == SLURM else set(COLUMNS)
    names = [str(each) for each in columns][: MOST_COLUMNS + 1]
    if len(rows) > MOST_ROWS or len(names) > MOST_COLUMNS or needed - set(names):
        raise ValueError(f"{len(rows)} rows of {len(names)} columns; needed: {sorted(needed)}")
    checked = [(int(line), [str(cell) for cell in cells]) for line, cells in rows]
    if any(len(cells) != len(names) for _, cells in checked):
        raise ValueError("a row with cells too many or too few")
    return names, checked
