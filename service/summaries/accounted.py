"""Words about GPU-hours that a workload manager's accounting tells of, and of whose use only means are known.

A mean over a run is no state of any moment (docs/decisions/0069): what was idle has bounds and no figure.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from service.schemas.rows import AccountedRunsRow


HEADING = "From imported accounting, GPU-hours that no ledger has as given"
LEAST_HOURS = 0.05
"""Less shows as 0.0."""
MOST_NAMED = 3
"""Of the people in a sentence; all are in the table."""


def told(rows: Sequence[Mapping[str, object]]) -> str:
    """What is known of all rows (query ``accounted_use``) together, in sentences."""
    total, measured, used, unused = (
        sum(text.known(row[name]) or 0.0 for row in rows)
        for name in ("gpu_hours", "measured_gpu_hours", "used_gpu_hours", "unused_gpu_hours")
    )
    behind = f"{_beside(_sum(rows, 'beside_gpu_hours'))}{_uncounted(rows)}"
    if total < LEAST_HOURS and behind:
        return behind.strip()
    if not measured:
        return f"{text.gpu_hours(total)} were given out; nobody measured what was made of them.{behind}"
    least = f"at least {text.gpu_hours(unused)} (GPUs with a mean of 0)" if unused else "perhaps none"
    mean, most = text.percent(used / measured), text.gpu_hours(measured - used)
    return (
        f"{text.gpu_hours(total)} were given out; of {text.gpu_hours(measured)} jobstats kept each GPU's "
        f"mean over the run: {mean}. When in a run a GPU was idle a mean doesn't say: of these hours {least} "
        f"and at most {most} were idle, and none is counted as wasted.{behind}"
    )


def _beside(hours: float) -> str:
    """Behind the sum: how much of it ledgers have too, as held by nobody."""
    if hours < LEAST_HOURS:
        return ""
    return (
        f" Of these {text.gpu_hours(hours)} are of runs that no sample names, on nodes that were measured: "
        "ledgers have those GPUs as held by nobody."
    )


def _uncounted(rows: Sequence[Mapping[str, object]]) -> str:
    """Behind the sum: what is in none, since it would be given twice or may be."""
    hours = _sum(rows, "uncounted_gpu_hours")
    if hours < LEAST_HOURS:
        return ""
    return (
        f" {text.gpu_hours(hours)} more{_whose(rows, 'uncounted_gpu_hours')} are in no sum: by the samples "
        "their nodes had no GPU left for them, or somebody unknown held some, who may be they."
    )


def left_out(rows: Sequence[Mapping[str, object]]) -> str | None:
    """What a head of figures does not have, and whose it is: hours of runs that no sample names, and of
    nodes and times that were not measured.

    ``rows``: of the query ``accounted_use`` by user. ``None`` where there are none.
    """
    return _sums_sentence(rows, " more")


def instead(rows: Sequence[Mapping[str, object]], else_said: str) -> str:
    """What is said where nothing that was measured names a holder: all that accounting gave out (query
    ``accounted_use`` by user), ``else_said`` where it knows of nothing either.
    """
    return _sums_sentence(rows, "") or else_said


def counted(rows: Sequence[Mapping[str, object]]) -> str | None:
    """Why sums have less of one job's run than accounting gave it (``accounted_use`` by job, its row over its
    run); ``None`` where they have all of it.
    """
    has, lacks = _sum(rows, "gpu_hours"), _sum(rows, "uncounted_gpu_hours")
    if lacks < LEAST_HOURS:
        return None
    return (
        f"the ledger counts {text.hours(has)} of these {text.gpu_hours(has + lacks)}: for "
        f"{text.hours(lacks)} its nodes had, by the samples, no GPU left for it, or somebody unknown held "
        "one, who may be its owner"
    )


def _sums_sentence(rows: Sequence[Mapping[str, object]], more: str) -> str | None:
    total, beside = _sum(rows, "gpu_hours"), _sum(rows, "beside_gpu_hours")
    behind = _uncounted(rows)
    if total < LEAST_HOURS:
        return f"By imported accounting{behind}" if behind else None
    before = total - beside
    if beside < LEAST_HOURS:
        where = "where or when nothing was measured:"
    elif before < LEAST_HOURS:
        where = "in runs that no sample names: nobody knows what was made of them, and"
    else:
        where = (
            f"{text.hours(before)} of them where or when nothing was measured, {text.hours(beside)} in runs "
            "that no sample names:"
        )
    return (
        f"By imported accounting {text.gpu_hours(total)}{more} were given out{_whose(rows, 'gpu_hours')}, "
        f"{where} they are in no sum here.{behind}"
    )


def _whose(rows: Sequence[Mapping[str, object]], column: str) -> str:
    """Behind hours: whose they are, the most first, as `` (ann 8.0, bob 2.5)``."""
    theirs = [(str(row["key"]), text.known(row.get(column)) or 0.0) for row in rows if row["key"]]
    named = sorted((each for each in theirs if each[1] >= LEAST_HOURS), key=lambda each: -each[1])
    whose = ", ".join(f"{who} {text.hours(hours)}" for who, hours in named[:MOST_NAMED])
    others = f" and {text.many(len(named) - MOST_NAMED, 'other')}" if len(named) > MOST_NAMED else ""
    return f" ({whose}{others})" if whose else ""


def _sum(rows: Sequence[Mapping[str, object]], column: str) -> float:
    return float(sum(text.known(row.get(column)) or 0.0 for row in rows))


def gpus_used(run: "AccountedRunsRow") -> str | None:
    """The means of one run (query ``accounted_runs``) in a sentence; ``None`` where nobody measured it."""
    if run["utilization_ratio"] is None:
        return None
    count, never, mean = run["measured_gpus"] or 0, run["unused_gpus"], text.percent(run["utilization_ratio"])
    of = f"{count} of its {run['gpus']} GPUs" if count < run["gpus"] else text.many(count, "GPU")
    none = f"; {never} of them never used" if never else ""
    return f"mean utilization of {of} over the run, by jobstats: {mean}{none}"
