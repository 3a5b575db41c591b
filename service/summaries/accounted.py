"""Words about GPU-hours that a workload manager's accounting tells of, and of whose use only means are known.

A mean over a run is no state of any moment (docs/decisions/0069): what was idle has bounds and no figure.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from service.schemas.rows import AccountedRunsRow


HEADING = "From imported accounting, of time in which nothing was measured here"


def told(rows: Sequence[Mapping[str, object]]) -> str:
    """What is known of all rows (query ``accounted_use``) together, in sentences."""
    given, measured, used, unused = (
        sum(text.known(row[name]) or 0.0 for row in rows)
        for name in ("gpu_hours", "measured_gpu_hours", "used_gpu_hours", "unused_gpu_hours")
    )
    if not measured:
        return f"{text.gpu_hours(given)} were given out; nobody measured what was made of them."
    least = f"at least {text.gpu_hours(unused)} (GPUs with a mean of 0)" if unused else "perhaps none"
    mean, most = text.percent(used / measured), text.gpu_hours(measured - used)
    return (
        f"{text.gpu_hours(given)} were given out; of {text.gpu_hours(measured)} jobstats kept each GPU's "
        f"mean over the run: {mean}. When in a run a GPU was idle a mean doesn't say: of these hours {least} "
        f"and at most {most} were idle, and none is counted as wasted."
    )


def instead(rows: Sequence[Mapping[str, object]], else_said: str) -> str:
    """What is said where nothing that was measured names a holder: what accounting gave out (query
    ``accounted_use``), ``else_said`` where it knows of nothing either.
    """
    given = sum(text.known(row["gpu_hours"]) or 0.0 for row in rows)
    if not given:
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
