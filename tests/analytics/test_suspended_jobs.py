"""A job that Slurm has suspended: it computes nothing, and that is not its owner's doing.

gres.html, "Running jobs": a suspended job keeps its GPUs; scontrol(1): ``suspend`` is an administrator's
word, and gang scheduling does the same. Nothing is told of it as of one that idles: what it does is unknown.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics.assess import assess
from analytics.findings import judge
from analytics.model import IDLENESS
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.model import Allocation, Basis, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from collector.reading import Reading, Tick
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, past
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, Node, World
from tests.stores import open_store

MINUTE_MS = 60_000
NOW_MS = SUBMITTED_S * 1000 + 13 * 60 * MINUTE_MS
T = Thresholds()


def idle_for_three_hours() -> History:
    """Ten hours of work at 60%, three of nothing; held by ann's job 812 all the time."""
    uuid, node = GpuUuid("GPU-0"), NodeName("gpu1")
    holder = Holder(job=JobId("slurm:812"), user="ann")
    samples = (
        GpuSample(
            uuid=uuid,
            at_ms=NOW_MS - ago * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=busy,
            sm_active_ratio=busy,
            memory_used_bytes=20 << 30,
            process_count=1,
        )
        for ago in range(779, -1, -1)
        for busy in (0.6 if ago >= 180 else 0.0,)
    )
    given = Allocation(uuid=uuid, holder=holder, source=ClaimSource.SLURM)
    return History(
        source="test",
        gpus=(Gpu(uuid=uuid, node=node, index=0, model="NVIDIA H100", memory_total_bytes=80 << 30),),
        samples=to_table(samples),
        held=(HeldInterval(allocation=given, from_ms=NOW_MS - 780 * MINUTE_MS, to_ms=None),),
    )


@pytest.fixture(scope="module", params=["SUSPENDED", "RUNNING"])
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("suspended")
    world = World()
    world.jobs, world.nodes = [Job(id=812, state=request.param)], [Node(used="gpu:1(IDX:0)")]
    look = ManagerSource(SlurmManager(run=world.run)).read(NOW_MS)
    assert isinstance(look, Reading), look
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(idle_for_three_hours())
        store.write_tick(Tick(at_ms=NOW_MS, width_ms=30_000, outcomes=(look,), allocations=()))
        with store.reader() as reader:
            analysis = assess(reader, NOW_MS, T, MINUTE_MS)
            (now,) = run(reader, "gpus_now", {}).to_pylist()
            (cluster,) = run(reader, "cluster_now", {}).to_pylist()
            yield request.param, (analysis, now, cluster)


def test_who_is_suspended_is_unknown_and_who_runs_is_idle(asked: tuple[str, Any]) -> None:
    state, (analysis, now, cluster) = asked
    runs = state == "RUNNING"
    assert [finding.kind.value for finding in analysis.findings] == (["held-idle"] if runs else [])
    unknown = [each for each in analysis.unknown if set(each.kinds) >= IDLENESS]
    assert [each.reason.partition(":")[0] for each in unknown] == (
        [] if runs else ["its workload manager has suspended it"]
    )
    assert now["state"] == ("held-idle" if runs else "unknown")
    assert (cluster["idle_held_gpus"], cluster["unknown_gpus"]) == ((1, 0) if runs else (0, 1))


@pytest.mark.parametrize("level", [0.0, 0.1])
def test_nothing_is_found_about_a_hold_while_it_is_suspended(level: float) -> None:
    """Neither its rest nor its use before: its neighbour on the GPU is judged as ever."""
    gpu = past(claim(suspended=True), bins=bins(utilization=level))
    verdict = judge(gpu, NOON_MS, T, TICK_MS)
    assert verdict.findings == () and verdict.starting == ()
    assert {kind for each in verdict.unknown for kind in each.kinds} > IDLENESS
    beside = judge(past(claim(suspended=True), claim(), bins=bins()), NOON_MS, T, TICK_MS)
    assert [found.kind.value for found in beside.findings] == ["held-idle"]
