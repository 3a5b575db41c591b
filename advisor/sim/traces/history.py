"""A site's own job history, in whatever form its workload manager or table has it, as a workload.

A job is played as long as it ran then, on as many GPUs; what it waited then is not played, for that is what a
simulation is to find out. A job's project is the one that is told, else its user. Blocks on the file.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import floor
from pathlib import Path

from advisor.sim.cluster import MOST_GPUS
from advisor.sim.traces.rows import Refused, TraceError, lasting, near
from advisor.sim.workload import BadRow, TraceJob, Work, Workload
from advisor.state.model import Topology
from collector.managers.histories.model import HistoryError, LeftOut, PastJob, Unreadable
from collector.managers.histories.read import REMARKS, HistoryFormat, opened

PARTS = 1000
"""Shares in whole thousandths, rounded down: three thirds still fit on one GPU."""


def read_history(path: Path, format: HistoryFormat | None = None) -> Workload:
    """The jobs of a history, recognized where no format is named. Raises TraceError."""
    jobs: list[tuple[int, TraceJob]] = []
    bad: list[BadRow] = []
    excluded: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    try:
        with opened(path, format) as history:
            remark = REMARKS.get(history.format)
            for line, record in history.records:
                match record:
                    case LeftOut(reason):
                        excluded[reason] += 1
                    case Unreadable(reason):
                        bad.append(BadRow(line=line, reason=reason))
                    case PastJob():
                        runs[record.key] += 1
                        try:
                            jobs.append((line, _job(record, runs[record.key])))
                        except Refused as refused:
                            bad.append(BadRow(line=line, reason=str(refused)))
    except HistoryError as error:
        raise TraceError(str(error)) from error
    near_jobs, far = near(jobs)
    bad = sorted((*bad, *far), key=lambda each: each.line)
    if not near_jobs:
        raise TraceError(f"reading {path}: no job of it can be played{_why(bad, excluded)}")
    first_s = min(job.submitted_s for job in near_jobs)
    return Workload(
        origin=path.name,
        jobs=tuple(
            sorted((_since(job, first_s) for job in near_jobs), key=lambda job: (job.submitted_s, job.name))
        ),
        bad_rows=tuple(bad),
        left_out=tuple(sorted(excluded.items())),
        not_played=() if remark is None else (remark,),
    )


def _job(past: PastJob, run: int) -> TraceJob:
    if past.gpus > MOST_GPUS:
        raise Refused(f"it had {past.gpus:,.0f} GPUs, and no cluster has more than {MOST_GPUS:,}")
    is_unshared = past.gpus >= 1
    return TraceJob(
        name=past.key if run == 1 else f"{past.key} (run {run})",  # put back in line, or a number used again
        project=past.project or past.user or "(unknown)",
        user=past.user,
        label=past.name,
        submitted_s=past.submitted_s,
        gpus=int(past.gpus) if is_unshared else 1,
        share=1.0 if is_unshared else max(floor(past.gpus * PARTS), 1) / PARTS,
        gpu_models=past.gpu_models,
        topology=Topology(past.topology),
        work=Work(steps=lasting(past.ended_s - past.started_s)),
    )


def _since(job: TraceJob, first_s: float) -> TraceJob:
    return replace(job, submitted_s=job.submitted_s - first_s)


def _why(bad: Sequence[BadRow], excluded: Counter[str]) -> str:
    lines = [f"{count:,} {reason}" for reason, count in excluded.most_common(3)]
    lines += [f"line {each.line}: {each.reason}" for each in bad[:3]]
    return f": {'; '.join(lines)}" if lines else ": it has no records"
