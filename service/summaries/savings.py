"""What the actions did give back, in words: the same on the Actions page and in the report. Pure.

What actions did give back, in sums by class: the rows of the query ``given_back`` judged. Pure.

Given back is time on a GPU that an action took from a job, in which another job held it and computed there.
It is the ledger's own time, so under ``coverage_ratio`` of it measured the answer is unknown. What people
ordered of their own is told, and in no sum: Fallow did not do it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from analytics import text
from analytics.vocabulary.actions import ActionClass

if TYPE_CHECKING:
    from service.schemas.rows import GivenBackRow


BY_PEOPLE = "people"
CLASSES = (
    ActionClass.RECLAIM.value,
    ActionClass.PACK.value,
    ActionClass.RESIZE.value,
    ActionClass.CONSOLIDATE.value,
    ActionClass.CAP_MEMORY.value,
    BY_PEOPLE,
)
"""As the query names them, in the order in which they are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What the deeds of one class came to, in GPU-hours; ``None``: too little was measured to say.

    ``due`` is the time in which the GPUs were to be free, and the only figure that is always known. ``freed``
    of it their jobs were off them, ``held`` of that other jobs had them, ``worked`` of that they computed:
    that is given back. ``money`` is the price of ``worked``; ``None`` without a price as well.
    """

    action: str
    times: int
    jobs: int
    due_gpu_hours: float
    coverage_ratio: float | None
    freed_gpu_hours: float | None
    held_gpu_hours: float | None
    worked_gpu_hours: float | None
    money: float | None
    currency: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """By class, those of which there was a deed; and ``total``, of what Fallow did itself or was told to."""

    classes: tuple[Saving, ...]
    total: Saving


def judged(rows: "Iterable[GivenBackRow]", coverage_ratio: float) -> Savings:
    """The sums of a window. Where nothing was done they are zero, however little was measured."""
    by_class: dict[str, list[GivenBackRow]] = {name: [] for name in CLASSES}
    for row in rows:
        by_class.setdefault(str(row["class"]), []).append(row)
    ours = [row for name, savings_rows in by_class.items() if name != BY_PEOPLE for row in savings_rows]
    return Savings(
        classes=tuple(
            _summed(name, savings_rows, coverage_ratio)
            for name, savings_rows in by_class.items()
            if savings_rows
        ),
        total=_summed("all", ours, coverage_ratio),
    )


def _summed(action: str, rows: "list[GivenBackRow]", coverage_ratio: float) -> Saving:
    due, measured_hours = _sum(rows, "due_gpu_hours"), _sum(rows, "known_gpu_hours")
    coverage = measured_hours / due if due > 0 else None
    is_covered = coverage is None or coverage >= coverage_ratio
    prices = [row["worked_cost"] for row in rows if row["worked_gpu_hours"]]
    measured_prices = [price for price in prices if price is not None]
    currencies = {row["currency"] for row in rows if row["currency"] is not None}
    is_priced = is_covered and bool(rows) and len(measured_prices) == len(prices) and len(currencies) == 1
    return Saving(
        action=action,
        times=len(rows),
        jobs=len({row["job"] for row in rows}),
        due_gpu_hours=due,
        coverage_ratio=coverage,
        freed_gpu_hours=_sum(rows, "freed_gpu_hours") if is_covered else None,
        held_gpu_hours=_sum(rows, "held_gpu_hours") if is_covered else None,
        worked_gpu_hours=_sum(rows, "worked_gpu_hours") if is_covered else None,
        money=sum(measured_prices) if is_priced else None,
        currency=currencies.pop() if is_priced else None,
    )


def _sum(rows: Iterable[Mapping[str, object]], name: str) -> float:
    return sum((text.known(row[name]) or 0.0 for row in rows), 0.0)


WORDS: Mapping[str, str] = {
    ActionClass.RECLAIM: "Idle jobs paused, or sent back to the queue",
    ActionClass.PACK: "Light jobs put together",
    ActionClass.RESIZE: "Elastic jobs made smaller",
    ActionClass.CONSOLIDATE: "Moved for a gang that waited",
    ActionClass.CAP_MEMORY: "Memory let go of",
    BY_PEOPLE: "People's own pauses and resizes, in no sum",
}
COLUMNS = (
    "action",
    "worked_gpu_hours",
    "held_gpu_hours",
    "freed_gpu_hours",
    "money",
    "times",
    "jobs",
    "coverage_ratio",
)


def told_class(action: str) -> str:
    """A class of deeds, for people; one that only a newer Fallow knows keeps its own name."""
    return WORDS.get(action, action)


def told_total(total: Saving) -> str:
    """The whole in one sentence, whether there was anything, and whether it is known."""
    if not total.times:
        return "Nothing was done: no action gave anything back."
    times = "One action" if total.times == 1 else f"{text.count(total.times)} actions"
    if total.worked_gpu_hours is None:
        measured = text.percent(total.coverage_ratio)
        return f"{times} freed GPUs; what came of it is unknown: only {measured} of that time was measured."
    worked = text.gpu_hours(total.worked_gpu_hours)
    return (
        f"{times} freed {text.gpu_hours(total.freed_gpu_hours)}; in {worked} of that other jobs worked there."
    )


def giving_frame(savings: Savings) -> pd.DataFrame:
    """A row a class of deeds."""
    rows = [{name: getattr(each, name) for name in COLUMNS} for each in savings.classes]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.assign(action=frame["action"].map(told_class))
