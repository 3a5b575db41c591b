"""Hours that nobody was given are in no share of what was given out. Values by hand, an hour of six GPUs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import GIB, T0, held, history, sample
from tests.stores import open_store

BEGIN = datetime.fromtimestamp(T0 / 1000, UTC)
HOUR = {"from_ts": BEGIN, "to_ts": BEGIN + timedelta(hours=1)}
BIN_MS = 30_000
BINS = 120
HELD_IDLE, HELD_BUSY, FREE, INTRUDED, UNCOUNTED, COUNTED = range(6)


def hour_of(index: int, level: float, **more: object) -> Iterator[GpuSample]:
    for number in range(1, BINS + 1):
        yield sample(index, T0 + number * BIN_MS, level, width_ms=BIN_MS, **more)
    yield sample(index, T0 + (BINS + 6) * BIN_MS, level, width_ms=BIN_MS, **more)  # closes the hour


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One held and idle, one held at 60%, one free, one that a stranger uses at 40%, two with idle memory."""
    there = {"memory_used_bytes": 20 * GIB, "process_count": 1}
    rows = [
        *hour_of(HELD_IDLE, 0.0, **there),
        *hour_of(HELD_BUSY, 0.6, **there),
        *hour_of(FREE, 0.0, memory_used_bytes=0, process_count=0),
        *hour_of(INTRUDED, 0.4, **there),
        *hour_of(UNCOUNTED, 0.0, memory_used_bytes=20 * GIB, process_count=None),
        *hour_of(COUNTED, 0.0, **there),
    ]
    claims = [
        HeldInterval(allocation=held(n, f"job{n}"), from_ms=T0, to_ms=None) for n in (HELD_IDLE, HELD_BUSY)
    ]
    with open_store(tmp_path_factory.mktemp("nobody") / "fallow.duckdb") as opened:
        opened.write_history(history(rows, claims))
        yield opened


def ask(store: Store, name: str, **more: object) -> list[dict[str, object]]:
    with store.reader() as reader:
        return run(reader, name, HOUR | more).to_pylist()


def test_waste_is_of_what_was_given_out(store: Store) -> None:
    (waste,) = ask(store, "waste")
    assert (waste["held_gpu_hours"], waste["wasted_gpu_hours"]) == (2.0, 1.0)  # not 3 of 2


def test_an_idle_process_of_nobody_is_suspect_and_wasted_by_nobody(store: Store) -> None:
    states = {row["state"]: row["gpu_hours"] for row in ask(store, "ledger_by_state") if row["gpu_hours"]}
    assert states == {"held-idle": 1.0, "good": 1.0, "free": 1.0, "moderate": 1.0, "suspect": 2.0}
    wasted = {row["key"]: row["wasted_gpu_hours"] for row in ask(store, "ledger_by_job")}
    assert wasted.pop(None) == 0.0 and sum(wasted.values()) == 1.0  # type: ignore[arg-type]


def test_what_lay_fallow_is_what_was_given_out_less_what_its_holders_used(store: Store) -> None:
    (step,) = ask(store, "usage_over_time", step_s=3600)
    assert (step["allocated_gpus"], step["used_gpus"]) == (2.0, 1.0)  # 60% by its holder, 40% by a stranger
    assert step["held_used_gpus"] == pytest.approx(0.6)  # so 1.4 lay fallow, not 1.0
