"""What rests on GPU utilization alone is told as an upper bound, by hours that were counted on paper.

Two hours in rows of half a minute, of three GPUs:

=====  =====  ==========================================================  ==================================
GPU    whose  what is measured                                            by hand, in GPU-hours
=====  =====  ==========================================================  ==================================
blunt  ann    GPU utilization alone: 90% in the first hour, then 0        used 0.9, all a bound; idle 1.0
sharp  bob    SM active: 50%                                              used 1.0, no bound
both   bob    GPU utilization 80% for an hour, then SM active 30% too     used 0.8 + 0.3, of which 0.8 a bound
=====  =====  ==========================================================  ==================================

What is used by GPU utilization of 0 is no bound: no kernel ran. Nor is waste one: nothing ran then.
"""

from collections.abc import Iterator

import pytest

from analytics.query import Connection, run
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

BIN_MS, HOUR_MS = 30_000, 3_600_000
START_MS = 1_793_145_600_000 // HOUR_MS * HOUR_MS
END_MS = START_MS + 2 * HOUR_MS
ALL = {"from_ts": START_MS, "to_ts": END_MS}
WHOSE = {"blunt": "ann", "sharp": "bob", "both": "bob"}


def level(name: str, n: int) -> tuple[float, float | None]:
    """GPU utilization and SM active of a row."""
    first = n < 120
    return {
        "blunt": (0.9 if first else 0.0, None),
        "sharp": (1.0, 0.5),
        "both": (0.8, None if first else 0.3),
    }[name]


def rows() -> Iterator[GpuSample]:
    for n in range((END_MS - START_MS) // BIN_MS + 4):  # two minutes more, so that the last hour is rolled up
        for name in WHOSE:
            kernels, sms = level(name, n)
            yield GpuSample(
                uuid=GpuUuid(name),
                at_ms=START_MS + (n + 1) * BIN_MS,
                width_ms=BIN_MS,
                rung=Basis.GPU_UTILIZATION if sms is None else Basis.SM_ACTIVE,
                utilization_ratio=kernels if sms is None else sms,
                gpu_utilization_ratio=kernels,
                sm_active_ratio=sms,
                memory_used_bytes=20 << 30,
                process_count=1,
            )


def history() -> History:
    """All of it."""
    gpus = tuple(
        Gpu(uuid=GpuUuid(name), node=NodeName("n"), index=n, model="A") for n, name in enumerate(WHOSE)
    )
    held = tuple(
        HeldInterval(
            allocation=Allocation(
                uuid=GpuUuid(name),
                holder=Holder(job=JobId(name), user=user, project="lab", kind=JobKind.BATCH),
                source=ClaimSource.SLURM,
            ),
            from_ms=START_MS,
            to_ms=None,
        )
        for name, user in WHOSE.items()
    )
    return History(source="x", gpus=gpus, samples=to_table(rows()), held=held)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with open_store(tmp_path_factory.mktemp("bounds") / "fallow.duckdb") as store:
        store.write_history(history())
        with store.reader() as reader:
            yield reader


@pytest.mark.parametrize(
    ("query", "key", "expected"),
    [
        ("ledger_by_job", "key", {"blunt": (0.9, 0.9), "sharp": (1.0, 0.0), "both": (1.1, 0.8)}),
        ("ledger_by_gpu", "key", {"blunt": (0.9, 0.9), "sharp": (1.0, 0.0), "both": (1.1, 0.8)}),
        ("ledger_by_user", "key", {"ann": (0.9, 0.9), "bob": (2.1, 0.8)}),
        ("people", "user_name", {"ann": (0.9, 0.9), "bob": (2.1, 0.8)}),
        ("projects", "project", {"lab": (3.0, 1.7)}),
    ],
)
def test_used_hours_tell_how_many_of_them_are_a_bound(
    ask: Connection, query: str, key: str, expected: dict[str, tuple[float, float]]
) -> None:
    told = {
        row[key]: (round(row["used_gpu_hours"], 6), round(row["bound_used_gpu_hours"], 6))
        for row in run(ask, query, ALL).to_pylist()
        if row[key] is not None
    }
    assert told == expected


def test_steps_and_states_tell_it_too(ask: Connection) -> None:
    steps = run(ask, "ledger_by_hour", ALL).to_pylist()
    assert [round(row["bound_used_gpu_hours"], 6) for row in steps] == [1.7, 0.0]
    # 90% and 80% are good by GPU utilization, an hour each; two more hours at 50% are good by the SMs.
    states = {row["state"]: row for row in run(ask, "ledger_by_state", ALL).to_pylist()}
    bounds = {state: round(row["bound_gpu_hours"], 6) for state, row in states.items()}
    assert {state: hours for state, hours in bounds.items() if hours} == {"good": 2.0}
    assert round(states["held-idle"]["gpu_hours"], 6) == 1.0
    (waste,) = run(ask, "waste", ALL).to_pylist()
    assert (round(waste["wasted_gpu_hours"], 6), round(waste["bound_used_gpu_hours"], 6)) == (1.0, 1.7)


def test_curves_cells_and_now_tell_it_too(ask: Connection) -> None:
    usage = run(ask, "usage_over_time", {**ALL, "step_s": 3600}).to_pylist()
    assert [round(row["bound_used_gpus"], 6) for row in usage] == [1.7, 0.0]
    for query in ("heatmap", "heatmap_by_node"):
        cells = run(ask, query, {**ALL, "step_s": 3600}).to_pylist()
        bound = {(row.get("uuid", row["node"]), row["ts"].hour % 2): row["is_upper_bound"] for row in cells}
        first = START_MS // HOUR_MS % 2
        assert {key for key, is_bound in bound.items() if is_bound} == (
            {("n", first)} if query == "heatmap_by_node" else {("blunt", first), ("both", first)}
        )
    (now,) = run(ask, "cluster_now", {}).to_pylist()
    assert now["used_gpus"] == pytest.approx(0.8) and not now["bound_used_gpus"]
