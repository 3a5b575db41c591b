"""What a decision reads from the store, counted by hand on the store of ``tests/analytics/world.py``."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, History, to_table
from collector.model import Allocation, Basis, ClaimSource, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from tests.analytics.world import A0, A1, B0, GIB, MINUTE_MS, NOON_MS, ONE_JOB, ONE_MS, TWO_MS
from tests.stores import open_store

Ask = Callable[..., list[dict[str, Any]]]
HOUR_MS = 60 * MINUTE_MS


def test_decide_gpus_says_what_is_there_and_what_it_costs(ask: Ask) -> None:
    rows = {row["uuid"]: row for row in ask("decide_gpus", as_of=TWO_MS)}
    assert set(rows) == {A0, A1, B0}
    assert rows[A0]["per_gpu_hour"] == 4.0 and rows[A0]["currency"] == "EUR"
    assert rows[B0]["per_gpu_hour"] is None
    assert (rows[A0]["is_taken"], rows[A0]["is_busy"], rows[A0]["memory_used_bytes"]) == (
        True,
        False,
        30 * GIB,
    )
    assert (rows[A1]["is_taken"], rows[B0]["is_taken"]) == (False, False)
    assert not any(row["is_parent"] for row in rows.values())
    assert rows[A1]["newest_ms"] == TWO_MS


def test_decide_gpus_at_an_earlier_instant_knows_nothing_of_later(ask: Ask) -> None:
    rows = {row["uuid"]: row for row in ask("decide_gpus", as_of=ONE_MS - MINUTE_MS)}
    assert B0 not in rows
    assert rows[A0]["is_busy"] is True


def test_decide_jobs_counts_what_each_made_of_its_gpu(ask: Ask) -> None:
    rows = {row["job"]: row for row in ask("decide_jobs", as_of=TWO_MS, from_ts=NOON_MS)}
    assert set(rows) == {"slurm:1", "slurm:3"}
    one, three = rows["slurm:1"], rows["slurm:3"]
    assert (one["measured_ms"], one["idle_ms"], one["busy_minutes"]) == (2 * HOUR_MS, HOUR_MS, 60)
    assert one["utilization_mean_ratio"] == pytest.approx(0.4)
    assert one["utilization_p95_ratio"] == pytest.approx(0.8)
    assert one["memory_peak_bytes"] == 30 * GIB
    assert one["others"] == 0
    assert (three["measured_ms"], three["busy_minutes"]) == (45 * MINUTE_MS, 0)


def test_decide_jobs_counts_neighbours(ask: Ask) -> None:
    rows = ask("decide_jobs", as_of=ONE_MS - MINUTE_MS, from_ts=NOON_MS)
    shared = {row["job"]: row["others"] for row in rows if row["uuid"] == A1}
    assert shared == {"slurm:2": 1, "pod:lm/x": 1}


def test_decide_controller_looks_at_working_samples_only(ask: Ask) -> None:
    (row,) = ask("decide_controller", as_of=TWO_MS, from_ts=NOON_MS)
    assert (row["uuid"], row["controller_p95_ratio"]) == (A0, pytest.approx(0.4))


def of_one_job(folder: Path, use: Iterable[float], hours: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``decide_jobs`` and ``past_jobs`` say of the first ``hours`` of a job alone on a GPU.

    ``use``: of each minute from noon on, as SM active.
    """
    claim = Allocation(uuid=GpuUuid("GPU-n"), holder=ONE_JOB, share=1.0, source=ClaimSource.SLURM)
    rows = [
        GpuSample(
            uuid=GpuUuid("GPU-n"),
            at_ms=NOON_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=used,
            memory_used_bytes=10 * GIB,
            process_count=1,
        )
        for minute, used in enumerate(use, 1)
    ]
    past = History(
        source="test",
        gpus=(Gpu(uuid=GpuUuid("GPU-n"), node=NodeName("n"), memory_total_bytes=80 * GIB),),
        samples=to_table(rows),
        held=(HeldInterval(allocation=claim, from_ms=NOON_MS, to_ms=None),),
    )
    end_ms = NOON_MS + hours * HOUR_MS
    with open_store(folder / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(past)
        (now,) = run(reader, "decide_jobs", {"as_of": end_ms, "from_ts": NOON_MS}).to_pylist()
        (ever,) = run(reader, "past_jobs", {"from_ts": NOON_MS, "to_ts": end_ms}).to_pylist()
    return now, ever


@pytest.mark.parametrize(
    ("level", "peak", "excess"),
    [
        # one of the two minutes at 50%, the other at 30%: (45 + 25) / 2 over 5%, (20 + 0) / 2 over 30%
        (0.5, 0.5, {0.05: 0.35, 0.3: 0.1, 0.45: 0.025, 0.5: 0.0, 0.95: 0.0}),
        (0.004, 0.004, {0.05: 0.0, 0.95: 0.0}),
    ],
)
def test_the_busiest_minutes_are_of_those_in_which_it_worked(
    tmp_path: Path, level: float, peak: float, excess: dict[float, float]
) -> None:
    """Two minutes in each 40 at 30 and 50% are a twentieth of the time: 19 of 20 minutes of all were at 0."""
    # who never works more than noise: the same over all minutes
    use = (level if level < 0.01 else {1: level, 2: 0.3}.get(minute % 40, 0.0) for minute in range(1, 241))
    now, ever = of_one_job(tmp_path, use, hours=4)
    assert now["utilization_p95_ratio"] == pytest.approx(peak)
    assert ever["utilization_p95_ratio"] == pytest.approx(peak)
    for told in (now["excess_ratios"], ever["excess_ratios"]):
        assert len(told) == 19
        assert {edge: told[round(edge * 20) - 1] for edge in excess} == pytest.approx(excess)


def test_a_job_that_works_more_since_today_is_held_against_its_newest_day(tmp_path: Path) -> None:
    """A server that grew: at 20% in 4 min of 40 for a day, then not used for 18 h, then at 100% for 6 h.

    So it worked 144 minutes at 0.2 and 360 at 1.0. Over 0.3 that is 360 x 0.7 / 504 = 0.5 of all its work,
    and 0.7 of its newest day's, in which it worked in those 6 h only.
    """
    calm = (0.2 if minute % 40 < 4 else 0.0 for minute in range(1, 24 * 60 + 1))
    full = repeat(1.0, 6 * 60 + 1)  # a minute is rolled up when the next one has come
    now, ever = of_one_job(tmp_path, chain(calm, repeat(0.0, 18 * 60), full), hours=48)
    assert now["excess_ratios"][5] == pytest.approx(0.7)
    assert now["excess_ratios"][18] == pytest.approx(0.05)
    assert ever["excess_ratios"][5] == pytest.approx(0.5), "a past is judged as a whole"


def test_idle_stretches_are_what_lies_after_work_and_what_never_began(ask: Ask) -> None:
    rows = {row["job"]: row for row in ask("idle_stretches", from_ts=NOON_MS, to_ts=TWO_MS)}
    one = rows["slurm:1"]
    assert (one["from_ms"], one["to_ms"], one["open"], one["first"]) == (ONE_MS, TWO_MS, True, False)
    assert "slurm:3" not in rows, "a quarter of it was not measured"
    assert "slurm:2" not in rows and "pod:lm/x" not in rows, "they worked until they ended"


@pytest.mark.parametrize(
    ("since_h", "until_h", "expected"),
    [
        (0, 12, (5, 9)),  # it came at three o'clock; two hours to start
        (6, 12, (6, 9)),  # the window begins later than that
        (4, 12, (5, 9)),  # its two hours are counted from when it came, not from the window
        (0, 8, (5, 8)),
    ],
)
def test_idle_stretches_count_who_never_worked_from_where_its_start_is_over(
    tmp_path: Path, since_h: int, until_h: int, expected: tuple[int, int]
) -> None:
    """It works at nine for the first time; a process of it is there all along."""
    claim = Allocation(uuid=GpuUuid("GPU-n"), holder=ONE_JOB, share=1.0, source=ClaimSource.SLURM)
    rows = [
        GpuSample(
            uuid=GpuUuid("GPU-n"),
            at_ms=NOON_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.0 if minute <= 9 * 60 else 0.9,
            memory_used_bytes=10 * GIB,
            process_count=0 if minute <= 3 * 60 else 1,
        )
        for minute in range(1, 12 * 60 + 1)
    ]
    past = History(
        source="test",
        gpus=(Gpu(uuid=GpuUuid("GPU-n"), node=NodeName("n"), memory_total_bytes=80 * GIB),),
        samples=to_table(rows),
        held=(HeldInterval(allocation=claim, from_ms=NOON_MS + 3 * HOUR_MS, to_ms=None),),
    )
    window = {"from_ts": NOON_MS + since_h * HOUR_MS, "to_ts": NOON_MS + until_h * HOUR_MS}
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(past)
        (row,) = run(reader, "idle_stretches", window).to_pylist()
    assert row["first"]
    assert ((row["from_ms"] - NOON_MS) / HOUR_MS, (row["to_ms"] - NOON_MS) / HOUR_MS) == expected


@pytest.mark.parametrize(
    ("encoder", "sms", "by_engines"), [(0.4, 0.0, True), (0.4, 0.6, False), (0.1, 0.0, False)]
)
def test_work_of_video_engines_is_not_taken_for_room_on_the_sms(
    tmp_path: Path, encoder: float, sms: float, by_engines: bool
) -> None:
    claim = Allocation(uuid=GpuUuid("GPU-n"), holder=ONE_JOB, share=1.0, source=ClaimSource.SLURM)
    rows = [
        GpuSample(
            uuid=GpuUuid("GPU-n"),
            at_ms=NOON_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=sms,
            encoder_ratio=encoder,
            memory_used_bytes=10 * GIB,
        )
        for minute in range(1, 181)
    ]
    past = History(
        source="test",
        gpus=(Gpu(uuid=GpuUuid("GPU-n"), node=NodeName("n"), memory_total_bytes=80 * GIB),),
        samples=to_table(rows),
        held=(HeldInterval(allocation=claim, from_ms=NOON_MS, to_ms=None),),
    )
    end_ms = NOON_MS + 3 * HOUR_MS
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(past)
        (now,) = run(reader, "decide_jobs", {"as_of": end_ms, "from_ts": NOON_MS}).to_pylist()
        (touched,) = run(reader, "decide_controller", {"as_of": end_ms, "from_ts": NOON_MS}).to_pylist()
        (then,) = run(reader, "past_jobs", {"from_ts": NOON_MS, "to_ts": end_ms}).to_pylist()
        (job,) = run(reader, "jobs", {"from_ts": NOON_MS, "to_ts": end_ms}).to_pylist()
        (spent,) = run(reader, "activity", {"from_ts": NOON_MS, "to_ts": end_ms}).to_pylist()
    assert (job["engine_gpu_hours"] > 0.5 * job["busy_gpu_hours"]) is by_engines
    assert spent["engine_minutes"] == (spent["active_minutes"] if by_engines else 0)
    assert touched["engines_max_ratio"] == pytest.approx(encoder), "however busy the SMs are beside it"
    assert now["uses_engines"] is (encoder > sms)
    for row in (now, then):
        assert (row["engine_ms"] > 0.05 * row["measured_ms"]) is by_engines


@pytest.mark.parametrize(
    ("dark", "expected"),
    [
        # it works from noon to one and from eleven on; in between it is idle, and not measured meanwhile
        ((5 * 60, 8 * 60), [(1, 5, True, False, 3), (8, 11, False, True, 0)]),
        ((5 * 60 + 20, 8 * 60 + 40), [(1, 5 + 1 / 3, True, False, 10 / 3), (8 + 2 / 3, 11, False, True, 0)]),
        ((60, 8 * 60), [(8, 11, False, True, 7)]),
        ((4 * 60, 11 * 60), [(1, 4, True, False, 7)]),
        ((5 * 60, 5 * 60 + 20), [(1, 11, False, False, 0)]),  # under 5% of ten hours
    ],
)
def test_an_idle_time_with_a_gap_is_counted_in_its_measured_parts(
    tmp_path: Path, dark: tuple[int, int], expected: list[tuple[float, float, bool, bool, float]]
) -> None:
    claim = Allocation(uuid=GpuUuid("GPU-n"), holder=ONE_JOB, share=1.0, source=ClaimSource.SLURM)
    rows = [
        GpuSample(
            uuid=GpuUuid("GPU-n"),
            at_ms=NOON_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.0 if 60 < minute <= 11 * 60 else 0.9,
            memory_used_bytes=10 * GIB,
            process_count=1,
        )
        for minute in range(1, 12 * 60 + 1)
        if not dark[0] < minute <= dark[1]
    ]
    past = History(
        source="test",
        gpus=(Gpu(uuid=GpuUuid("GPU-n"), node=NodeName("n"), memory_total_bytes=80 * GIB),),
        samples=to_table(rows),
        held=(HeldInterval(allocation=claim, from_ms=NOON_MS, to_ms=None),),
    )
    window = {"from_ts": NOON_MS, "to_ts": NOON_MS + 12 * HOUR_MS}
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        store.write_history(past)
        found = run(reader, "idle_stretches", window).to_pylist()
    assert [
        (
            (row["from_ms"] - NOON_MS) / HOUR_MS,
            (row["to_ms"] - NOON_MS) / HOUR_MS,
            row["open"],
            row["first"],
            row["unmeasured_ms"] / HOUR_MS,
        )
        for row in found
    ] == [pytest.approx(each) for each in expected]


def test_run_lengths_counts_the_jobs_that_were_seen_to_begin(ask: Ask) -> None:
    (row,) = ask("run_lengths", from_ts=NOON_MS, to_ts=TWO_MS)
    assert (row["kind"], row["gpus"], row["open"], row["jobs"]) == ("interactive", 1, True, 1), "slurm:3"
    assert row["length_s"] == pytest.approx(3600, rel=0.1)
    assert ask("run_lengths", from_ts=ONE_MS + MINUTE_MS, to_ts=TWO_MS) == []


def test_project_use_weighs_the_older_less(ask: Ask) -> None:
    rows = {row["project"]: row for row in ask("project_use", from_ts=NOON_MS, to_ts=TWO_MS, half_life_h=1)}
    even = {
        row["project"]: row for row in ask("project_use", from_ts=NOON_MS, to_ts=TWO_MS, half_life_h=10**6)
    }
    assert sum(row["allocated_ratio"] for row in even.values()) <= 1.0
    assert even["vision"]["held_idle_ratio"] == pytest.approx(1 / 5, abs=1e-3)  # of all that was installed
    assert rows["vision"]["held_idle_ratio"] > even["vision"]["held_idle_ratio"]


def test_past_jobs_counts_every_job_of_the_window_once(ask: Ask) -> None:
    rows = {row["job"]: row for row in ask("past_jobs", from_ts=NOON_MS, to_ts=TWO_MS)}
    assert set(rows) == {"slurm:1", "slurm:2", "slurm:3", "pod:lm/x"}
    one, two, three = rows["slurm:1"], rows["slurm:2"], rows["slurm:3"]
    assert (one["measured_ms"], one["expected_ms"], one["idle_ms"]) == (2 * HOUR_MS, 2 * HOUR_MS, HOUR_MS)
    assert (one["utilization_p95_ratio"], one["others"]) == (pytest.approx(0.8), 0)
    assert (two["measured_ms"], two["share"], two["others"]) == (HOUR_MS, 0.5, 1)
    assert (three["measured_ms"], three["expected_ms"], three["gpus_used"]) == (45 * MINUTE_MS, HOUR_MS, 0)
    assert (one["per_gpu_hour"], three["per_gpu_hour"]) == (4.0, None)


@pytest.mark.parametrize(
    ("poor", "rung"), [(0, Basis.SM_ACTIVE), (2, Basis.SM_ACTIVE), (6, Basis.GPU_UTILIZATION)]
)
def test_decide_jobs_is_on_the_rung_that_nineteen_of_twenty_minutes_reach(
    poor: int, rung: Basis, tmp_path: Path
) -> None:
    """After a restart a minute or two are on GPU utilization alone: that is no reason to know nothing."""

    def sample(minute: int) -> GpuSample:
        lower = minute <= poor
        return GpuSample(
            uuid=A0,
            at_ms=NOON_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.GPU_UTILIZATION if lower else Basis.SM_ACTIVE,
            utilization_ratio=0.4,
            gpu_utilization_ratio=0.4,
            sm_active_ratio=None if lower else 0.4,
            memory_used_bytes=GIB,
            process_count=1,
        )

    given = Allocation(uuid=A0, holder=ONE_JOB, source=ClaimSource.SLURM)
    held = HeldInterval(allocation=given, from_ms=NOON_MS, to_ms=None)
    gpu = Gpu(uuid=A0, node=NodeName("a"), index=0, model="H100", memory_total_bytes=80 * GIB)
    with open_store(tmp_path / "fallow.duckdb") as store:
        samples = to_table([sample(minute) for minute in range(1, 64)])
        store.write_history(History(source="hand", gpus=(gpu,), samples=samples, held=(held,)))
        with store.reader() as reader:
            (row,) = run(reader, "decide_jobs", {"as_of": ONE_MS, "from_ts": NOON_MS}).to_pylist()
    assert row["measured_ms"] == 60 * MINUTE_MS
    assert Basis(row["rung"]) is rung


def test_run_lengths_are_what_was_held_and_as_much_as_was_held_at_once(tmp_path: Path) -> None:
    """A job grows, shrinks, moves and is paused for hours: that makes it neither longer nor larger."""

    def held(uuid: GpuUuid, begin: int, end: int | None, holder: Holder = ONE_JOB) -> HeldInterval:
        given = Allocation(uuid=uuid, holder=holder, source=ClaimSource.SLURM)
        moments = [None if minute is None else NOON_MS + minute * MINUTE_MS for minute in (begin, end)]
        return HeldInterval(allocation=given, from_ms=moments[0] or 0, to_ms=moments[1])

    there = held(B0, 0, 2, replace(ONE_JOB, job=JobId("slurm:0")))
    mine = (held(A0, 10, 40), held(A1, 20, 30), held(A1, 200, 220), held(B0, 220, 230))
    with open_store(tmp_path / "fallow.duckdb") as store:
        gpus = tuple(Gpu(uuid=uuid, node=NodeName("a"), index=at) for at, uuid in enumerate((A0, A1, B0)))
        store.write_history(History(source="hand", gpus=gpus, samples=to_table([]), held=(there, *mine)))
        with store.reader() as reader:
            (row,) = run(
                reader, "run_lengths", {"from_ts": NOON_MS, "to_ts": TWO_MS + 3 * HOUR_MS}
            ).to_pylist()
            (early,) = run(reader, "run_lengths", {"from_ts": NOON_MS, "to_ts": ONE_MS}).to_pylist()
    assert (row["gpus"], row["open"], row["jobs"]) == (2, False, 1)
    assert row["length_s"] == pytest.approx(3600, rel=0.1)
    assert (early["gpus"], early["open"]) == (2, False)
    assert early["length_s"] == pytest.approx(1800, rel=0.1)
