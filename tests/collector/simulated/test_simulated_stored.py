"""The simulated cluster through attribution and a real store: what comes out is what truly went on."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from collector.attribution import effective
from collector.model import ProcessKey
from collector.reading import Reading
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.labels import MEASURED_BY_NOBODY, FindingKind, Label, LabelKind
from collector.sources.simulated.people import DAY_MS, HOUR_MS, MINUTE_MS
from collector.store.database import Store
from tests.stores import open_store

TO_MS = 1_795_003_200_000
FROM_MS = TO_MS - 2 * DAY_MS
STATES = {
    LabelKind.FREE: "free",
    LabelKind.HELD_EMPTY: "allocated_empty",
    LabelKind.BETWEEN_RUNS_EMPTY: "allocated_empty",
    LabelKind.NOTEBOOK_AWAY: "held_idle",
    LabelKind.BETWEEN_RUNS: "held_idle",
    LabelKind.FORGOTTEN_SERVICE: "held_idle",
    LabelKind.STARTING_UP: "held_idle",
    LabelKind.SMALL_MODEL: "low_saturation",
    LabelKind.TENSORFLOW_HOG: "low_saturation",
    LabelKind.KEEP_WARM: "low_saturation",
    LabelKind.STUCK_COUNTER: "suspect",
    LabelKind.ZOMBIE_MEMORY: "suspect",
}


@pytest.fixture(scope="module")
def cluster() -> SimulatedCluster:
    return SimulatedCluster(seed=11)


@pytest.fixture(scope="module")
def store(cluster: SimulatedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("whole") / "fallow.duckdb") as opened:
        for history in cluster.history(FROM_MS, TO_MS, MINUTE_MS):
            opened.write_history(history)
        yield opened


def rows(store: Store, question: str) -> list[tuple[object, ...]]:
    with store.reader() as connection:
        return connection.execute(question).fetchall()


def on_gpus_of_several_namespaces(reading: Reading) -> frozenset[ProcessKey]:
    """Processes of pods that share a GPU across namespaces: only their own word tells whose they are."""
    namespaces: dict[str, set[str]] = {}
    for given in reading.allocations or ():
        namespaces.setdefault(given.uuid, set()).add(given.holder.job.partition("/")[0])
    return frozenset(s.key for s in reading.process_samples or () if len(namespaces.get(s.uuid, ())) > 1)


def test_attribution_believes_what_the_cluster_says(cluster: SimulatedCluster) -> None:
    for at_ms in range(FROM_MS, TO_MS, 3 * HOUR_MS):
        reading = cluster.source().read(at_ms)
        if isinstance(reading, Reading):
            found = effective((reading,), at_ms)
            assert found is not None
            assert {(a.uuid, a.holder.job, a.share) for a in found.allocations} == {
                (a.uuid, a.holder.job, a.share) for a in reading.allocations or ()
            }
            assert found.unknown == on_gpus_of_several_namespaces(reading)
            truly = {t.uuid for t in cluster.truth(at_ms - 1, at_ms) if FindingKind.INTRUDER in t.findings}
            assert {intrusion.uuid for intrusion in found.intrusions} == truly
            assert found.orphans == {intrusion.key for intrusion in found.intrusions}
            for process in reading.processes or ():
                if process.key in found.orphans | found.unknown:
                    continue
                own = process.slurm_job or dict(process.environment)["HOSTNAME"]
                assert str(found.owners[process.key]).endswith(own)


def test_the_ledger_gives_every_label_the_state_it_should_have(
    cluster: SimulatedCluster, store: Store
) -> None:
    """By the minute, over GPUs that one holder has: hours by state are the labels' own hours."""
    shared = {
        g
        for (g,) in rows(
            store,
            "SELECT DISTINCT uuid FROM allocations JOIN gpus USING (gpu_id) WHERE share < 1 "
            "UNION SELECT uuid FROM intrusions JOIN gpus USING (gpu_id)",
        )
    }
    truths = [t for t in cluster.truth(FROM_MS, TO_MS - HOUR_MS) if t.uuid not in shared]
    blind = [(a, b) for (a, b) in rows(store, _BLIND)]
    expected: Counter[str] = Counter()
    for truth in truths:
        if truth.kind in STATES:
            expected[STATES[truth.kind]] += _seen_ms(truth, blind)
    columns = ", ".join(f"sum({state}_ms)" for state in sorted({*STATES.values()}))
    names = "', '".join(shared)
    found = rows(
        store,
        f"SELECT {columns} FROM rollup_1m JOIN gpus USING (gpu_id) WHERE uuid NOT IN ('{names}') "
        f"AND epoch_ms(ts) < {TO_MS - HOUR_MS}",
    )[0]
    total = sum(t.to_ms - t.from_ms for t in truths)
    for state, measured in zip(sorted({*STATES.values()}), found, strict=True):
        if state in ("low_saturation", "held_idle"):
            # Dips of a training and thinking at a notebook are rightly low or idle for a bin.
            assert expected[state] <= measured <= expected[state] + 0.1 * total, state
        else:
            assert measured == expected[state], state


@pytest.mark.slow
def test_a_past_told_in_layers_leaves_the_same_intervals_as_one_told_at_once(
    cluster: SimulatedCluster, store: Store, tmp_path: Path
) -> None:
    borders = (FROM_MS, TO_MS - DAY_MS, TO_MS - 3 * HOUR_MS, TO_MS)
    with open_store(tmp_path / "layers.duckdb") as layered:
        for from_ms, to_ms in pairwise(borders):
            for history in cluster.history(from_ms, to_ms, 5 * MINUTE_MS):
                layered.write_history(history)
        question = """
            SELECT uuid, job, share, from_ts, to_ts FROM allocations
            JOIN gpus USING (gpu_id) JOIN holders USING (holder_id) ORDER BY ALL
        """
        assert rows(layered, question) == rows(store, question)


_BLIND = "SELECT epoch_ms(from_ts), epoch_ms(to_ts) FROM gaps WHERE gpu_id IS NULL AND node IS NULL"


def _seen_ms(truth: Label, blind: list[tuple[object, ...]]) -> int:
    if truth.kind in MEASURED_BY_NOBODY:
        return 0
    hidden = sum(max(0, min(truth.to_ms, int(str(b))) - max(truth.from_ms, int(str(a)))) for a, b in blind)
    return truth.to_ms - truth.from_ms - hidden
