"""A measured job without a user is the person's whose accounted runs were where and when it held its GPUs.

Expected by hand: hours from T0, GPU n on node n0 unless said, accounting in the same hours.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from collector.managers.slurm.sacct_text import AccountedRun
from collector.model import Allocation, ClaimSource, Holder, JobId, NodeName
from collector.store.database import Store
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, gpu, history, sample, tick, uuid
from tests.stores import open_store

HOUR_MS = 3_600_000
YEAR_H = 365 * 24
JOB = JobId("slurm:7001")
SAID = "SELECT user_name, project, user_from, project_from FROM holders ORDER BY holder_id"
ANN = ("ann", "vis", "accounting", "accounting")
UNKNOWN = (None, None, None, None)


def claim(number: int, user: str | None = None, job: str = JOB) -> Allocation:
    return Allocation(
        uuid=uuid(number), holder=Holder(job=JobId(job), user=user), source=ClaimSource.KUBERNETES
    )


def held(
    from_h: float, to_h: float | None, number: int = 0, user: str | None = None, job: str = JOB
) -> HeldInterval:
    to_ms = None if to_h is None else T0 + round(to_h * HOUR_MS)
    return HeldInterval(
        allocation=claim(number, user, job), from_ms=T0 + round(from_h * HOUR_MS), to_ms=to_ms
    )


def ran(
    user: str | None,
    from_h: float,
    to_h: float,
    nodes: Sequence[str] = ("n0",),
    *,
    cluster: str = "hpc",
    number: str = "7001",
    project: str = "vis",
) -> AccountedRun:
    start_ms = T0 + round(from_h * HOUR_MS)
    return AccountedRun(
        cluster=cluster,
        number=number,
        shown_id=number,
        user=user,
        project=project,
        name="j",
        partition="gpu",
        qos="normal",
        reservation="",
        state_name="COMPLETED",
        exit_code="0:0",
        submitted_ms=start_ms - 600_000,
        started_ms=start_ms,
        ended_ms=T0 + round(to_h * HOUR_MS),
        nodes=tuple(nodes),
        gpus=1,
        gpu_types="",
        shards=0,
        asked_gpus=1,
        limit_s=None,
    )


def measure(store: Store, *intervals: HeldInterval, nodes: Sequence[str] = ("n0", "n0")) -> None:
    told = history([sample(0, T0 + TICK_MS), sample(1, T0 + TICK_MS)], intervals)
    gpus = tuple(gpu(number, node=NodeName(node)) for number, node in enumerate(nodes))
    store.write_history(replace(told, gpus=gpus))


ONE = (held(0, 24),)
CASES = {
    "her run of that time": (ONE, [ran("ann", 0, 24)], ANN),
    "by the node's short name": (ONE, [ran("ann", 0, 24, ["n0.cluster.local"])], ANN),
    "where accounting names no nodes": (ONE, [ran("ann", 0, 24, [])], ANN),
    "a label that outlasts the run": (ONE, [ran("ann", 0.1, 23.8)], ANN),
    "it began before it was measured": (ONE, [ran("ann", -12, 24)], ANN),
    "two runs of one person's, requeued": (ONE, [ran("ann", 0, 10), ran("ann", 10.1, 24)], ANN),
    "the number of another year": (ONE, [ran("ann", 0, 24), ran("zed", -YEAR_H, -YEAR_H + 24)], ANN),
    "the number in two clusters": (
        ONE,
        [ran("ann", 0, 24), ran("bob", 0, 24, ["m0"], cluster="other")],
        ANN,
    ),
    "two accounts of hers": (
        ONE,
        [ran("ann", 0, 12), ran("ann", 12, 24, project="lm")],
        ("ann", None, "accounting", None),
    ),
    "another year's only": (ONE, [ran("zed", -YEAR_H, -YEAR_H + 24)], UNKNOWN),
    "on another node only": (ONE, [ran("ann", 0, 24, ["m0"])], UNKNOWN),
    "another number": (ONE, [ran("ann", 0, 24, number="700")], UNKNOWN),
    "two people, nobody says where": (
        ONE,
        [ran("ann", 0, 24, []), ran("bob", 0, 24, [], cluster="other")],
        UNKNOWN,
    ),
    "two people, one after the other": (ONE, [ran("ann", 0, 12), ran("bob", 12, 24)], UNKNOWN),
    "a second person who isn't named": (ONE, [ran("ann", 0, 20), ran(None, 20, 24)], UNKNOWN),
    "a run of a small part of it": (ONE, [ran("ann", 0, 1)], UNKNOWN),
    "holds of two people": (
        (held(0, 24), held(30, 40, 1)),
        [ran("ann", 0, 24), ran("bob", 30, 40)],
        UNKNOWN,
    ),
    "a hold that nobody accounts for": (
        (held(0, 24), held(-YEAR_H, -YEAR_H + 3)),
        [ran("ann", 0, 24)],
        UNKNOWN,
    ),
    "of a cluster that its labels name": (
        (held(0, 24, job=f"{JOB}@HPC"),),
        [ran("ann", 0, 24, []), ran("bob", 0, 24, [], cluster="other")],
        ANN,
    ),
    "of another cluster than its labels name": (
        (held(0, 24, job=f"{JOB}@lab"),),
        [ran("ann", 0, 24)],
        UNKNOWN,
    ),
    "as people call it, a part of a job": (
        (held(0, 24, job=JobId("slurm:7000+1")),),
        [replace(ran("ann", 0, 24), shown_id="7000+1"), ran("bob", 0, 24, number="7000")],
        ANN,
    ),
    "as people call it, another part": (
        (held(0, 24, job=JobId("slurm:7000+2")),),
        [replace(ran("ann", 0, 24), shown_id="7000+1")],
        UNKNOWN,
    ),
    "both her holds": ((held(0, 24), held(0, 24, 1)), [ran("ann", 0, 24)], ANN),
    "a source tells of another": (
        (held(0, 24, user="eve"),),
        [ran("ann", 0, 24)],
        ("eve", None, None, None),
    ),
}


@pytest.mark.parametrize(("intervals", "runs", "expected"), CASES.values(), ids=CASES)
def test_whose_it_is_in_either_order_of_imports(
    tmp_path: Path,
    intervals: tuple[HeldInterval, ...],
    runs: list[AccountedRun],
    expected: tuple[str | None, ...],
) -> None:
    with open_store(at_path(tmp_path / "samples")) as store:
        measure(store, *intervals)
        store.write_accounted("slurm", runs)
        assert ask(store, SAID) == [expected]
    with open_store(at_path(tmp_path / "accounting")) as store:
        store.write_accounted("slurm", runs)
        for interval in intervals:
            measure(store, interval)
        assert ask(store, SAID) == [expected]


def test_two_clusters_jobs_of_one_number_both_measured_are_nobody_s(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        measure(store, held(0, 24), held(0, 24, 1), nodes=("a", "b"))
        store.write_accounted("slurm", [ran("ann", 0, 24, ["a"]), ran("bob", 0, 24, ["b"], cluster="other")])
        assert ask(store, SAID) == [UNKNOWN]


def test_accounting_that_comes_later_takes_a_name_back(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        measure(store, *ONE)
        store.write_accounted("slurm", [ran("ann", 0, 24, [])])
        assert ask(store, SAID) == [ANN]
        store.write_accounted("slurm", [ran("bob", 3, 4, [], cluster="other")])
        assert ask(store, SAID) == [UNKNOWN]


def test_a_person_told_later_is_another_job_beside_the_accounted_one(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        measure(store, *ONE)
        store.write_accounted("slurm", [ran("ann", 0, 24)])
        measure(store, held(30, 40, user="bob"))
        measure(store, held(50, 60, user="ann"))
        rows = ask(
            store, "SELECT user_name, count(*) FROM holders JOIN allocations USING (holder_id) GROUP BY 1"
        )
    assert sorted(rows) == [("ann", 2), ("bob", 1)]


def test_live_a_number_that_comes_again_without_a_user_is_not_the_accounted_person_s(tmp_path: Path) -> None:
    at_ms = T0 + 48 * HOUR_MS
    with open_store(at_path(tmp_path)) as store:
        measure(store, *ONE)
        store.write_accounted("slurm", [ran("ann", 0, 24)])
        store.write_tick(tick(at_ms, [sample(0, at_ms)], [claim(0)]))
        assert ask(store, SAID) == [UNKNOWN]


def test_what_is_learnt_of_a_job_leaves_its_accounted_user(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_accounted("slurm", [ran("ann", 0, 24)])
        measure(store, *ONE)
        told = claim(0)
        named = replace(told, holder=replace(told.holder, name="train"))
        measure(store, replace(ONE[0], allocation=named))
        assert ask(store, SAID) == [ANN]
        assert ask(store, "SELECT job_name FROM holders") == [("train",)]


def test_a_later_run_of_a_number_gets_its_own_person(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        measure(store, held(0, 24, user="eve"), held(30, 40, job=f"{JOB}@1790108040"))
        store.write_accounted("slurm", [ran("eve", 0, 24), ran("ann", 30, 40)])
        assert ask(store, SAID) == [("eve", None, None, None), ANN]


def test_live_a_person_whom_a_source_tells_too_is_told(tmp_path: Path) -> None:
    at_ms = T0 + 48 * HOUR_MS
    with open_store(at_path(tmp_path)) as store:
        measure(store, *ONE)
        store.write_accounted("slurm", [ran("ann", 0, 24)])
        store.write_tick(tick(at_ms, [sample(0, at_ms)], [claim(0, "ann")]))
        store.write_accounted("slurm", [ran("bob", 30, 31)])
        assert ask(store, SAID) == [("ann", "vis", None, "accounting")]
