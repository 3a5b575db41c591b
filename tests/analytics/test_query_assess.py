"""The queries that judgement reads, against ``tests/analytics/world.py`` and a GPU that fell off the bus."""

from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, Event, Gap, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.analytics.conftest import Ask
from tests.analytics.world import END_MS, GIB, MINUTE_MS, NOON_MS, ONE_MS, TWO_MS
from tests.stores import open_store

GPU_IDS = [1, 2, 3]
HALF_ONE_MS = NOON_MS + 30 * MINUTE_MS


def test_assess_gpus(ask: Ask) -> None:
    rows = {row["uuid"]: row for row in ask("assess_gpus", as_of=END_MS, bins_from=TWO_MS)}
    assert {row["newest_ms"] for row in rows.values()} == {END_MS}
    assert {row["newest_width_ms"] for row in rows.values()} == {MINUTE_MS}
    assert {uuid: row["installed_from_ms"] for uuid, row in rows.items()} == {
        "GPU-a0": NOON_MS,
        "GPU-a1": NOON_MS,
        "GPU-b0": ONE_MS,
    }
    assert [row["uuid"] for row in ask("assess_gpus", as_of=HALF_ONE_MS, bins_from=NOON_MS)] == [
        "GPU-a0",
        "GPU-a1",
    ]


def test_assess_bins(ask: Ask) -> None:
    window = {"bins_from": ONE_MS - 2 * MINUTE_MS, "bins_to": ONE_MS + 2 * MINUTE_MS}
    rows = ask("assess_bins", **window, as_of=window["bins_to"])
    first = sorted((row["bin"], row["utilization_ratio"]) for row in rows if row["gpu_id"] == 1)
    assert first == [(b, pytest.approx(0.8 if b < 4 else 0.0)) for b in range(8)]
    busiest = {row["bin"]: row["busiest_ratio"] for row in rows if row["gpu_id"] == 1}
    assert busiest[0] == pytest.approx(0.9)  # GPU utilization is the larger rung
    assert all(row["covered"] for row in rows)
    late = ask("assess_bins", **window, as_of=window["bins_to"] - MINUTE_MS)
    assert max(row["bin"] for row in late) == 5  # what came after the instant is not looked at
    one = ask("assess_bins", **window, as_of=window["bins_to"], gpu_ids=[1])
    assert sorted(row["bin"] for row in one) == [b for b, _ in first] and {row["gpu_id"] for row in one} == {
        1
    }
    assert ask("assess_bins", **window, as_of=window["bins_to"], gpu_ids=[]) == []


def test_assess_bins_cover_half_of_a_bin_or_none(tmp_path: Path) -> None:
    gpu = Gpu(uuid=GpuUuid("GPU-x"), node=NodeName("n"))
    samples = [
        GpuSample(uuid=gpu.uuid, at_ms=NOON_MS + end_s * 1000, width_ms=10_000, utilization_ratio=level)
        for end_s, level in ((10, 0.2), (20, 0.4), (40, 0.6), (100, 0.8))
    ]
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(History(source="x", gpus=(gpu,), samples=to_table(samples)))
        window = {"bins_from": NOON_MS, "bins_to": NOON_MS + 2 * MINUTE_MS, "as_of": NOON_MS + 2 * MINUTE_MS}
        rows = sorted(run(reader, "assess_bins", window).to_pylist(), key=lambda row: row["bin"])
    assert [(row["bin"], row["covered"]) for row in rows] == [(0, True), (1, False), (3, False)]
    assert rows[0]["utilization_ratio"] == pytest.approx(0.3)


def test_a_wide_row_is_in_each_bin_with_what_it_covers_of_it(tmp_path: Path) -> None:
    """Work that ends 9 s into a bin is work in it: an idle time begins behind that bin, not before."""
    gpu = Gpu(uuid=GpuUuid("GPU-x"), node=NodeName("n"))
    samples = [
        GpuSample(uuid=gpu.uuid, at_ms=NOON_MS + end_s * 1000, width_ms=57_000, utilization_ratio=level)
        for end_s, level in ((39, 0.6), (96, 0.0))
    ]
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(History(source="x", gpus=(gpu,), samples=to_table(samples)))
        window = {"bins_from": NOON_MS, "bins_to": NOON_MS + 2 * MINUTE_MS, "as_of": NOON_MS + 2 * MINUTE_MS}
        rows = sorted(run(reader, "assess_bins", window).to_pylist(), key=lambda row: row["bin"])
    assert [(row["bin"], row["covered"]) for row in rows] == [(0, True), (1, True), (2, True), (3, False)]
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.6, 0.6 * 9 / 30, 0.0, 0.0])


# NVML's clocks event reasons: 0x4 power cap, 0x8 slowdown of any cause, 0x20 and 0x40 heat.
@pytest.mark.parametrize(
    ("reasons", "hot"), [((0x4, 0x8), 0.0), ((0x40 | 0x8, 0x20), 1.0), ((0, 0x40), 0.5), ((None, None), None)]
)
def test_bins_tell_how_long_heat_held_the_clocks_down(
    reasons: tuple[int | None, int | None], hot: float | None, tmp_path: Path
) -> None:
    gpu = Gpu(uuid=GpuUuid("GPU-x"), node=NodeName("n"))
    samples = [
        GpuSample(uuid=gpu.uuid, at_ms=NOON_MS + end_s * 1000, width_ms=15_000, throttle_reasons=reason)
        for end_s, reason in zip((15, 30), reasons, strict=True)
    ]
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(History(source="x", gpus=(gpu,), samples=to_table(samples)))
        window = {"bins_from": NOON_MS, "bins_to": NOON_MS + MINUTE_MS, "as_of": NOON_MS + MINUTE_MS}
        (row,) = run(reader, "assess_bins", window).to_pylist()
    assert row["hot_ratio"] == hot


def test_assess_claims(ask: Ask) -> None:
    rows = ask("assess_claims", as_of=HALF_ONE_MS)
    assert [(row["gpu_id"], row["job"], row["share"]) for row in rows if row["gpu_id"] == 1] == [
        (1, "slurm:1", 1.0)
    ]
    assert {(row["job"], row["share"]) for row in rows if row["gpu_id"] == 2} == {
        ("slurm:2", 0.5),
        ("pod:lm/x", 0.5),
    }
    assert {row["job"] for row in ask("assess_claims", as_of=TWO_MS)} == {"slurm:1", "slurm:3"}


def test_assess_use(ask: Ask) -> None:
    rows = {row["gpu_id"]: row for row in ask("assess_use", as_of=END_MS, use_from=NOON_MS, gpu_ids=GPU_IDS)}
    fit, shell = rows[1], rows[3]
    assert (fit["first_used_ms"], fit["busy_until_ms"]) == (NOON_MS, ONE_MS)
    assert fit["idle_gpu_hours"] == pytest.approx(62 / 60)
    assert fit["process_started_ms"] == NOON_MS - MINUTE_MS
    assert (shell["first_used_ms"], shell["busy_until_ms"]) == (None, None)
    assert shell["idle_gpu_hours"] == pytest.approx((30 + 17) / 60)


def test_assess_rhythm_tells_when_holders_were_active(ask: Ask) -> None:
    rows = {row["gpu_id"]: row for row in ask("assess_rhythm", as_of=END_MS, gpu_ids=GPU_IDS)}
    fit, shell = rows[1], rows[3]
    assert (fit["active_until_ms"], fit["spells"]) == (ONE_MS, 1)  # busy from noon to one, and never since
    assert (fit["busy_ms"], fit["known_since_ms"]) == (60 * MINUTE_MS, 62 * MINUTE_MS)
    assert (fit["silence_p90_ms"], fit["absence_p90_ms"], fit["silence_longest_ms"]) == (None, None, None)
    assert (shell["active_until_ms"], shell["spells"], shell["busy_ratio"]) == (None, 0, None)


def test_assess_use_takes_no_ones_work_on_a_shared_gpu_for_ones_own(ask: Ask) -> None:
    rows = ask("assess_use", as_of=HALF_ONE_MS, use_from=NOON_MS, gpu_ids=[2])
    assert [row["first_used_ms"] for row in rows] == [None, None]
    assert [row["busy_until_ms"] for row in rows] == [HALF_ONE_MS, HALF_ONE_MS]


@pytest.mark.parametrize(("full_ratio", "full_after_ms", "flat"), [(0.3, 0, True), (0.9, None, False)])
def test_assess_onset(ask: Ask, full_ratio: float, full_after_ms: int | None, flat: bool) -> None:
    (row,) = ask(
        "assess_onset",
        as_of=HALF_ONE_MS,
        samples_from=NOON_MS,
        gpu_ids=GPU_IDS,
        full_ratio=full_ratio,
        flat_ratio=0.01,
    )
    assert (row["gpu_id"], row["first_used_ms"]) == (1, NOON_MS + MINUTE_MS)  # GPU 2 has two holders
    assert (row["full_after_ms"], row["flat"]) == (full_after_ms, flat)


def test_gpu_that_was_never_measured_is_found_by_its_gap(tmp_path: Path) -> None:
    near, dark = (Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName("n"), index=n) for n in range(2))
    samples = [
        GpuSample(uuid=near.uuid, at_ms=at_ms, width_ms=MINUTE_MS, utilization_ratio=0.5)
        for at_ms in range(NOON_MS + MINUTE_MS, TWO_MS, MINUTE_MS)
    ]
    gap = Gap(source="x", from_ms=NOON_MS, to_ms=ONE_MS, reason="lost", uuid=dark.uuid, node=dark.node)
    history = History(source="x", gpus=(near, dark), samples=to_table(samples), gaps=(gap,))
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(history)
        during = assess(reader, HALF_ONE_MS, Thresholds(), MINUTE_MS)
        after = assess(reader, ONE_MS + 10 * MINUTE_MS, Thresholds(), MINUTE_MS)
    assert [(f.kind, f.uuid, f.since_ms) for f in during.findings] == [
        (FindingKind.FALLING_GPU, dark.uuid, NOON_MS)
    ]
    assert after.findings == ()


def test_a_gpu_that_was_given_and_never_sent_a_row_is_said_to_have_sent_none(tmp_path: Path) -> None:
    """Its hours are known to be unknown: they are no samples, though they are older than the newest bins."""
    near, dark = (Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName(f"n{n}"), index=0) for n in range(2))
    until_ms = NOON_MS + 360 * MINUTE_MS
    samples = [
        GpuSample(uuid=near.uuid, at_ms=at_ms, width_ms=MINUTE_MS, utilization_ratio=0.5)
        for at_ms in range(NOON_MS + MINUTE_MS, until_ms + 1, MINUTE_MS)
    ]
    holder = Holder(job=JobId("slurm:1"), user="uli")
    held = tuple(
        HeldInterval(allocation=Allocation(uuid=gpu.uuid, holder=holder), from_ms=NOON_MS, to_ms=None)
        for gpu in (near, dark)
    )
    history = History(source="x", gpus=(near, dark), samples=to_table(samples), held=held)
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(history)
        unknown = assess(reader, until_ms, Thresholds(), MINUTE_MS).unknown
        hours = reader.execute(
            "SELECT count(*) FROM rollup_1h WHERE gpu_id = 2 AND unknown_ms > 0"
        ).fetchone()
    assert hours is not None and hours[0] > 0
    assert [(each.uuid, each.reason) for each in unknown if each.uuid == dark.uuid] == [
        (dark.uuid, "it was never measured")
    ]


def test_gpu_off_the_bus_is_found_until_it_returns(tmp_path: Path) -> None:
    near, lost = (Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName("n"), index=n) for n in range(2))
    fell_ms, back_ms = NOON_MS + 30 * MINUTE_MS, NOON_MS + 200 * MINUTE_MS
    samples = [
        GpuSample(
            uuid=gpu.uuid,
            at_ms=at_ms,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.0,
            memory_used_bytes=GIB // 2,
            process_count=0,
        )
        for gpu in (near, lost)
        for at_ms in range(NOON_MS + MINUTE_MS, NOON_MS + 240 * MINUTE_MS, MINUTE_MS)
        if gpu is near or not fell_ms < at_ms <= back_ms
    ]
    events = (
        Event(uuid=lost.uuid, at_ms=fell_ms, kind="gpu-lost"),
        Event(uuid=lost.uuid, at_ms=back_ms, kind="gpu-returned"),
    )
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(History(source="x", gpus=(near, lost), samples=to_table(samples), events=events))
        found = {
            minutes: assess(reader, NOON_MS + minutes * MINUTE_MS, Thresholds(), MINUTE_MS).findings
            for minutes in (30, 31, 40, 190, 210)
        }
    assert {minutes: [f.kind for f in findings] for minutes, findings in found.items()} == {
        30: [],
        31: [],
        40: [FindingKind.FALLING_GPU],
        190: [FindingKind.FALLING_GPU],
        210: [],
    }
    assert found[190][0].since_ms == fell_ms
    assert "the driver reported it lost" in found[190][0].sentence


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (None, "GPU 1 of n has not been seen since 2026-11-01 12:10 UTC, for 10 min, while"),
        ("13", "GPU 1 of n has not been seen since"),  # an error of an application's
        ("79", "GPU 1 of n fell off the bus: its driver told XID 79; silent since 2026-11-01 12:10 UTC"),
        ("79: GPU has fallen off the bus", "GPU 1 of n fell off the bus: its driver told XID 79"),
    ],
)
def test_only_its_driver_says_that_a_gpu_is_off_the_bus(
    tmp_path: Path, detail: str | None, said: str
) -> None:
    near, gone = (Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName("n"), index=n) for n in range(2))
    samples = [
        GpuSample(uuid=gpu.uuid, at_ms=at_ms, width_ms=MINUTE_MS, utilization_ratio=0.5)
        for gpu, end in ((near, 20), (gone, 10))
        for at_ms in range(NOON_MS + MINUTE_MS, NOON_MS + end * MINUTE_MS + 1, MINUTE_MS)
    ]
    events = tuple(
        Event(uuid=gone.uuid, at_ms=NOON_MS + 10 * MINUTE_MS, kind="xid", detail=code)
        for code in (detail,)
        if code is not None
    )
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(History(source="x", gpus=(near, gone), samples=to_table(samples), events=events))
        (finding,) = assess(reader, NOON_MS + 20 * MINUTE_MS, Thresholds(), MINUTE_MS).findings
    assert finding.sentence.startswith(said)
