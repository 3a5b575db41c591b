"""One person's runs under one id are one job, and its row says how many they were.

As Slurm has it: a requeued job keeps its number, ``sacct`` has one row of it, with ``--duplicates`` several.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.job_verdict import efficiency, verdict
from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

MINUTE_MS = 60_000
LAST = 8 * 60

HELD: dict[str, tuple[tuple[int, int, int], ...]] = {  # GPU, from minute, to minute
    "whole": ((0, 0, 480),),
    "requeued": ((1, 0, 60), (1, 180, 240), (1, 300, 360)),
    # under ten minutes is no end: a service that starts anew tells a hold in two pieces
    "short": ((2, 0, 60), (2, 68, 120)),
    # it got another GPU in the minute in which it gave one back
    "moved": ((3, 0, 200), (4, 200, 400)),
    # nobody looked at its GPU between: it may have had it all the time
    "unseen": ((5, 0, 60), (5, 240, 480)),
    # somebody else had it between
    "between": ((6, 0, 60), (6, 240, 480)),
    "other": ((6, 100, 200),),
    "pair": ((7, 0, 200), (8, 0, 480), (9, 150, 480)),
}
AT_ONCE = {
    "whole": 1,
    "requeued": 1,
    "short": 1,
    "moved": 1,
    "unseen": 1,
    "between": 1,
    "other": 1,
    "pair": 3,
}
"""Pair had two GPUs and got a third before it gave one of them back."""

RUNS = {"whole": 1, "requeued": 3, "short": 1, "moved": 1, "unseen": 1, "between": 2, "other": 1, "pair": 1}


def samples() -> Iterator[GpuSample]:
    for number in range(10):
        for minute in range(1, LAST + 1):
            if number == 5 and 60 < minute <= 240:
                continue
            yield sample(number, T0 + minute * MINUTE_MS, 0.6, width_ms=MINUTE_MS)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    claims = [
        HeldInterval(
            allocation=held(number, name),
            from_ms=T0 + begin * MINUTE_MS,
            to_ms=T0 + end * MINUTE_MS if end < LAST else None,
        )
        for name, turns in HELD.items()
        for number, begin, end in turns
    ]
    path: Path = at_path(tmp_path_factory.mktemp("runs"))
    begin = datetime.fromtimestamp(T0 / 1000, UTC)
    end = datetime.fromtimestamp((T0 + LAST * MINUTE_MS) / 1000, UTC)
    with open_store(path) as store:
        store.write_history(history(samples(), claims))
        with store.reader() as reader:
            found = run(reader, "jobs", {"from_ts": begin, "to_ts": end}).to_pylist()
    return {str(row["job"]).removeprefix("slurm:"): row for row in found}


@pytest.mark.parametrize("name", RUNS)
def test_a_row_says_how_many_runs_it_is(rows: dict[str, dict[str, object]], name: str) -> None:
    assert rows[name]["runs"] == RUNS[name]
    assert verdict(rows[name]) == ("worked" if RUNS[name] == 1 else f"worked, in {RUNS[name]} runs")


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_row_says_how_many_gpus_it_held_at_one_time(rows: dict[str, dict[str, object]], name: str) -> None:
    assert rows[name]["gpus_at_once"] == AT_ONCE[name]


def test_one_that_moved_and_did_not_compute_on_its_last_gpu_used_no_part(
    rows: dict[str, dict[str, object]],
) -> None:
    moved = rows["moved"] | {"gpus_used": 1}
    assert verdict(moved) == "worked" and efficiency(moved).startswith("2 GPUs (1 at a time) ·")
    assert verdict(rows["pair"] | {"gpus_used": 2}) == "used 2 of 3 GPUs"


def test_a_row_of_an_older_service_tells_no_runs(rows: dict[str, dict[str, object]]) -> None:
    older = {name: value for name, value in rows["requeued"].items() if name != "runs"}
    assert verdict(older) == "worked"
