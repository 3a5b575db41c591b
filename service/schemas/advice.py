"""What is advised, what recurs and what the past would have brought, as JSON has it: each is a dictionary.

Verbs print these rows, pages and reports read them; no route answers them.
"""

from collections.abc import Mapping
from typing import TypedDict

EvidenceValue = float | int | bool | str | None

AdviceRow = TypedDict(
    "AdviceRow",
    {
        "id": str,
        "class": str,
        "job": str | None,
        "gpus": list[str],
        "what": str,
        "why": str,
        "gain_gpu_hours": float | None,
        "gain_money": float | None,
        "currency": str | None,
        "gain_is_past": bool,
        "horizon_s": float | None,
        "risk": str,
        "risk_to": list[str],
        "confidence": float,
        "confidence_is_known": bool,
        "steps": list[Mapping[str, object]],
        "evidence": Mapping[str, EvidenceValue],
    },
)
"""One advice; gains for which nothing recorded speaks are ``None``, and such a confidence is a guess.
With ``gain_is_past`` they are of hours that the job has held already, else of coming ones: ``horizon_s`` of
them. Steps differ in their fields."""

AbstainRow = TypedDict(
    "AbstainRow",
    {"class": str, "job": str | None, "gpus": list[str], "reason": str, "would_change": str},
)
"""One reason for no advice."""


class HabitRow(TypedDict):
    """A person's idle times of one kind of job, and what a limit of ``limit_s`` gives back.

    Where nobody knows whose a job is (``user`` is ``None``), they are of that ``job`` alone.

    ``ended_jobs`` worked again after an idle time longer than the limit, which would have ended them;
    ``ended_gpu_hours`` of these times lie past it, and are in no gain.
    ``user`` and ``kind`` are ``None`` where they are not known.
    """

    user: str | None
    job: str | None
    kind: str | None
    times: int
    days: int
    jobs: int
    idle_gpu_hours: float
    limit_s: float
    gives_back_gpu_hours: float
    ended_jobs: int
    ended_gpu_hours: float


class EarnedRow(TypedDict):
    """How far off expectations were on this history; ``None`` where there was too little to tell."""

    cases: int
    median_error: float | None
    total_error: float | None


class GivenRow(TypedDict):
    """What one class of action would have given back; ``cases`` are those that earned its error."""

    action: str
    how: str
    gpu_hours: float
    jobs: int
    times: int
    disturbed: int
    low: float | None
    high: float | None
    money: float | None
    cases: int


class ChargedRow(TypedDict):
    """A project's use and its part of what is lent, now and were held-idle hours charged; ratios."""

    project: str
    allocated_ratio: float
    held_idle_ratio: float
    part: float
    part_charged: float
