"""Two on one GPU: who does nothing is idle, whatever the other does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.query import run
from analytics.sharing import own_bins
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, IntrudedInterval, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    JobKind,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.store.database import Store
from tests.analytics.pasts import bins
from tests.stores import open_store

START_MS = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 30_000
STEPS = 4 * 120
END_MS = START_MS + STEPS * STEP_MS
UUID = GpuUuid("GPU-x")
NODE = NodeName("n")


@pytest.fixture
def empty_store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as store:
        yield store


def fill(
    store: Store,
    uses: dict[str, float | None],
    owner: str = "bob",
    until_ms: int | None = None,
    gib: dict[str, int | None] | None = None,
) -> None:
    """Four hours of a GPU at 80% that ann and bob hold, half each, with their processes' use and GiB."""
    kept = {name: None if each is None else each << 30 for name, each in (gib or {}).items()}
    steps = [START_MS + (n + 1) * STEP_MS for n in range(STEPS)]
    people = dict(zip(uses, ("ann", owner), strict=True))
    keys = {name: ProcessKey(node=NODE, pid=70 + at, started_ms=START_MS) for at, name in enumerate(uses)}
    store.write_history(
        History(
            source="x",
            gpus=(Gpu(uuid=UUID, node=NODE, index=0, memory_total_bytes=80 << 30),),
            samples=to_table(
                GpuSample(
                    uuid=UUID,
                    at_ms=at_ms,
                    width_ms=STEP_MS,
                    rung=Basis.SM_ACTIVE,
                    utilization_ratio=0.8,
                    sm_active_ratio=0.8,
                    gpu_utilization_ratio=0.95,
                    memory_used_bytes=30 << 30,
                    process_count=2,
                )
                for at_ms in steps
            ),
            held=tuple(
                HeldInterval(
                    allocation=Allocation(
                        uuid=UUID,
                        holder=Holder(job=JobId(f"slurm:{name}"), user=name, kind=JobKind.INTERACTIVE),
                        share=0.5,
                        source=ClaimSource.SLURM,
                    ),
                    from_ms=START_MS,
                    to_ms=until_ms,
                )
                for name in ("ann", "bob")
            ),
            processes=tuple(Process(key=keys[name], user=people[name]) for name in uses),
            process_samples=tuple(
                ProcessSample(
                    uuid=UUID,
                    key=keys[name],
                    at_ms=at_ms,
                    width_ms=STEP_MS,
                    sm_ratio=use,
                    memory_used_bytes=kept.get(name),
                )
                for at_ms in steps
                for name, use in uses.items()
            ),
        )
    )


def idle(store: Store) -> list[str | None]:
    with store.reader() as reader:
        found = assess(reader, END_MS + 10_000, Thresholds(), STEP_MS).findings
    return [each.holder and each.holder.user for each in found if each.kind is FindingKind.HELD_IDLE]


@pytest.mark.parametrize("use", [0.0, None], ids=["measured", "no sample beside one with work"])
def test_who_does_nothing_beside_one_who_works_is_idle(empty_store: Store, use: float | None) -> None:
    fill(empty_store, {"one": 0.95, "two": use})
    assert idle(empty_store) == ["bob"]


def test_holds_that_end_with_an_imported_past_are_told_apart_too(empty_store: Store) -> None:
    fill(empty_store, {"one": 0.95, "two": 0.0}, until_ms=END_MS)
    assert idle(empty_store) == ["bob"]


def test_two_who_both_work_are_not_idle(empty_store: Store) -> None:
    fill(empty_store, {"one": 0.5, "two": 0.1})
    assert idle(empty_store) == []


def test_nobody_is_idle_while_a_process_of_unknown_owner_works(empty_store: Store) -> None:
    fill(empty_store, {"one": 0.5, "two": 0.4}, owner="zoe")
    assert idle(empty_store) == []


def intrude(store: Store, user: str | None, own_use: float | None, level: float = 0.8) -> None:
    """Four hours of a GPU that ann alone holds; for the last half hour a process of ``user`` is on it."""
    steps = [START_MS + (n + 1) * STEP_MS for n in range(STEPS)]
    mine = ProcessKey(node=NODE, pid=70, started_ms=START_MS)
    came_ms = END_MS - 60 * STEP_MS
    other = ProcessKey(node=NODE, pid=71, started_ms=came_ms)
    store.write_history(
        History(
            source="x",
            gpus=(Gpu(uuid=UUID, node=NODE, index=0, memory_total_bytes=80 << 30),),
            samples=to_table(
                GpuSample(
                    uuid=UUID,
                    at_ms=at_ms,
                    width_ms=STEP_MS,
                    rung=Basis.SM_ACTIVE,
                    utilization_ratio=level if at_ms > came_ms else 0.0,
                    sm_active_ratio=level if at_ms > came_ms else 0.0,
                    gpu_utilization_ratio=level if at_ms > came_ms else 0.0,
                    memory_used_bytes=30 << 30,
                    process_count=2,
                )
                for at_ms in steps
            ),
            held=(
                HeldInterval(
                    allocation=Allocation(
                        uuid=UUID,
                        holder=Holder(job=JobId("slurm:one"), user="ann", kind=JobKind.INTERACTIVE),
                        share=1.0,
                        source=ClaimSource.SLURM,
                    ),
                    from_ms=START_MS,
                    to_ms=None,
                ),
            ),
            processes=(Process(key=mine, user="ann"), Process(key=other, user=user)),
            process_samples=tuple(
                ProcessSample(uuid=UUID, key=key, at_ms=at_ms, width_ms=STEP_MS, sm_ratio=use)
                for at_ms in steps
                for key, use in ((mine, own_use), (other, level))
                if key == mine or at_ms > came_ms
            ),
            intruded=(
                IntrudedInterval(intrusion=Intrusion(key=other, uuid=UUID), from_ms=came_ms, to_ms=None),
            ),
        )
    )


@pytest.mark.parametrize(
    ("user", "own_use", "found"),
    [("eve", 0.0, ["ann"]), ("eve", 0.4, []), ("ann", 0.0, []), (None, 0.0, [])],
    ids=["does nothing", "works", "may be the holder's own", "nobody knows whose"],
)
def test_an_accomplice_who_works_hides_no_idle_holder(
    empty_store: Store, user: str | None, own_use: float, found: list[str]
) -> None:
    intrude(empty_store, user, own_use)
    assert idle(empty_store) == found


def test_an_accomplice_s_new_process_gives_the_holder_no_new_grace(empty_store: Store) -> None:
    intrude(empty_store, "eve", None, level=0.0)
    assert idle(empty_store) == ["ann"]
    with empty_store.reader() as reader:
        asked = {"as_of": END_MS, "use_from": START_MS, "gpu_ids": [1]}
        (use,) = run(reader, "assess_use", asked).to_pylist()
    assert (use["process_started_ms"], use["processes_started"]) == (START_MS, 1)


def test_the_parts_of_the_work_are_those_of_the_processes(empty_store: Store) -> None:
    fill(empty_store, {"one": 0.6, "two": 0.2})
    window = {"bins_from": END_MS - 2 * STEP_MS, "bins_to": END_MS, "as_of": END_MS}
    with empty_store.reader() as reader:
        rows = run(reader, "assess_shared", {**window, "gpu_ids": [1]}).to_pylist()
    assert [(row["bin"], row["part"]) for row in rows] == [(0, 0.75), (1, 0.75), (0, 0.25), (1, 0.25)]


@pytest.mark.parametrize(
    ("owner", "gib", "own"),
    [
        ("bob", {"one": 20, "two": 5}, {20 << 30, 5 << 30}),
        ("bob", {"one": 20, "two": 0}, {20 << 30, 0}),
        ("bob", {"one": 20, "two": None}, {None}),  # the driver doesn't tell it of one
        ("ann", {"one": 20, "two": 5}, {25 << 30, 0}),  # both are hers; his have left
        ("zoe", {"one": 20, "two": 5}, set()),  # a process of nobody's: whose its memory is, is not told
    ],
)
def test_the_memory_of_each_holder_is_that_of_its_processes(
    empty_store: Store, owner: str, gib: dict[str, int | None], own: set[int | None]
) -> None:
    fill(empty_store, {"one": 0.6, "two": 0.0}, owner=owner, gib=gib)
    window = {"bins_from": END_MS - 2 * STEP_MS, "bins_to": END_MS, "as_of": END_MS}
    with empty_store.reader() as reader:
        rows = run(reader, "assess_shared", {**window, "gpu_ids": [1]}).to_pylist()
    assert {row["memory_bytes"] for row in rows} == own
    assert {row["bin"] for row in rows} == ({0, 1} if own else set())


def test_memory_is_told_where_nobody_works(empty_store: Store) -> None:
    fill(empty_store, {"one": 0.0, "two": 0.0}, gib={"one": 20, "two": 5})
    window = {"bins_from": END_MS - 2 * STEP_MS, "bins_to": END_MS, "as_of": END_MS}
    with empty_store.reader() as reader:
        rows = run(reader, "assess_shared", {**window, "gpu_ids": [1]}).to_pylist()
    assert [(row["part"], row["memory_bytes"]) for row in rows] == [(None, 20 << 30)] * 2 + [
        (None, 5 << 30)
    ] * 2


def test_own_bins_are_unknown_where_the_gpu_worked_and_nobody_says_for_whom() -> None:
    shared = bins(utilization=0.8, busiest=0.8)
    own = own_bins(shared, {len(shared.covered) - 1: 0.25})
    assert own.busiest[-1] == pytest.approx(0.2)
    assert set(own.busiest[:-1]) == {None}
    assert set(own_bins(bins(utilization=0.0, busiest=0.0), {}).busiest) == {0.0}
