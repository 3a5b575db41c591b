"""Several on one GPU: each is charged for what its own processes did, where the driver tells."""

from pathlib import Path

import pytest

from collector.arrow import HeldInterval, History, IntrudedInterval, to_table
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from tests.collector.store.store_parts import GIB, T0, ask, at_path, sample, uuid
from tests.stores import open_store

BIN_MS = 30_000
BINS = 40
"""Twenty minutes at 80% of the SMs."""
ALL_MS = BINS * BIN_MS
NODE = NodeName("n")


def key(pid: int) -> ProcessKey:
    return ProcessKey(node=NODE, pid=pid, started_ms=T0)


def charged(
    folder: Path,
    people: tuple[str, ...],
    uses: dict[str, float | None],
    intruders: tuple[str, ...] = (),
    *,
    is_owner_told: bool = False,
) -> dict[str, tuple[int, int, int]]:
    """By person who holds: used, idle and good milliseconds; ``uses``: what the driver tells of processes."""
    share = 1 / len(people)
    pids = {name: 70 + at for at, name in enumerate(uses)}
    rows = [sample(0, T0 + n * BIN_MS, 0.8, width_ms=BIN_MS) for n in range(1, BINS + 1)]
    rows.append(sample(0, T0 + ALL_MS + 180_000, 0.0, width_ms=10_000))
    history = History(
        source="test",
        gpus=(Gpu(uuid=uuid(0), node=NODE, index=0, memory_total_bytes=80 * GIB),),
        samples=to_table(rows),
        held=tuple(_held(name, share) for name in people),
        processes=tuple(Process(key=key(pids[name]), user=None if is_owner_told else name) for name in uses),
        owners=tuple((key(pids[name]), JobId(f"slurm:{name}")) for name in uses if is_owner_told),
        process_samples=tuple(
            ProcessSample(
                uuid=GpuUuid(uuid(0)),
                key=key(pids[name]),
                at_ms=T0 + n * BIN_MS,
                width_ms=BIN_MS,
                memory_used_bytes=GIB,
                sm_ratio=use,
            )
            for n in range(1, BINS + 1)
            for name, use in uses.items()
        ),
        intruded=tuple(
            IntrudedInterval(
                intrusion=Intrusion(key=key(pids[name]), uuid=GpuUuid(uuid(0))), from_ms=T0, to_ms=None
            )
            for name in intruders
        ),
    )
    with open_store(at_path(folder)) as store:
        store.write_history(history)
        rows_of = ask(
            store,
            "SELECT user_name, sum(used_ms), sum(held_idle_ms), sum(good_ms) FROM rollup_1m "
            "JOIN holders USING (holder_id) WHERE ts < epoch_ms(?::BIGINT) GROUP BY user_name",
            T0 + ALL_MS,
        )
    return {name: (int(used), int(idle), int(good)) for name, used, idle, good in rows_of}


def _held(name: str, share: float) -> HeldInterval:
    holder = Holder(job=JobId(f"slurm:{name}"), user=name)
    allocation = Allocation(uuid=GpuUuid(uuid(0)), holder=holder, share=share, source=ClaimSource.SLURM)
    return HeldInterval(allocation=allocation, from_ms=T0, to_ms=None)


def test_who_does_nothing_on_a_shared_gpu_is_idle_and_the_other_has_the_use(tmp_path: Path) -> None:
    # 20 min at 0.8 are 16 min of use, all of ann's; each holds half.
    found = charged(tmp_path, ("ann", "bob"), {"ann": 0.95, "bob": 0.0})
    assert found == {"ann": (ALL_MS * 8 // 10, 0, ALL_MS // 2), "bob": (0, ALL_MS // 2, 0)}


def test_a_process_without_a_sample_beside_one_with_did_nothing(tmp_path: Path) -> None:
    # nvmlDeviceGetProcessUtilization returns a sample of each process that had some non-zero utilization.
    found = charged(tmp_path, ("ann", "bob"), {"ann": 0.95, "bob": None})
    assert found["bob"] == (0, ALL_MS // 2, 0)


def test_the_use_is_split_as_the_driver_measured_it(tmp_path: Path) -> None:
    found = charged(tmp_path, ("ann", "bob"), {"ann": 0.6, "bob": 0.2})
    assert {name: used for name, (used, _, _) in found.items()} == {
        "ann": pytest.approx(ALL_MS * 0.6, abs=BINS),
        "bob": pytest.approx(ALL_MS * 0.2, abs=BINS),
    }


def test_how_good_a_use_is_is_that_of_the_share_and_idle_is_that_of_the_gpu(tmp_path: Path) -> None:
    # 0.8 of the GPU, of which bob does 0.35 / 0.5: 56% of the GPU, all of his half; ann 24%, 48% of hers.
    found = charged(tmp_path, ("ann", "bob"), {"ann": 0.15, "bob": 0.35})
    assert {name: good for name, (_, _, good) in found.items()} == {"ann": 0, "bob": ALL_MS // 2}
    # 1% of the processes' work is under 1% of the GPU: nothing, though 1.6% of the half.
    assert charged(tmp_path / "idle", ("ann", "bob"), {"ann": 0.99, "bob": 0.01})["bob"][1] == ALL_MS // 2


def test_a_history_says_whose_processes_are_where_no_user_is_known(tmp_path: Path) -> None:
    # Pods: their processes have no account here, and are tied to their pods by whoever attributed them.
    found = charged(tmp_path, ("ann", "bob"), {"ann": 0.95, "bob": 0.0}, is_owner_told=True)
    assert found == {"ann": (ALL_MS * 8 // 10, 0, ALL_MS // 2), "bob": (0, ALL_MS // 2, 0)}


def test_what_an_intruder_used_is_not_the_holders(tmp_path: Path) -> None:
    found = charged(tmp_path, ("ann",), {"ann": 0.0, "eve": 0.9}, intruders=("eve",))
    assert found == {"ann": (0, ALL_MS, 0)}


@pytest.mark.parametrize("uses", [{}, {"ann": None, "bob": None}, {"ann": 0.5, "bob": 0.0, "zoe": 0.3}])
def test_without_everybodys_use_all_are_charged_alike(tmp_path: Path, uses: dict[str, float | None]) -> None:
    # Nobody looked; nothing was told; somebody's process of whom it is not known whose it is.
    found = charged(tmp_path, ("ann", "bob"), uses)
    assert found == dict.fromkeys(("ann", "bob"), (ALL_MS * 4 // 10, 0, ALL_MS // 2))
