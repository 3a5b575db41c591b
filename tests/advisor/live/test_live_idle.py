"""Idle is what findings call idle: whom they leave alone is not told of, held, paused or requeued for it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from advisor.live.snapshot import EVERYBODY, Live, Site, read_live
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Advice
from advisor.policies import idle_reclaim
from advisor.state.model import Use
from analytics.assess import assess
from analytics.model import IDLENESS
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
)
from tests.stores import open_store

GIB, MINUTE_MS = 1 << 30, 60_000
NOW_MS = 1_793_145_600_000  # 2026-10-28, a Wednesday, midnight
RULES = PlannerConfig()
ALL = frozenset({EVERYBODY})
Busy = Callable[[int], bool]
"""Whether a job works in the minute that ends so many minutes ago."""

JOBS: Mapping[str, tuple[JobKind, int, Busy]] = {
    # A server with 10 minutes of requests every 3 h; the last ended 2 h 30 min ago.
    "hue": (JobKind.INFERENCE, 1440, lambda ago: 150 <= ago % 180 < 160),
    # A notebook that computes for a minute of 55; the last 50 minutes ago.
    "jim": (JobKind.INTERACTIVE, 720, lambda ago: ago % 55 == 50),
    # 2 h of work every 24 h; the last ended 5 h ago.
    "eve": (JobKind.BATCH, 4320, lambda ago: 300 <= ago % 1440 < 420),
    # A notebook that worked for 5 h and has been silent for 58 minutes: less than the hour of a terminal.
    "kai": (JobKind.INTERACTIVE, 358, lambda ago: ago >= 58),
    # A batch job that worked for an hour and has been silent for 23 h: held idle.
    "sam": (JobKind.BATCH, 1440, lambda ago: ago >= 1380),
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    return _live(tmp_path_factory.mktemp("idle"))


def _live(folder: Path) -> Live:
    history = History(
        source="test",
        gpus=tuple(
            Gpu(
                uuid=GpuUuid(name),
                node=NodeName(name),
                index=0,
                model="NVIDIA H100",
                memory_total_bytes=80 * GIB,
            )
            for name in JOBS
        ),
        samples=to_table(
            GpuSample(
                uuid=GpuUuid(name),
                at_ms=NOW_MS - ago * MINUTE_MS,
                width_ms=MINUTE_MS,
                rung=Basis.SM_ACTIVE,
                utilization_ratio=0.5 if busy(ago) else 0.0,
                sm_active_ratio=0.5 if busy(ago) else 0.0,
                memory_used_bytes=20 * GIB,
                process_count=1,
            )
            for name, (_, minutes, busy) in JOBS.items()
            for ago in range(minutes - 1, -1, -1)
        ),
        held=tuple(
            HeldInterval(
                allocation=Allocation(
                    uuid=GpuUuid(name),
                    holder=Holder(job=JobId(f"slurm:{name}"), user=name, kind=kind),
                    source=ClaimSource.SLURM,
                ),
                from_ms=NOW_MS - minutes * MINUTE_MS,
                to_ms=None,
            )
            for name, (kind, minutes, _) in JOBS.items()
        ),
    )
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(history)
        with store.reader() as reader:
            return read_live(
                lambda name, given: run(reader, name, given).to_pylist(),
                assess(reader, NOW_MS, Thresholds(), MINUTE_MS),
                Site(preemptible=ALL, checkpointable=ALL, may_share=ALL),
                RULES,
            )


@pytest.mark.slow
def test_whom_no_finding_calls_idle_no_advice_does(live: Live) -> None:
    found = {
        str(finding.holder.job)
        for finding in live.observed.analysis.findings
        if finding.holder is not None and finding.kind in IDLENESS
    }
    assert found == {"slurm:sam"}
    idle = {str(job.id) for job in live.state.jobs.values() if job.use is Use.IDLE}
    assert idle == {"slurm:sam"}
    assert {str(job.id) for job in live.state.jobs.values() if job.idle_since_ms is not None} == idle
    told = idle_reclaim.advise(live.state, live.observed, Limits(), RULES)
    assert {str(each.job) for each in told if isinstance(each, Advice)} == {"slurm:sam"}
