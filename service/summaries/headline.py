"""The figures at the head of the overview, worked out from the frames below them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState
from service import energy
from service.charts.frame import with_end
from service.charts.usage import step_hours
from service.charts.window import Window
from service.energy import WASTED, Energy
from service.summaries.frames import records
from service.wording import is_bound

WHOLE = 0.995
USED, ALLOCATED, MEASURED = (
    "GPU utilization, of measured time",
    "Allocated, of known time",
    "Measured, of installed time",
)
"""Each has a denominator of its own, since what is unknown is in none but the last; so each label says it. A
page's row has one of them (docs/decisions/0106), a report's list all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Averages over the window; ``None`` is not measured.

    ``there_ratio`` is the part of the window in which there were GPUs at all (of somebody: in which they had
    some); before the first measurement there were none that anybody knows of. ``held_used_gpus``: used by who
    was given them; what lay fallow is what was given less these, and less what nobody can tell
    of it (``held_unknown_gpus``: not measured, or by counters that contradict each other). As many hours
    of the use as ``bound_used_gpu_hours`` rest on GPU utilization alone: an upper bound.
    """

    installed_gpu_hours: float
    allocated_gpu_hours: float
    held_used_gpu_hours: float
    bound_used_gpu_hours: float
    installed_gpus: float | None
    allocated_gpus: float | None
    used_gpus: float | None
    held_used_gpus: float | None
    held_unknown_gpus: float | None
    utilization_ratio: float | None
    allocated_ratio: float | None
    fallow_gpu_hours: float | None
    wasted_gpu_hours: float
    wasted_cost: float | None
    currency: str | None
    measured_ratio: float | None
    unknown_gpu_hours: float
    withheld_gpu_hours: float
    energy: Energy
    wasted_energy: Energy
    there_ratio: float

    def of_installed(self, gpu_hours: float) -> float | None:
        """A part of all the GPU-hours that there were, measured or not; ``None`` where there were none."""
        return gpu_hours / self.installed_gpu_hours if self.installed_gpu_hours > 0 else None

    @property
    def fallow_gpus(self) -> float:
        """Given out and not used, as far as it was measured."""
        allocated, used = self.allocated_gpus or 0.0, self.held_used_gpus or 0.0
        return max(allocated - used - (self.held_unknown_gpus or 0.0), 0.0)

    def of_the_cluster(self, gpus: float | None) -> float | None:
        """A number of GPUs as an average over the time in which there were any, and not over the window."""
        return None if gpus is None else gpus / (self.there_ratio or 1.0)


def headline(usage: pd.DataFrame, ledger: pd.DataFrame, window: Window) -> Headline:
    """The overview's figures from ``usage_over_time`` and ``ledger_by_state`` over the same window.

    Utilization is used over measured time, allocated is held over known time, as in the queries; a step
    in which nothing was measured weighs nothing.
    """
    span = step_hours(with_end(usage, window))
    installed, unknown = (usage[name].fillna(0.0) for name in ("installed_gpus", "unknown_gpus"))
    allocated, used = (usage[name].fillna(0.0) for name in ("allocated_gpus", "used_gpus"))
    by_holders = usage["held_used_gpus"].fillna(0.0)
    doubted = usage["held_unknown_gpus"].fillna(0.0)
    measured_gpus = (installed - unknown).clip(lower=0.0)
    busy = usage["utilization_ratio"].fillna(0.0)
    measured = (
        (used / busy.where(busy > 0)).fillna(measured_gpus).where(usage["utilization_ratio"].notna(), 0.0)
    )
    hours = ledger.set_index("state")["gpu_hours"]
    wasted = ledger[ledger["state"].isin(WASTED)]
    total = float(hours.sum())
    unknown_hours = float(hours.get(GpuState.UNKNOWN.value, 0.0))
    return Headline(
        installed_gpu_hours=float((installed * span).sum()),
        allocated_gpu_hours=float((allocated * span).sum()),
        held_used_gpu_hours=float((by_holders * span).sum()),
        bound_used_gpu_hours=float((_bound(usage) * span).sum()),
        installed_gpus=_ratio(installed * span, span),
        allocated_gpus=_ratio(allocated * span, span),
        used_gpus=_ratio(used * span, span),
        utilization_ratio=_ratio(used * span, measured * span),
        allocated_ratio=_ratio(allocated * span, _held_base(usage, allocated, measured_gpus) * span),
        held_used_gpus=_ratio(by_holders * span, span),
        held_unknown_gpus=_ratio(doubted * span, span),
        fallow_gpu_hours=float(((allocated - by_holders - doubted).clip(lower=0.0) * span).sum())
        if len(usage)
        else None,
        wasted_gpu_hours=float(wasted["gpu_hours"].sum()),
        wasted_cost=_cost(wasted),
        currency=next((str(c) for c in ledger["currency"] if not text.missing(c)), None),
        measured_ratio=1 - unknown_hours / total if total > 0 else None,
        unknown_gpu_hours=unknown_hours,
        withheld_gpu_hours=float(hours.get(GpuState.WITHHELD.value, 0.0)),
        energy=energy.used(records(ledger)),
        wasted_energy=energy.used(records(wasted)),
        there_ratio=_ratio(span.where(installed > 0, 0.0), span) or 0.0,
    )


KNOWN_ENOUGH = 0.9
"""Of both ranges, to compare them: an hour that nobody measured would look like a change."""
WORTH_TELLING_GPUS = 0.05
"""Less is written as 0."""
SAME = 0.005
"""Half a percentage point, which rounds to none."""


def change(now: Headline, before: Headline, part: Callable[[Headline], float]) -> float | None:
    """By how much a part of the installed hours rose since the range before, from -1 to 1.

    ``part`` gives the part's hours. ``None`` where nine tenths of either range were not there, or not known.
    """
    for each in (now, before):
        if min(each.there_ratio, each.measured_ratio or 0.0) < KNOWN_ENOUGH:
            return None
    here, there = (each.of_installed(part(each)) for each in (now, before))
    return None if here is None or there is None else here - there


def sentence(head: Headline, of_whom: str | None) -> str:
    """The overview in one sentence."""
    if not head.measured_ratio or head.used_gpus is None:
        return "Nothing was measured in this time"
    most, least = ("at most ", "at least ") if is_bound(head.bound_used_gpu_hours) else ("", "")
    if of_whom:
        shown, used = text.some_gpus(head.allocated_gpus), text.gpus(head.used_gpus)
        return f"{of_whom} held {shown} on average and used {most}{used}"
    installed, allocated, worked, lay, unknown = (
        head.of_the_cluster(gpus)
        for gpus in (
            head.installed_gpus,
            head.allocated_gpus,
            head.held_used_gpus,
            head.fallow_gpus,
            head.held_unknown_gpus,
        )
    )
    untold = f", {text.gpus(unknown)} unknown" if unknown and unknown >= WORTH_TELLING_GPUS else ""
    # of a range in which GPUs came or went it is a mean, and no number of GPUs
    on_average = "" if text.gpus(installed).isdigit() else " on average"
    return (
        f"Of {text.some_gpus(installed)}{on_average}, {text.gpus_were(allocated)} handed out and "
        f"{most}{text.gpus(worked)} worked: {least}{text.gpus(lay)} lay fallow{untold}"
    )


def _bound(usage: pd.DataFrame) -> "pd.Series[float]":
    """Used by GPU utilization alone, step by step; an older service does not tell it."""
    return usage.get("bound_used_gpus", usage["used_gpus"] * 0.0).fillna(0.0)


def _held_base(
    usage: pd.DataFrame, allocated: "pd.Series[float]", measured_gpus: "pd.Series[float]"
) -> "pd.Series[float]":
    share = usage["allocated_ratio"].fillna(0.0)
    return (
        (allocated / share.where(share > 0))
        .fillna(measured_gpus)
        .where(usage["allocated_ratio"].notna(), 0.0)
    )


def _ratio(part: "pd.Series[float]", denominator: "pd.Series[float]") -> float | None:
    total = float(denominator.sum())
    return float(part.sum()) / total if total > 0 else None


def _cost(wasted: pd.DataFrame) -> float | None:
    spent = wasted[wasted["gpu_hours"] > 0]["cost"]
    return None if spent.empty or bool(spent.isna().any()) else float(spent.sum())
