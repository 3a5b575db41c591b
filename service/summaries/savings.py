"""What the actions did give back, in words: the same on the Actions page and in the report. Pure."""

from collections.abc import Mapping

import pandas as pd

from service import wording
from service.client.given_back import Saving, Savings

WORDS: Mapping[str, str] = {
    "reclaim": "Idle jobs paused, or sent back to the queue",
    "pack": "Light jobs put together",
    "resize": "Elastic jobs made smaller",
    "consolidate": "Moved for a gang that waited",
    "cap-memory": "Memory let go of",
    "people": "People's own pauses and resizes, in no sum",
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
    times = "One action" if total.times == 1 else f"{wording.count(total.times)} actions"
    if total.worked_gpu_hours is None:
        measured = wording.percent(total.coverage_ratio)
        return f"{times} freed GPUs; what came of it is unknown: only {measured} of that time was measured."
    worked = wording.hours(total.worked_gpu_hours)
    return (
        f"{times} freed {wording.hours(total.freed_gpu_hours)}; in {worked} of that other jobs worked there."
    )


def giving_frame(found: Savings) -> pd.DataFrame:
    """A row a class of deeds."""
    rows = [{name: getattr(each, name) for name in COLUMNS} for each in found.classes]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.assign(action=frame["action"].map(told_class))
