"""What background jobs did in others' idle gaps, and what it cost those, in sentences and figures. Pure.

Rows are those of the query ``harvests``. A figure without the other is not told: what was harvested means
nothing without what it cost, and the other way round.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analytics import text

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """All stays of one background job beside one other. ``harvested_gpu_s`` and ``slowdown_ratio`` are both
    known or neither; the ratio is the newest.
    """

    job: str
    foreground: str
    steps: int
    harvested_gpu_s: float | None
    slowdown_ratio: float | None
    foreground_steps: int | None


def harvests_of(rows: Iterable[Row], job: str) -> tuple[Harvest, ...]:
    """Those in which a job is on either side, the newest first; rows come so as well."""
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if job in (row["job"], row["foreground"]):
            pairs.setdefault((str(row["job"]), str(row["foreground"])), []).append(row)
    return tuple(_together(each) for each in pairs.values())


def sentences(rows: Iterable[Row], job: str) -> tuple[str, ...]:
    """A sentence for each of them."""
    return tuple(_sentence(each, job) for each in harvests_of(rows, job))


def ratio(each: Harvest) -> str:
    """The foreground's step beside the other over its own: ``1.004``."""
    return text.NOTHING if each.slowdown_ratio is None else f"{each.slowdown_ratio:.3f}"


def _together(rows: list[Row]) -> Harvest:
    measured = [row for row in rows if not text.missing(row["harvested_gpu_s"])]
    newest = measured[0] if measured else rows[0]
    foreground_steps = text.known(newest["foreground_steps"])
    return Harvest(
        job=str(rows[0]["job"]),
        foreground=str(rows[0]["foreground"]),
        steps=int(sum(text.known(row["steps"]) or 0 for row in rows)),
        harvested_gpu_s=sum(text.known(row["harvested_gpu_s"]) or 0.0 for row in measured)
        if measured
        else None,
        slowdown_ratio=text.known(newest["slowdown_ratio"]) if measured else None,
        foreground_steps=None if foreground_steps is None else int(foreground_steps),
    )


def _sentence(each: Harvest, job: str) -> str:
    if each.job == job:
        whose = f"In the idle gaps of {each.foreground} it has"
    else:
        whose = f"In its idle gaps {each.job} has"
    costs = "it" if each.foreground == job else each.foreground
    if each.harvested_gpu_s is None:
        return f"{whose} made {each.steps:,} steps; what that gives, and costs {costs}, is not measured yet."
    harvested = text.length(each.harvested_gpu_s)
    return (
        f"{whose} made {each.steps:,} steps: {harvested} of GPU time harvested; {costs} "
        f"runs at {ratio(each)} of its own step ({each.foreground_steps or 0:,} steps, one in 20 alone)."
    )
