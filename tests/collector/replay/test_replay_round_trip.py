"""What Fallow exports, Fallow replays: the simulated cluster through store, export, replay and loop."""

from pathlib import Path

import pyarrow as pa
import pytest

from collector.attribution import effective
from collector.scrape_loop import Loop, LoopDependencies, Timing
from collector.sources.replay.errors import RecordingUnreadable
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import histories
from collector.sources.replay.source import ReplayClock, ReplaySource
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.people import HOUR_MS
from collector.store.database import Store
from tests.collector.replay.hand_clock import HandClock
from tests.stores import open_store

TO_MS = 1_795_000_200_000
FROM_MS = TO_MS - HOUR_MS
STEP_MS = 60_000
TOTALS = """
SELECT state, round(gpu_hours, 6) FROM (
    SELECT sum(free_ms) AS free, sum(allocated_empty_ms) AS empty, sum(held_idle_ms) AS idle,
        sum(low_saturation_ms) AS low, sum(moderate_ms) AS moderate, sum(good_ms) AS good,
        sum(suspect_ms) AS suspect, sum(held_ms) AS held, sum(used_ms) AS used
    FROM rollup_1m JOIN gpus USING (gpu_id)
    WHERE NOT list_contains(?, uuid)
) UNPIVOT (gpu_hours FOR state IN (free, empty, idle, low, moderate, good, suspect, held, used))
ORDER BY state
"""
DIVIDED = """
SELECT uuid FROM intrusions JOIN gpus USING (gpu_id)
UNION SELECT uuid FROM allocations JOIN gpus USING (gpu_id) WHERE share < 1
"""
"""Exports have no single processes: read back, what they did on such GPUs can't be told apart."""


@pytest.fixture(scope="module", params=["parquet", "csv"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    cluster = SimulatedCluster(seed=5)
    with open_store(folder / "first.duckdb") as store:
        for history in cluster.history(FROM_MS, TO_MS, STEP_MS):
            store.write_history(history)
        store.export(folder, request.param, FROM_MS, TO_MS)
        store.export(folder, "parquet", FROM_MS, TO_MS)
    return folder / f"samples.{request.param}"


def rows(store: Store, question: str, *values: object) -> list[tuple[object, ...]]:
    with store.reader() as connection:
        return connection.execute(question, values).fetchall()


def test_an_export_comes_back_as_it_was_recorded(exported: Path) -> None:
    cluster = SimulatedCluster(seed=5)
    original = list(cluster.history(FROM_MS, TO_MS, STEP_MS))
    recording = open_recording(exported)
    keys = [("at_ms", "ascending"), ("uuid", "ascending")]
    before = pa.concat_tables(h.samples for h in original).combine_chunks().sort_by(keys)
    after = recording.samples.sort_by(keys)
    assert recording.refused.rows == 0
    assert set(recording.gpus) == set(cluster.gpus)
    assert {(i.allocation, i.from_ms, i.to_ms) for i in recording.held} == {
        (i.allocation, i.from_ms, None if i.to_ms == TO_MS else i.to_ms) for h in original for i in h.held
    }, "of what lasted until the last sample no end is known"
    for name in before.column_names:
        assert after[name].to_pylist() == pytest.approx(before[name].to_pylist(), abs=1e-6), name


def test_replaying_an_export_fills_a_store_with_the_same_states(exported: Path, tmp_path: Path) -> None:
    recording = open_recording(exported)
    with open_store(exported.with_name("first.duckdb")) as first, open_store(tmp_path / "b.duckdb") as second:
        for history in histories(recording):
            second.write_history(history)
        divided = [uuid for (uuid,) in rows(first, DIVIDED)]
        assert rows(second, TOTALS, divided) == rows(first, TOTALS, divided)


@pytest.mark.slow
@pytest.mark.parametrize(  # tick by tick takes 10 s; that both formats hold the same is asked above
    "exported", ["parquet", pytest.param("csv", marks=pytest.mark.long)], indirect=True
)
def test_the_loop_on_a_recorded_clock_leaves_what_history_leaves(exported: Path, tmp_path: Path) -> None:
    recording = open_recording(exported)
    clock = ReplayClock(HandClock(), recording.from_ms)
    source = ReplaySource(recording)

    with open_store(exported.with_name("first.duckdb")) as first, open_store(tmp_path / "c.duckdb") as second:
        ports = LoopDependencies(sources=(source,), attribute=effective, sink=second.write_tick)
        loop = Loop(ports, clock=clock, timing=Timing(tick_ms=STEP_MS))
        while not source.finished:
            clock.sleep(STEP_MS / 1000)
            loop.tick_once()
        for _ in range(3):  # the last minutes are rolled up by the ticks after them
            clock.sleep(STEP_MS / 1000)
            loop.tick_once()
        counted = "SELECT count(*), sum(memory_used_bytes), sum(utilization_e4) FROM samples"
        assert rows(second, counted) == rows(first, counted)
        held = "SELECT count(*), sum(epoch_ms(coalesce(to_ts, epoch_ms({}::BIGINT))) - epoch_ms(from_ts))"
        held += " FROM allocations WHERE from_ts < epoch_ms({}::BIGINT)"
        assert rows(second, held.format(TO_MS, TO_MS)) == rows(first, held.format(TO_MS, TO_MS))


def test_a_neighbour_that_is_not_ours_is_named(exported: Path, tmp_path: Path) -> None:
    copy = tmp_path / exported.name
    copy.write_bytes(exported.read_bytes())
    assert open_recording(tmp_path).held == ()
    (tmp_path / "allocations.csv").write_text("uuid,job,source,from_ms\nGPU-1,slurm:1,gossip,0\n")
    if exported.suffix == ".csv":
        with pytest.raises(RecordingUnreadable, match=r"row 1 of .*allocations.csv.*gossip"):
            open_recording(copy)
