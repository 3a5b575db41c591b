"""What nobody measured is no idle time: no message and no pause rests on it.

A batch job's clocks are 60 min (tell) and 120 (pause), a terminal's 30 and 60, a requeue's 300 and 240; the
grace after a message is 15 min. A time counts as measured where at most 5% of it, and of an hour, was not.
Each world ends now; the minutes were counted by hand.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.actions import Notify, Pause, Requeue
from advisor.live.snapshot import EVERYBODY, Live, Site, read_live
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Advice
from advisor.policies import idle_reclaim
from advisor.policies.idle_escalation import Rung, standing
from advisor.state.model import Use
from advisor.state.owner_replies import Telling, with_spoken
from analytics.assess import assess
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
LAST_WORK = 600
"""Each of them worked for ten hours, until ten hours ago."""
Seen = Callable[[int], bool]
"""Whether the minute that ends so many minutes ago was measured."""

JOBS: Mapping[str, tuple[JobKind, Seen, int]] = {
    # name: kind, what was measured, and for how many minutes it is idle for sure
    "whole": (JobKind.BATCH, lambda ago: True, 600),
    # 8 h in which the GPU was silent; then 70 min: told, and not paused (60 and 120 min)
    "silent": (JobKind.BATCH, lambda ago: not 70 <= ago < 550, 70),
    # the same at a terminal: its pause is due after 60 min, its requeue after 240
    "notebook": (JobKind.INTERACTIVE, lambda ago: not 70 <= ago < 550, 70),
    # 40 min of a restart, 125 min ago: 24% of what lies since it began
    "restart": (JobKind.BATCH, lambda ago: not 125 <= ago < 165, 125),
    # 5 min, 200 min ago: 2.4% of it
    "blink": (JobKind.BATCH, lambda ago: not 200 <= ago < 205, 600),
    # 2 min, 70 min ago: 2.8%; and each tenth minute before 400: 22 of the 600 in all, 3.7%
    "lossy": (JobKind.BATCH, lambda ago: not (70 <= ago < 72 or (ago >= 400 and ago % 10 == 0)), 600),
    # every other minute from 300 to 400 ago was lost: with the 17th of them, 334 min ago, it is 5.1%
    "patchy": (JobKind.BATCH, lambda ago: not (300 <= ago < 400 and ago % 2 == 0), 333),
}


def history() -> History:
    def gpu(name: str) -> Gpu:
        return Gpu(
            uuid=GpuUuid(name), node=NodeName(name), index=0, model="NVIDIA H100", memory_total_bytes=80 * GIB
        )

    def sample(name: str, ago: int) -> GpuSample:
        busy = 0.5 if ago >= LAST_WORK else 0.0
        return GpuSample(
            uuid=GpuUuid(name),
            at_ms=NOW_MS - ago * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=busy,
            sm_active_ratio=busy,
            memory_used_bytes=20 * GIB,
            process_count=1,
        )

    def hold(name: str, kind: JobKind) -> HeldInterval:
        holder = Holder(job=JobId(f"slurm:{name}"), user=name, kind=kind)
        allocation = Allocation(uuid=GpuUuid(name), holder=holder, source=ClaimSource.SLURM)
        return HeldInterval(allocation=allocation, from_ms=NOW_MS - 1200 * MINUTE_MS, to_ms=None)

    return History(
        source="test",
        gpus=tuple(gpu(name) for name in JOBS),
        samples=to_table(
            sample(name, ago)
            for name, (_, seen, _) in JOBS.items()
            for ago in range(1199, -1, -1)
            if seen(ago)
        ),
        held=tuple(hold(name, kind) for name, (kind, _, _) in JOBS.items()),
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    folder: Path = tmp_path_factory.mktemp("unmeasured")
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(history())
        with store.reader() as reader:
            return read_live(
                lambda name, given: run(reader, name, given).to_pylist(),
                assess(reader, NOW_MS, Thresholds(), MINUTE_MS),
                Site(preemptible=ALL, checkpointable=ALL, may_share=ALL),
                RULES,
            )


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_idle_time_counts_back_to_the_last_hole(live: Live, name: str) -> None:
    job = live.state.jobs[JobId(f"slurm:{name}")]
    assert job.use is Use.IDLE and job.idle_since_ms is not None
    minutes = (NOW_MS - job.idle_since_ms) / MINUTE_MS
    assert minutes == pytest.approx(JOBS[name][2], abs=2)
    holed = JOBS[name][2] < LAST_WORK
    assert live.observed.is_bound(job.id, job.idle_since_ms) is holed


def steps(live: Live, told_ago: Mapping[str, int]) -> dict[str, type]:
    """What is done to each whose owner was told so many minutes ago; a free hand everywhere."""
    told = [
        Telling(job=JobId(f"slurm:{name}"), at_ms=NOW_MS - ago * MINUTE_MS, reached="mail")
        for name, ago in told_ago.items()
    ]
    answers = idle_reclaim.advise(with_spoken(live.state, told), live.observed, Limits(), RULES)
    return {
        str(each.job).removeprefix("slurm:"): type(each.steps[0])
        for each in answers
        if isinstance(each, Advice) and each.steps
    }


@pytest.mark.slow
def test_nobody_is_paused_for_time_that_was_not_measured(live: Live) -> None:
    """Everybody was told 30 min ago. Of the notebook nobody knows whether somebody sits at it."""
    done = steps(live, dict.fromkeys(JOBS, 30))
    assert done == dict.fromkeys(("whole", "restart", "blink", "lossy", "patchy"), Pause)


@pytest.mark.slow
def test_who_was_told_before_a_hole_is_told_again_after_it(live: Live) -> None:
    """In the gap they may have worked: the message was of an idle time that may have ended."""
    done = steps(live, {"whole": 180, "silent": 560, "notebook": 560, "restart": 180, "patchy": 350})
    assert done["whole"] is Pause
    assert {done[name] for name in ("silent", "notebook", "restart", "patchy")} == {Notify}


@pytest.mark.slow
def test_no_requeue_for_a_checkpoint_that_work_in_a_hole_may_have_outdated(live: Live) -> None:
    """Checkpoints are of an hour after the last known work: newer than it, and older than the gap's end."""
    stands = {}
    for name in ("whole", "notebook", "restart"):
        job = live.state.jobs[JobId(f"slurm:{name}")]
        saved = replace(job, checkpoint_ms=NOW_MS - 540 * MINUTE_MS, notified_ms=NOW_MS - 30 * MINUTE_MS)
        stands[name] = standing(saved, NOW_MS, Limits(), RULES)
    assert stands["whole"].due is Rung.REQUEUE
    assert stands["notebook"].due is Rung.PAUSE and stands["notebook"].next is Rung.REQUEUE
    assert stands["restart"].due is Rung.PAUSE
    assert Requeue not in steps(live, dict.fromkeys(("notebook", "restart"), 30)).values()
