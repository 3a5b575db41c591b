"""What a job of a few minutes made of its GPUs: two minutes of work is more than it had time for.

Two minutes keep the making of a context and a failed start from counting as work. Of a shorter job, a unit
test or a task of a sweep, the part of its time says it; under a tenth is what starts and ends take.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.job_verdict import verdict
from analytics.query import Connection, run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

TICK_MS = 10_000
LAST_S = 4 * 3_600
BEGIN_S = 3_600

JOBS: dict[str, tuple[int, tuple[tuple[int, int], ...], bool, int]] = {
    # seconds held; on each GPU from which second on it worked and for how long; over; of how many GPUs used
    "ninety": (90, ((0, 90),), True, 1),
    "minute": (60, ((0, 60),), True, 1),
    "loads": (300, ((210, 60),), True, 1),  # a fifth of its time, after loading
    "tests": (600, ((300, 90),), True, 1),  # 15%
    "blip": (1_800, ((60, 90),), True, 0),  # 5%: a context
    "nothing": (90, ((0, 0),), True, 0),
    "three": (90, ((0, 90), (0, 90), (0, 90), (0, 0)), True, 3),
    "long": (3_600, ((600, 120),), True, 1),
    "lives": (90, ((0, 90),), False, 1),
    "steady": (LAST_S - 10, ((0, LAST_S),), False, 1),
    "resting": (LAST_S - 10, ((0, 2 * 3_600),), False, 1),
    "prepares": (900, ((0, 90),), False, 0),  # it has just made its context: nothing is known of it yet
}
VERDICTS = {
    "ninety": "worked",
    "minute": "worked",
    "loads": "idle for 80% of its time",
    "tests": "idle for 85% of its time",
    "blip": "did not compute",
    "nothing": "did not compute",
    "three": "used 3 of 4 GPUs",
    "long": "idle for 97% of its time",
    "lives": "worked",
    "prepares": "has not computed yet",
    "steady": "worked",
    "resting": "worked, and was idle for 50% of its time",
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    rows, claims, number = [], [], 0
    for name, (held_s, works, is_over, _) in JOBS.items():
        start_s = BEGIN_S if is_over else LAST_S - held_s
        for begin_s, for_s in works:
            busy = range(start_s + begin_s, start_s + begin_s + for_s)
            rows += [
                sample(number, T0 + end * 1000, 1.0 if end - 10 in busy else 0.0, width_ms=TICK_MS)
                for end in range(10, LAST_S + 130, 10)
            ]
            to_ms = T0 + (start_s + held_s) * 1000 if is_over else None
            claims.append(
                HeldInterval(allocation=held(number, name), from_ms=T0 + start_s * 1000, to_ms=to_ms)
            )
            number += 1
    path: Path = at_path(tmp_path_factory.mktemp("short"))
    with open_store(path) as store:
        store.write_history(history(rows, claims))
        with store.reader() as connection:
            yield connection


def asked(reader: Connection, query: str, minutes: tuple[int, int] = (0, LAST_S // 60)) -> dict[str, object]:
    begin, end = (datetime.fromtimestamp(T0 / 1000 + 60 * each, UTC) for each in minutes)
    found = run(reader, query, {"from_ts": begin, "to_ts": end}).to_pylist()
    return {str(row["job"]).removeprefix("slurm:"): row for row in found}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_used_what_it_worked_on_for_its_time(reader: Connection, name: str) -> None:
    row = asked(reader, "jobs")[name]
    assert isinstance(row, dict)
    assert row["gpus_used"] == JOBS[name][3]
    assert verdict(row) == VERDICTS[name]


@pytest.mark.parametrize(
    ("name", "minutes", "said"),
    [
        ("long", (70, 71), "worked"),
        ("steady", (100, 101), "worked"),
        ("steady", (0, 1), "worked"),
        ("resting", (118, 123), "idle for 50% of its time"),
        ("resting", (180, 240), "has not computed in this time"),
        ("resting", (125, 126), "has not computed in this time"),
        ("prepares", (225, 240), "has not computed yet"),
        ("blip", (60, 61), "did not compute"),
    ],
)
def test_a_part_of_its_time_says_what_a_job_did_in_it(
    reader: Connection, name: str, minutes: tuple[int, int], said: str
) -> None:
    row = asked(reader, "jobs", minutes)[name]
    assert isinstance(row, dict) and verdict(row) == said


def test_a_short_run_on_several_gpus_is_no_run_that_a_smaller_one_would_do_for(reader: Connection) -> None:
    row = asked(reader, "past_jobs")
    of_job = {name: each["gpus_used"] for name, each in row.items() if isinstance(each, dict)}
    assert {name: of_job[name] for name in ("ninety", "minute", "three", "nothing")} == {
        "ninety": 1,
        "minute": 1,
        "three": 3,
        "nothing": 0,
    }
