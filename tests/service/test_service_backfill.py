"""The past of the simulated cluster: what is stored is what truly was, whatever the steps it came in."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import Store
from collector.store.past_findings import pasts_to_judge
from service.sources.backfill import DAY_MS, MINUTE_MS, Backfill, layers
from tests.stores import open_store

NOW_MS = 1_800_000_123_456
HOUR_MS = 60 * MINUTE_MS


@pytest.mark.parametrize("days", [1, 2, 14])
def test_layers_cover_the_past_without_hole_or_overlap(days: int) -> None:
    found = layers(days, NOW_MS)
    assert found[0].from_ms <= NOW_MS - days * DAY_MS
    assert NOW_MS - found[-1].to_ms < 10_000
    assert all(before.to_ms == after.from_ms for before, after in pairwise(found))
    assert all(layer.from_ms % layer.step_ms == layer.to_ms % layer.step_ms == 0 for layer in found)
    assert found[0].to_ms - found[0].from_ms == (days - 1) * DAY_MS
    assert [layer.step_ms for layer in found] == sorted((layer.step_ms for layer in found), reverse=True)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, SimulatedCluster]:
    folder = tmp_path_factory.mktemp("backfill")
    cluster = SimulatedCluster(seed=1, nodes=2, gpus_per_node=2)
    store = open_store(folder / "fallow.duckdb")
    past = Backfill(cluster=cluster, store=store, mark=folder / "mark", days=6)
    run(past, stopped=lambda: False)
    return store, cluster


def test_every_holder_holds_as_long_as_it_truly_did(filled: tuple[Store, SimulatedCluster]) -> None:
    store, cluster = filled
    past = layers(6, NOW_MS)
    truth: dict[tuple[str, str], int] = {}
    for history in cluster.history(past[0].from_ms, past[-1].to_ms, 300_000):
        for each in history.held:
            key = (each.allocation.uuid, each.allocation.holder.job)
            ended = past[-1].to_ms if each.to_ms is None else each.to_ms
            truth[key] = truth.get(key, 0) + ended - each.from_ms
    with store.reader() as connection:
        rows = connection.execute(
            "SELECT uuid, job, CAST(sum(epoch_ms(to_ts) - epoch_ms(from_ts)) AS BIGINT) FROM allocations "
            "JOIN gpus USING (gpu_id) JOIN holders USING (holder_id) GROUP BY ALL"
        ).fetchall()
    assert {(uuid, job): held for uuid, job, held in rows} == truth


def test_who_had_ended_in_it_is_to_be_judged_as_after_an_import(
    filled: tuple[Store, SimulatedCluster],
) -> None:
    past = layers(6, NOW_MS)
    with filled[0].reader() as connection:
        (whole,) = pasts_to_judge(connection, "rules")
    assert (whole.from_ms, whole.to_ms, whole.judged_ms) == (past[0].from_ms, past[-1].to_ms, past[0].from_ms)


def test_no_time_is_missing_but_where_the_cluster_was_blind(filled: tuple[Store, SimulatedCluster]) -> None:
    store, _ = filled
    with store.reader() as connection:
        overlaps = connection.execute(
            "SELECT count(*) FROM (SELECT ts, width_ms, lag(ts) OVER (PARTITION BY gpu_id ORDER BY ts) "
            "AS before FROM samples) WHERE before IS NOT NULL AND epoch_ms(ts) - width_ms < epoch_ms(before)"
        ).fetchone()
        covered = connection.execute("SELECT sum(width_ms) / count(DISTINCT gpu_id) FROM samples").fetchone()
    assert overlaps == (0,)
    assert covered is not None
    assert 0.9 * 6 * DAY_MS < covered[0] <= 6 * DAY_MS + 5 * MINUTE_MS


@pytest.mark.slow
def test_interrupted_past_is_begun_again_and_no_sample_comes_twice(tmp_path: Path) -> None:
    cluster = SimulatedCluster(seed=1, nodes=1, gpus_per_node=2)
    told: list[str] = []
    with open_store(tmp_path / "fallow.duckdb") as store:
        past = Backfill(cluster=cluster, store=store, mark=tmp_path / "mark", days=6)
        assert past.is_due()
        run(past, stopped=lambda: len(told) > 2, tell=told.append)
        assert past.is_due(), "it is unfinished"
        part = samples(store)
        run(past, stopped=lambda: False, tell=told.append)
        assert not past.is_due()
        whole = samples(store)
    assert 0 < part < whole
    assert told[-1] == "filling in the past: 5 of 6 days"


def run(
    past: Backfill, stopped: Callable[[], bool], tell: Callable[[str], None] = lambda stage: None
) -> None:
    past.run_recent(NOW_MS, stopped, tell)
    past.run_older(NOW_MS, stopped, tell)


def samples(store: Store) -> int:
    with store.reader() as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT (gpu_id, ts)) FROM samples").fetchone()
    assert found is not None
    assert found[0] == found[1]
    return int(found[0])
