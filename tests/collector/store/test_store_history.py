"""The past in bulk is the same as the past tick by tick, however often it is told."""

from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import (
    T0,
    ask,
    at_path,
    empty,
    held,
    history,
    sample,
    tick,
    uuid,
)
from tests.stores import open_store

ROLLUPS = "SELECT * FROM rollup_1m UNION ALL SELECT * FROM rollup_1h ORDER BY ALL"


STEP_MS = 30_000


def past(ticks: int = 130) -> list[tuple[int, list[GpuSample]]]:
    """A little over an hour."""
    return [
        (at, [sample(0, at, (n % 50) / 50, width_ms=STEP_MS), empty(1, at, width_ms=STEP_MS)])
        for n in range(1, ticks + 1)
        for at in [T0 + n * STEP_MS]
    ]


def contents(store: Store) -> list[tuple[object, ...]]:
    return [
        *ask(store, ROLLUPS),
        *ask(store, "SELECT * FROM latest ORDER BY gpu_id"),
        *ask(store, "SELECT * FROM samples ORDER BY ts, gpu_id"),
        *ask(store, "SELECT * FROM allocations ORDER BY ALL"),
        *ask(store, "SELECT gpu_id, installed_from, idle_power_mw FROM gpus ORDER BY 1"),
    ]


@pytest.mark.slow
def test_history_leaves_what_ticks_leave(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path / "live")) as live, open_store(at_path(tmp_path / "bulk")) as bulk:
        for at, samples in past():
            live.write_tick(tick(at, samples, [held(0, "a")], width_ms=STEP_MS))
        rows = [row for _, samples in past() for row in samples]
        interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
        assert bulk.write_history(history(rows, [interval])) == len(rows)
        assert contents(bulk) == contents(live)


def test_history_told_twice_adds_nothing(tmp_path: Path) -> None:
    rows = [row for _, samples in past() for row in samples]
    interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=T0 + 3_600_000)
    with open_store(at_path(tmp_path)) as store:
        assert store.write_history(history(rows, [interval])) == len(rows)
        before = contents(store)
        assert store.write_history(history(rows, [interval])) == 0
        assert contents(store) == before


def test_history_in_overlapping_pieces_out_of_order_is_the_same(tmp_path: Path) -> None:
    rows = [row for _, samples in past() for row in samples]
    interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=T0 + 3_900_000)
    with open_store(at_path(tmp_path / "one")) as one, open_store(at_path(tmp_path / "many")) as many:
        one.write_history(history(rows, [interval]))
        for start, end in ((130, 260), (0, 100), (80, 150)):
            piece = HeldInterval(
                allocation=held(0, "a"), from_ms=T0 + start * 15_000, to_ms=T0 + end * 15_000
            )
            many.write_history(history(rows[start:end], [piece]))
        assert contents(many) == contents(one)


def test_a_gpu_that_came_late_is_not_unknown_before_it_was_there(tmp_path: Path) -> None:
    late_ms = T0 + 60 * STEP_MS
    rows = [row for at, samples in past() for row in samples if at > late_ms or row.uuid == uuid(0)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, []))
        installed = ask(store, "SELECT epoch_ms(installed_from) FROM gpus ORDER BY gpu_index")
    assert installed == [(T0,), (late_ms,)]


def test_what_a_past_leaves_at_its_end_goes_on_with_the_first_tick(tmp_path: Path) -> None:
    """A holder of hours must not look as if it had come with the service."""
    end_ms = T0 + 3_600_000
    with open_store(at_path(tmp_path)) as store:
        rows = [
            sample(n, at, width_ms=STEP_MS) for n in (0, 1) for at in range(T0 + STEP_MS, end_ms + 1, STEP_MS)
        ]
        past_holds = [
            HeldInterval(allocation=held(0, "stays"), from_ms=T0, to_ms=end_ms),
            HeldInterval(allocation=held(1, "went"), from_ms=T0, to_ms=end_ms),
        ]
        store.write_history(history(rows, past_holds))
        at_ms = end_ms + 13_000
        store.write_tick(
            tick(at_ms, [sample(0, at_ms), sample(1, at_ms)], [held(0, "stays"), held(1, "came")])
        )
        found = ask(
            store,
            "SELECT job, epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations JOIN holders USING (holder_id) "
            "ORDER BY from_ts, job",
        )
    assert found == [
        ("slurm:stays", T0, None),
        ("slurm:went", T0, end_ms),
        ("slurm:came", end_ms, None),
    ]
