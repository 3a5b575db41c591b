"""What a job's page shows of idle gaps: lengths by hand, and no GPU for a job that was given none."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from service.charts.idle_gaps import COMPUTES, FILLED, WAITS, step_lanes
from service.charts.job_timeline import gpu_hours, gpus_of, life_of
from service.schemas.records import Command, GivenCommand, IdleGapCounts, JobDetail, Submission

pytestmark = pytest.mark.quick

NOW_MS = 1_800_000_000_000
STEP = IdleGapCounts(gpu="GPU-a", page="/dev/shm/p", steps=500, alone_s=0.1, gaps_s=0.04)


def stay(**changes: object) -> Mapping[str, object]:
    """100 s beside a job of 0.1 s a step, so 1,000 steps; 10 s of GPU time, so 10 ms of each step."""
    plain = {
        "gpu_uuid": "GPU-a",
        "from_ms": NOW_MS - 100_000,
        "to_ms": NOW_MS,
        "harvested_gpu_s": 10.0,
        "slowdown_ratio": 1.0,
    }
    return {**plain, **changes}


def lanes(
    *harvests: Mapping[str, object], gaps: tuple[IdleGapCounts, ...] = (STEP,)
) -> list[tuple[object, ...]]:
    frame = step_lanes(gaps, harvests, NOW_MS)
    return [(row.lane, row.part, round(row.low, 3), round(row.high, 3)) for row in frame.itertuples()]


def test_a_step_is_what_it_computes_then_what_is_filled_then_what_is_not() -> None:
    assert lanes() == [("its GPU", COMPUTES, 0, 60), ("its GPU", WAITS, 60, 100)]
    assert lanes(stay()) == [
        ("its GPU", COMPUTES, 0, 60),
        ("its GPU", FILLED, 60, 70),
        ("its GPU", WAITS, 70, 100),
    ]
    # At 1.25 of its own step it made 800 of them: 12.5 ms of each.
    assert lanes(stay(slowdown_ratio=1.25))[1] == ("its GPU", FILLED, 60, 72.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"to_ms": NOW_MS - 120_000, "from_ms": NOW_MS - 220_000},
        {"harvested_gpu_s": None, "slowdown_ratio": None},
        {"gpu_uuid": "GPU-b"},
        {"from_ms": NOW_MS},
    ],
)
def test_what_is_over_or_not_measured_or_elsewhere_fills_nothing(changes: dict[str, object]) -> None:
    assert [part for _, part, _, _ in lanes(stay(**changes))] == [COMPUTES, WAITS]


def test_no_more_is_filled_than_waits_and_what_was_not_measured_has_no_lane() -> None:
    assert lanes(stay(harvested_gpu_s=1e6)) == [("its GPU", COMPUTES, 0, 60), ("its GPU", FILLED, 60, 100)]
    unknown = IdleGapCounts(gpu="GPU-b", page="/p", steps=3)
    assert {lane for lane, *_ in lanes(gaps=(unknown, STEP))} == {"its GPU 2"}
    assert lanes(gaps=(unknown,)) == []


def test_a_background_job_is_shown_with_no_gpu_in_all_its_life() -> None:
    told = Command(is_="Start", number=2, gpus=("GPU-a",), beside="fallow:1", page="/dev/shm/p")
    given = GivenCommand(number=2, verb="start", directive=told, given_ms=NOW_MS, acknowledged_ms=NOW_MS)
    job = JobDetail(
        job="fallow:2",
        state="running",
        submission=Submission(command=("train",), background=True),
        submitted_ms=NOW_MS - 10_000,
        directives=(given,),
    )
    life = life_of(job, datetime.fromtimestamp(NOW_MS / 1000 + 3600, UTC))
    assert gpus_of(given) == () and list(life["gpus"]) == [0, 0]
    assert gpu_hours(life, 1.0) == 0.0
