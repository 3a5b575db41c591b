"""A range's waste as a sentence: the ledger's sum, and how much of it findings are about. Pure."""

from typing import TYPE_CHECKING

import pandas as pd

from analytics import text
from service import energy, wording
from service.summaries.frames import records

if TYPE_CHECKING:
    from service.schemas.rows import WasteRow


def sentence(count: int, waste: pd.DataFrame | None, *, open_only: bool) -> str:
    """How many findings there are, one a job, and the ledger's sum of the range's waste."""
    many = text.many(count, "open finding" if open_only else "finding")
    return f"{many}{'' if open_only else ', open and closed'}{wasted(waste, open_only=open_only)}"


def wasted(waste: pd.DataFrame | None, *, open_only: bool) -> str:
    """The range's waste as the end of a sentence, and how much of it findings are about."""
    if waste is None or waste.empty or not waste["wasted_gpu_hours"].iloc[0]:
        return ""
    row = waste.iloc[0]
    cost = row["wasted_cost"]
    worth = "" if text.missing(cost) else f", {text.money(cost, row['currency'])},"
    named = row["open_gpu_hours" if open_only else "found_gpu_hours"]
    about = "what is open" if open_only else "these"
    lead = f"; {text.gpu_hours(row['wasted_gpu_hours'])}{worth} were wasted in this time"
    return f"{lead}, {text.gpu_hours(named)} of them about {about}" if named else lead


def beside(waste: pd.DataFrame) -> str:
    """What the sum is made of, and the figure that is no part of it."""
    row: WasteRow = records(waste)[0]
    least = wording.at_least(row.get("bound_used_gpu_hours"))
    low = f"{least}{text.gpu_hours(row['low_saturation_gpu_hours'])}"
    drawn = energy.wasted([row]) if "wasted_energy_kwh" in row else None
    metered = f" What was wasted drew {energy.written(drawn)}." if drawn is not None and drawn.kwh else ""
    return (
        "Wasted is held with no process on it, or with one that did nothing; each GPU-hour counts once, "
        f"whatever is found about it. {low} at low saturation are beside it.{metered}"
    )
