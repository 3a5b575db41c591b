"""The judgement that the service keeps, read back as the ``Analysis`` that policies take.

From the rows of the named queries ``findings`` (open ones), ``unjudged`` and ``judgement``, as any client
gets them. No judging happens here. What was judged too long ago accuses nobody: it may have changed since. A
kind of finding that this version does not know is left out: nothing is advised on what is not understood.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from analytics.model import Analysis, Coverage, Evidence, Finding, FindingKind, StartingUp, Unknown
from collector.model import Basis, GpuUuid, Holder, JobId, NodeName

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """When all was last judged (``None``: never), and for how long that is believed."""

    at_ms: int | None
    good_for_ms: int

    @classmethod
    def of(cls, rows: Iterable[Row], good_for_ms: int) -> "Judged":
        """What the rows of the query ``judgement`` say."""
        moments = [row["judged_at"] for row in rows]
        at = moments[0] if moments else None
        return cls(at_ms=None if at is None else moment_ms(at), good_for_ms=good_for_ms)


WARNINGS = frozenset(
    {
        FindingKind.SUSPECT_COUNTERS,
        FindingKind.FALLING_GPU,
        FindingKind.ZOMBIE_MEMORY,
        FindingKind.INTRUDER,
        FindingKind.NOT_STARTED,
        FindingKind.SLEEPING_BATCH,
        FindingKind.CRASH_LOOP,
    }
)
"""What keeps hands off a GPU or a job: it stands until somebody has judged again."""


def recorded_analysis(
    findings: Iterable[Row], unjudged: Iterable[Row], as_of_ms: int, *, judged: Judged
) -> Analysis:
    """The newest judgement at an instant; ``starting`` and ``unknown`` are what ``unjudged`` says."""
    not_judged = list(unjudged)
    overdue = judged.at_ms is None or as_of_ms - judged.at_ms > judged.good_for_ms
    kinds = {kind.value for kind in FindingKind if not overdue or kind in WARNINGS}
    return Analysis(
        as_of_ms=as_of_ms,
        window_from_ms=as_of_ms,
        coverage=Coverage(ratio=0.0, gpus=0, silent_gpus=0),
        findings=tuple(_finding(row) for row in findings if row["kind"] in kinds),
        unknown=tuple(_unknown(row, kinds) for row in not_judged if row["verdict"] == "unknown"),
        starting=tuple(_starting(row, as_of_ms) for row in not_judged if row["verdict"] == "starting"),
        overdue=overdue,
    )


def moment_ms(value: Any) -> int:
    """A time as a client or the store writes it, in milliseconds; a time without a zone is UTC."""
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _finding(row: Row) -> Finding:
    evidence = json.loads(row["evidence"]) if isinstance(row["evidence"], str) else dict(row["evidence"])
    since_ms = evidence.pop("since_ms", None)
    return Finding(
        kind=FindingKind(row["kind"]),
        uuid=GpuUuid(row["uuid"]),
        node=NodeName(row["node"]),
        gpu_index=row["gpu_index"],
        holder=_holder(row),
        since_ms=moment_ms(row["window_from"]) if since_ms is None else int(since_ms),
        window_from_ms=moment_ms(row["window_from"]),
        window_to_ms=moment_ms(row["window_to"]),
        coverage=row["coverage"],
        rung=Basis(row["rung"]),
        # An older service says in this column what a newer one says in the other.
        wasted_gpu_hours=row.get("judged_gpu_hours", row["wasted_gpu_hours"]),
        sentence=row["sentence"],
        evidence=tuple(Evidence(name=name, value=value) for name, value in evidence.items()),
    )


def _holder(row: Row) -> Holder | None:
    if row["job"] is None:
        return None
    return Holder(job=JobId(row["job"]), user=row["user_name"], project=row["project"], name=row["job_name"])


def _unknown(row: Row, names: set[str]) -> Unknown:
    kinds = [kind for kind in (row["kinds"] or "").split(", ") if kind in names]
    return Unknown(
        uuid=GpuUuid(row["uuid"]), kinds=tuple(FindingKind(kind) for kind in kinds), reason=row["reason"]
    )


def _starting(row: Row, as_of_ms: int) -> StartingUp:
    holder = _holder(row) or Holder(job=JobId(""))
    return StartingUp(uuid=GpuUuid(row["uuid"]), holder=holder, from_ms=as_of_ms, until_ms=as_of_ms)
