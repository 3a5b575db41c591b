"""One verdict for a job over all its GPUs, and its efficiency in one line, running or ended. Pure.

From a row of the query ``jobs``: the ledger's hours of the window that is looked at, and the kinds of what
was found. The order of the questions is that of what a person would want to know first.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import isnan
from typing import Any

from analytics import text
from analytics.model import FindingKind
from analytics.thresholds import STILL_RATIO, at_least, at_most
from collector.model import Basis

ENOUGH_MEASURED = 0.95
"""As findings are judged: with less, the answer is unknown."""
IDLE_RATIO = 0.5
"""Idle for half of its time: more than anything else it did, it waited."""
SOME_IDLE_RATIO = 0.1
"""Under a tenth is what starts, checkpoints and ends take."""
ENGINES_RATIO = 0.5
"""Whoever works on video engines for half of its time fills no SMs, and need not."""
LOW_RATIO = 0.25
"""Low saturation, as the ledger has it."""
YOUNG_GPU_HOURS = 2.0
"""A GPU is forgiven two hours of preparing (the policy's start-up limit)."""

CONTRADICT = "its counters contradict each other"

Row = Mapping[Any, Any]


def is_upper_bound(row: Mapping[str, object]) -> bool:
    """Whether what a job used (query ``jobs``) rests on GPU utilization, the time in which any kernel ran.

    Where none ran, nothing was used, and that is no bound.
    """
    return row.get("rung") == Basis.GPU_UTILIZATION and row.get("used_gpu_hours") != 0


def is_use_known(row: Mapping[str, Any]) -> bool:
    """Whether enough was measured to tell what was used, of a job or of one of its GPUs (``job_gpus``)."""
    held = row["gpu_hours"] or 0.0
    return held <= 0 or unmeasured_hours(row) < ENOUGH_MEASURED * held


def unmeasured_hours(row: Mapping[str, Any]) -> float:
    """GPU-hours in which nobody knows what was done: not measured, or measured and in doubt."""
    return float(row.get("unknown_gpu_hours") or 0.0) + _suspect(row)


def verdict(row: Row) -> str:
    """What became of a job's GPUs, in a few words without a subject: "used 1 of 4 GPUs", of all its runs.

    A requeued job keeps its number, and a pod that is started anew its name: one person's runs under one id
    are one job, and its verdict says of how many runs it is.
    """
    runs = _count(row.get("runs"))
    hung = "; it may hang, or have hung" if FindingKind.MAY_HANG in kinds(row) else ""
    lost = "; a GPU was lost under it" if FindingKind.FALLING_GPU in kinds(row) else ""
    return _verdict(row) + (f", in {runs} runs" if runs > 1 else "") + hung + lost


def _verdict(row: Row) -> str:
    held, unknown = row["gpu_hours"] or 0.0, row["unknown_gpu_hours"] or 0.0
    if held <= 0:
        return "held nothing in this time"
    why = _why_not_judged(held, unknown, _suspect(row))
    if why:
        return f"not judged: {why}"
    found = kinds(row)
    gpus, used = _at_once(row), _count(row["gpus_used"])
    if FindingKind.CRASH_LOOP in found:
        return "crashed and started again and again" + ("" if used else ", and never computed")
    if not used and (level := _faint_level(row, held)):
        return f"used next to nothing ({text.percent(level)} SM active)"
    if not used:
        is_short = _is_there(row) and held <= YOUNG_GPU_HOURS * max(gpus, 1)
        if is_short and _is_older(row):  # what it did before this time is not asked
            return "has not computed in this time"
        return "has not computed yet" if is_short else "did not compute"
    if used < gpus:
        return f"used {used} of {gpus} GPUs"
    if FindingKind.STRAGGLER in found:
        return "worked unevenly: one part of its GPUs may wait for the other"
    return _worked(row, held)


def _at_once(row: Row) -> int:
    """How many GPUs it held at one time; one that moved held more in all. An older service tells all."""
    return _count(row.get("gpus_at_once")) or _count(row["gpus"])


def _faint_level(row: Row, held: float) -> float | None:
    """The mean SM active of a job whose bins were at most 1% busy, and whose SMs worked; ``None`` of others.

    A GPU at rest has an SM active of exactly 0. What is used beyond the hours in which it was busy at all
    was used in the others.
    """
    measured = held - unmeasured_hours(row)
    used, busy = row["used_gpu_hours"] or 0.0, row["busy_gpu_hours"] or 0.0
    if row["rung"] != Basis.SM_ACTIVE or measured <= 0 or not at_least(used - busy, STILL_RATIO * measured):
        return None
    return float(used / measured)


def kinds(row: Row) -> frozenset[str]:
    """The kinds of what was found about it."""
    found = row["found"]
    return frozenset(found.split(", ")) if isinstance(found, str) and found else frozenset()


def efficiency(row: Row) -> str:
    """Given, used and wasted in one line, of one denominator, and the most memory on a GPU."""
    held, gpus, at_once = row["gpu_hours"] or 0.0, _count(row["gpus"]), _at_once(row)
    moved = f" ({at_once} at a time)" if at_once < gpus else ""
    doubted = (
        f", {text.hours(_suspect(row))} in doubt" if _suspect(row) > (1 - ENOUGH_MEASURED) * held else ""
    )
    memory = _count(row["memory_used_max_bytes"])
    peak = f" · most memory on a GPU {text.size(memory)}" if memory else ""
    return (
        f"{gpus} GPU{'' if gpus == 1 else 's'}{moved} · {text.gpu_hours(held)} given, "
        f"{_used(row, held)}, "
        f"{text.hours(row['wasted_gpu_hours'] or 0.0)} wasted{_of(row['wasted_gpu_hours'], held)}"
        f"{doubted}{peak}"
    )


def _why_not_judged(held: float, unknown: float, suspect: float) -> str | None:
    """What is missing of a job's hours, or contradicts itself, where that is more than a twentieth."""
    most = (1 - ENOUGH_MEASURED) * held
    if at_most(unknown + suspect, most):
        return None
    gaps = f"{text.coverage(1 - unknown / held)} of its time was measured"
    doubts = f"{CONTRADICT} in {text.percent(suspect / held)} of its time"
    told = ((gaps, unknown > min(most, suspect)), (doubts, suspect > most or suspect >= unknown))
    return "; ".join(said for said, is_told in told if is_told)


def _used(row: Row, held: float) -> str:
    used = row["used_gpu_hours"]
    if held > 0 and (not is_use_known(row) or _stands_still(row, held)):
        return "use not known"
    bound = "at most " if is_upper_bound(row) else ""
    return f"{bound}{text.hours(used or 0.0)} used{_of_share(used, held)}"


def _suspect(row: Row) -> float:
    """GPU-hours in which its counters contradict each other; an older service does not tell them."""
    return row.get("suspect_gpu_hours") or 0.0


def _stands_still(row: Row, held: float) -> bool:
    """Whether kernels ran, and the SMs on which they must run were never active: one of the two is wrong.

    One warp on one of 192 SMs for 1% of the time, the least that is busy, is half of the smallest use that is
    kept (0.01%): what adds up to exactly nothing was never active.
    """
    busy = _computed(row)
    if (
        at_most(busy, (1 - ENOUGH_MEASURED) * held)
        or (row.get("engine_gpu_hours") or 0.0) >= ENGINES_RATIO * busy
    ):
        return False
    return not row["used_gpu_hours"]


def _worked(row: Row, held: float) -> str:
    if _stands_still(row, held):
        return f"not judged: {CONTRADICT} (kernels ran, and no SM was active)"
    wasted, busy = row["wasted_gpu_hours"] or 0.0, _computed(row)
    level = (row["used_gpu_hours"] or 0.0) / busy if busy else 0.0
    on_engines = busy > 0 and (row.get("engine_gpu_hours") or 0.0) >= ENGINES_RATIO * busy
    if at_least(wasted, IDLE_RATIO * held):
        # It was found not to have started yet, and nobody is accused of that: it may have staged its data.
        began = ", before it first computed too: it may have been preparing"
        staged = began if FindingKind.NOT_STARTED in kinds(row) else ""
        return f"idle for {text.part(wasted / held)} of its time{staged}"
    copied = row.get("copied_gpu_hours") or 0.0
    if copied and not row["used_gpu_hours"] and not on_engines:
        return "copied, and did not compute"
    part = text.percent(copied / held)
    also = (
        f"; copied, and did not compute, for {part} of its time"
        if at_least(copied, SOME_IDLE_RATIO * held)
        else ""
    )
    if not at_least(level, LOW_RATIO) and not on_engines:
        return f"worked, and filled {text.percent(level)} of its GPUs while it did{also}"
    if at_least(wasted, SOME_IDLE_RATIO * held):
        return f"worked, and was idle for {text.percent(wasted / held)} of its time{also}"
    return f"worked{', on video engines' if on_engines else ''}{also}"


def _computed(row: Row) -> float:
    """GPU-hours in which its GPUs were busy, but for copies; an older service does not tell these."""
    return max(0.0, (row["busy_gpu_hours"] or 0.0) - (row.get("copied_gpu_hours") or 0.0))


def _is_there(row: Row) -> bool:
    """Whether it still holds a GPU; frames have NaT for None."""
    return row["to_ts"] is None or str(row["to_ts"]) == "NaT"


def _is_older(row: Row) -> bool:
    """Whether what still holds a GPU was given one long before its newest sample: it is not starting."""
    began, measured = _instant(row.get("from_ts")), _instant(row.get("measured_to"))
    return began is not None and measured is not None and measured - began > timedelta(hours=YOUNG_GPU_HOURS)


def _instant(value: object) -> datetime | None:
    """A time of a row, of JSON or a frame; ``None`` where none is known."""
    return None if value is None or str(value) == "NaT" else text.aware(datetime.fromisoformat(str(value)))


def _count(value: Any) -> int:
    """A whole number; of a frame's NaN, as of None, nothing is known and nothing counted."""
    return 0 if value is None or isnan(value) else int(value)


def _of(part: float | None, held: float) -> str:
    return f" ({text.part((part or 0.0) / held)})" if held > 0 else ""


def _of_share(used: float | None, held: float) -> str:
    """The part of what was given; of a GPU that others hold too it may have used more than its share."""
    return " (more than its share)" if held > 0 and (used or 0.0) > held else _of(used, held)
