"""A message at a job's end: its efficiency in one line and its verdict, as ``seff`` tells it. Pure.

An end happened, and does not last: its case opens, is told once, and closes without a word. Who wants to hear
of it, and from how many GPU-hours on, is the configuration's to say; nobody does unless it says so.
"""

import shlex
from collections.abc import Iterable

from analytics import text
from analytics.job_verdict import efficiency, kinds, verdict
from analytics.model import Evidence
from analytics.vocabulary.findings import FindingKind, words_of_kind
from service.alerts.facts import Ended, Facts
from service.alerts.messages import GIVEN
from service.alerts.model import WORTH_A_WORD, AlertKind, Condition, Evaluation
from service.config.alerting import AlertsConfig

SETTLES_MS = 300_000
"""The ledger's newest minutes are still being written, and a job that is requeued at once has not ended."""
BACK_MS = 7 * 86_400_000
"""A service that was away tells of the ends of a week; of what lies longer ago a report tells."""
REMEDIES = 2
"""So many of the kinds that were found about it are told with what to do."""


def least_gpu_hours(config: AlertsConfig) -> float | None:
    """From how many GPU-hours on anybody at all wants to hear of a job's end; ``None``: nobody does."""
    thresholds = [config.ended_gpu_hours, *(each.ended_gpu_hours for each in config.by_receiver.values())]
    positive = [hours for hours in thresholds if hours > 0]
    return min(positive) if positive and AlertKind.JOB_ENDED.value in config.kinds else None


def ended_jobs(facts: Facts, open_keys: Iterable[str]) -> Evaluation:
    """The ends that are to be told. A job that is paused or waits is known still: it has not ended."""
    holds: dict[str, Condition] = {}
    prefix = f"{AlertKind.JOB_ENDED.value}:"
    calm = {key: "it was told" for key in open_keys if key.startswith(prefix)}
    for each in facts.ended:
        condition = _condition(each)
        if each.job in facts.state.jobs:
            calm[condition.key] = "it has not ended"
        else:
            holds[condition.key] = condition
            calm.pop(condition.key, None)
    return Evaluation(at_ms=facts.now_ms, holds=holds, calm=calm)


def _condition(ended: Ended) -> Condition:
    row = ended.row
    whose = "somebody's" if row["user_name"] is None else f"{row['user_name']}'s"
    became = verdict(row)
    remedies = [
        words.remedy_for(row.get("kind")) for kind in sorted(kinds(row)) if (words := words_of_kind(kind))
    ]
    again = f" Next time: {'; or: '.join(remedies[:REMEDIES])}." if remedies else ""
    if FindingKind.FALLING_GPU in kinds(row):
        again = " A GPU was lost under it: start it again from its newest checkpoint, on other GPUs."
    begun = text.clock(ended.from_ms)
    earlier = " or earlier" if row.get("from_is_bound") else ""
    return Condition(
        key=f"{AlertKind.JOB_ENDED.value}:{ended.job}",
        kind=AlertKind.JOB_ENDED,
        level=WORTH_A_WORD,
        rung="ended",
        since_ms=ended.to_ms,
        title=f"{whose} {row['job_name'] or row['kind'] or 'job'} ({ended.job}) has ended: {became}",
        says=(
            f"{efficiency(row)}. Its verdict: {became}. "
            f"It held GPUs from {begun}{earlier} to {text.clock(ended.to_ms)}."
        ),
        next=f"Nothing; it has ended.{again}",
        do=f"fallow job {shlex.quote(ended.job)} --since {begun[:10]}",
        evidence=(
            Evidence(name=GIVEN, value=row["gpu_hours"]),
            Evidence(name="used_gpu_hours", value=row["used_gpu_hours"]),
            Evidence(name="wasted_gpu_hours", value=row["wasted_gpu_hours"]),
            Evidence(name="unknown_gpu_hours", value=row["unknown_gpu_hours"]),
            Evidence(name="memory_used_max_bytes", value=row["memory_used_max_bytes"]),
        ),
        job=ended.job,
        user=row["user_name"],
        project=row["project"],
        gpus=ended.gpus,
    )
