"""What is told of jobs that are over in a past: each at its own end, and each end of its own kind alone.

Rows of a minute that end with it, or half a minute later; GPUs of 80 GiB. Hours from the beginning; what each
is called, until when and what it cost, was written before the rules were.

==========  ====================================================  ====================================
job         what it did                                           is
==========  ====================================================  ====================================
first       8 h of work, idle for its last 66 min                 held-idle, 66 min
second      the same two hours later                              held-idle, 66 min
stranger    on another node: over 9 min before *first*            held-idle, 3 h
twice       3 h at 10%, 3 h idle, 1 h at 90%, 4 h idle            low-saturation; held-idle 3 h and 4 h
odd         2 h of work, 2 h of 100% with no SM at work           suspect-counters
dark        2 h of work, silent for 3 h, 2 h of work              falling-gpu, 3 h
lost        4 h of work, silent for its last 2 h                  falling-gpu, 2 h
==========  ====================================================  ====================================
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.past_findings import past_slices
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval
from collector.model import GpuSample, JobKind
from collector.store.database import Store
from tests.collector.store.store_parts import GIB, T0, at_path, held, history, sample
from tests.stores import open_store

pytestmark = pytest.mark.slow

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
ODD, DARK = -1.0, None
REST_H = 66 / 60
JOBS: dict[str, tuple[float, tuple[tuple[float, float | None], ...]]] = {
    "first": (0.0, ((8 - REST_H, 0.9), (REST_H, 0.0))),
    "second": (2.0, ((8 - REST_H, 0.9), (REST_H, 0.0))),
    "stranger": (0.0, ((8 - 0.15 - 3, 0.9), (3, 0.0))),
    "twice": (0.0, ((3, 0.1), (3, 0.0), (1, 0.9), (4, 0.0))),
    "odd": (0.0, ((2, 0.9), (2, ODD))),
    "dark": (0.0, ((2, 0.9), (3, DARK), (2, 0.9))),
    "lost": (0.0, ((4, 0.9), (2, DARK))),
}
"""When each began, and for how many hours it was how busy."""
TOLD = [
    ("dark", "falling-gpu", 5.0, None),
    ("first", "held-idle", 8.0, 1.1),
    ("lost", "falling-gpu", 6.0, None),
    ("odd", "suspect-counters", 4.0, None),
    ("second", "held-idle", 10.0, 1.1),
    ("stranger", "held-idle", 7.85, 3.0),
    ("twice", "held-idle", 6.0, 3.0),
    ("twice", "held-idle", 11.0, 4.0),
    ("twice", "low-saturation", 3.0, None),
]
LENGTHS = {"dark": ("for 3 h,", "for 2 h 59 min,"), "lost": ("for 2 h,", "for 1 h 59 min,")}
"""Rounded down: where rows end at half minutes, the minute in which a silence ended is no part of it."""


def level(job: str, at_ms: int) -> float | None:
    """How busy it was in the minute that ends half a minute before ``at_ms``; 0 before and after."""
    began, parts = JOBS[job]
    hours = (at_ms - T0) / HOUR_MS - began
    for length, busy in parts:
        if 0 < hours <= length:
            return busy
        hours -= length
    return 0.0


def row(gpu: int, at_ms: int, busy: float) -> GpuSample:
    told: dict[str, Any] = {"width_ms": MINUTE_MS, "memory_used_bytes": 20 * GIB}
    if busy == ODD:
        return sample(gpu, at_ms, 0.0, **told, gpu_utilization_ratio=1.0, power_mw=300_000)
    return sample(gpu, at_ms, busy, **told)


def store_jobs(store: Store, late_ms: int, span: tuple[int, int] = (T0, T0 + 12 * HOUR_MS)) -> None:
    """What lies within ``span`` of the jobs, with rows that end ``late_ms`` after whole minutes."""
    rows, intervals = [], []
    for gpu, (job, (began, parts)) in enumerate(JOBS.items()):
        given = held(gpu, job)
        given = replace(given, holder=replace(given.holder, kind=JobKind.BATCH))
        from_ms = T0 + round(began * HOUR_MS)
        over_ms = from_ms + round(sum(length for length, _ in parts) * HOUR_MS)
        lasted = max(from_ms, span[0]), min(over_ms, span[1])
        if lasted[0] < lasted[1]:
            intervals.append(HeldInterval(allocation=given, from_ms=lasted[0], to_ms=lasted[1]))
        for at_ms in range(span[0] + MINUTE_MS, span[1] + 1, MINUTE_MS):
            busy = level(job, at_ms)
            if busy is not None:
                rows.append(row(gpu, at_ms + late_ms, busy))
    store.write_history(history(rows, intervals))


@pytest.fixture(scope="module", params=[0, 30_000], ids=["whole minutes", "half minutes"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("past")
    with open_store(at_path(folder)) as store:
        store_jobs(store, request.param)
        with store.reader() as reader:
            span = (T0, T0 + 12 * HOUR_MS)
            (whole,) = past_slices(reader, span, Thresholds(), MINUTE_MS)
            return list(whole.rows)


def test_each_is_told_at_its_own_end(told: list[dict[str, Any]]) -> None:
    seen = [
        (
            str(each["job"]).removeprefix("slurm:"),
            each["kind"],
            pytest.approx((each["over_ms"] - T0) / HOUR_MS, abs=0.02),
            pytest.approx(each["wasted_gpu_hours"], abs=0.02),
        )
        for each in told
    ]
    assert sorted(seen, key=lambda each: (each[0], each[1], each[2].expected)) == TOLD


def test_a_silence_is_told_with_its_whole_length(told: list[dict[str, Any]]) -> None:
    said = {str(each["job"]).removeprefix("slurm:"): each["sentence"] for each in told}
    assert {job: any(length in said[job] for length in lengths) for job, lengths in LENGTHS.items()} == {
        "dark": True,
        "lost": True,
    }
