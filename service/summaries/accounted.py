"""Words about GPU-hours that a workload manager's accounting tells of, and of whose use only means are known.

A mean over a run is no state of any moment (docs/decisions/0069): what was idle has bounds and no figure.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from service.schemas.rows import AccountedRunsRow


HEADING = "From imported accounting, GPU-hours that no ledger has as given"
LEAST_BESIDE_HOURS = 0.05
"""Less shows as 0.0."""
MOST_NAMED = 3
"""Of the people in a sentence; all are in the table."""


def told(rows: Sequence[Mapping[str, object]]) -> str:
    """What is known of all rows (query ``accounted_use``) together, in sentences."""
    given, measured, used, unused = (
        sum(text.known(row[name]) or 0.0 for row in rows)
        for name in ("gpu_hours", "measured_gpu_hours", "used_gpu_hours", "unused_gpu_hours")
    )
    beside = sum(text.known(row.get("beside_gpu_hours")) or 0.0 for row in rows)
    if not measured:
        return (
            f"{text.gpu_hours(given)} were given out; nobody measured what was made of them.{_beside(beside)}"
        )
    least = f"at least {text.gpu_hours(unused)} (GPUs with a mean of 0)" if unused else "perhaps none"
    mean, most = text.percent(used / measured), text.gpu_hours(measured - used)
    return (
        f"{text.gpu_hours(given)} were given out; of {text.gpu_hours(measured)} jobstats kept each GPU's "
        f"mean over the run: {mean}. When in a run a GPU was idle a mean doesn't say: of these hours {least} "
        f"and at most {most} were idle, and none is counted as wasted.{_beside(beside)}"
    )


def _beside(hours: float) -> str:
    """Behind the sum: how much of it ledgers have too, as held by nobody."""
    if hours < LEAST_BESIDE_HOURS:
        return ""
    return (
        f" Of these {text.gpu_hours(hours)} are of runs that no sample names, on nodes that were measured: "
        "ledgers have those GPUs as held by nobody."
    )


def unnamed(rows: Sequence[Mapping[str, object]]) -> str | None:
    """What a head of figures does not have: hours of runs that no sample names, and whose they are.

    ``rows``: of the query ``accounted_use`` by user. ``None`` where there are none.
    """
    theirs = [(row["key"], text.known(row.get("beside_gpu_hours")) or 0.0) for row in rows]
    total = sum(hours for _, hours in theirs)
    if total < LEAST_BESIDE_HOURS:
        return None
    named = sorted(((str(who), hours) for who, hours in theirs if who and hours), key=lambda each: -each[1])
    whose = ", ".join(f"{who} {text.hours(hours)}" for who, hours in named[:MOST_NAMED])
    more = f" and {text.many(len(named) - MOST_NAMED, 'other')}" if len(named) > MOST_NAMED else ""
    return (
        f"By imported accounting {text.gpu_hours(total)} more were given out"
        f"{f' ({whose}{more})' if whose else ''}: no sample names these runs, so nobody knows what was made "
        "of them, and they are in no sum here."
    )


def instead(rows: Sequence[Mapping[str, object]], else_said: str) -> str:
    """What is said where nothing that was measured names a holder: what accounting gave out (query
    ``accounted_use``), ``else_said`` where it knows of nothing either.
    """
    given = sum(
        (text.known(row["gpu_hours"]) or 0.0) - (text.known(row.get("beside_gpu_hours")) or 0.0)
        for row in rows
    )
    if given < LEAST_BESIDE_HOURS:  # what is beside the ledgers, ``unnamed`` tells
        return else_said
    return f"{text.gpu_hours(given)} were given out, by imported accounting; nothing was measured here then."


def gpus_used(run: "AccountedRunsRow") -> str | None:
    """The means of one run (query ``accounted_runs``) in a sentence; ``None`` where nobody measured it."""
    if run["utilization_ratio"] is None:
        return None
    count, never, mean = run["measured_gpus"] or 0, run["unused_gpus"], text.percent(run["utilization_ratio"])
    of = f"{count} of its {run['gpus']} GPUs" if count < run["gpus"] else text.many(count, "GPU")
    none = f"; {never} of them never used" if never else ""
    return f"mean utilization of {of} over the run, by jobstats: {mean}{none}"
