"""From a real store to an analysis: the hand-made world, and a simulated node against its true labels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.assess import assess, finding_rows, patterns
from analytics.model import FindingKind, PatternKind
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.labels import LabelKind
from collector.store.database import Store
from collector.store.judgements import Judgement
from tests.analytics.world import A0, B0, END_MS, MINUTE_MS, NOON, ONE_MS, fill
from tests.stores import open_store

T = Thresholds()
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
START_MS = 1_793_145_600_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fill(tmp_path_factory.mktemp("assess")) as world:
        yield world


def test_idle_holder_is_found_with_its_whole_story(store: Store) -> None:
    with store.reader() as reader:
        analysis = assess(reader, END_MS, T, MINUTE_MS)
    (finding,) = analysis.findings
    assert (finding.kind, finding.uuid) == (FindingKind.HELD_IDLE, A0)
    assert finding.holder is not None
    assert finding.holder.user == "ana"
    assert finding.since_ms == ONE_MS
    assert finding.wasted_gpu_hours == pytest.approx(62 / 60)  # rolled up until 14:02
    assert analysis.as_of_ms == END_MS
    assert analysis.coverage.gpus == 3


def test_window_with_a_gap_is_unknown(store: Store) -> None:
    with store.reader() as reader:
        # It is a terminal that has never computed: with the whole two hours for that it would be starting up.
        analysis = assess(reader, END_MS, Thresholds(start_limit_s=1800), MINUTE_MS)
    (unknown,) = analysis.unknown
    assert (unknown.uuid, unknown.kinds) == (B0, (FindingKind.ALLOCATED_EMPTY,))
    assert unknown.reason == "only 60% of the last 30 min were measured"


def test_the_past_can_be_judged_as_it_was(store: Store) -> None:
    with store.reader() as reader:
        before = assess(reader, ONE_MS, T, MINUTE_MS)
        early = assess(reader, ONE_MS + 50 * MINUTE_MS, T, MINUTE_MS)
    assert before.findings == ()
    assert FindingKind.HELD_IDLE not in {finding.kind for finding in early.findings}


def test_findings_are_kept_and_read_back(tmp_path: Path) -> None:
    with fill(tmp_path) as world, world.reader() as reader:
        analysis = assess(reader, END_MS, T, MINUTE_MS)
        written = world.write_judgement(Judgement(findings=finding_rows(analysis)), END_MS)
        assert (written.opened, written.closed) == (1, 0)
        (row,) = run(reader, "findings", {"from_ts": NOON, "to_ts": NOON.replace(hour=15)}).to_pylist()
    assert (row["kind"], row["job"], row["sentence"]) == (
        "held-idle",
        "slurm:1",
        analysis.findings[0].sentence,
    )


def test_nothing_stored_is_nothing_said(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as empty, empty.reader() as reader:
        analysis = assess(reader, END_MS, T)
    assert (analysis.findings, analysis.unknown, analysis.coverage.gpus) == ((), (), 0)


def test_silence_of_all_is_unknown_for_all(store: Store) -> None:
    with store.reader() as reader:
        analysis = assess(reader, END_MS + 10 * MINUTE_MS, T, MINUTE_MS)
    assert analysis.findings == ()
    assert {entry.uuid for entry in analysis.unknown} == {"GPU-a0", "GPU-a1", "GPU-b0"}
    assert analysis.coverage.silent_gpus == 3


@pytest.mark.slow
def test_simulated_node_is_judged_as_its_people_know_it(tmp_path: Path) -> None:
    cluster = SimulatedCluster(seed=3, nodes=2)
    truth = cluster.truth(START_MS, START_MS + 2 * DAY_MS)
    assert any(row.kind is LabelKind.STARTING_UP for row in truth)
    old = {row.holder for row in truth if row.from_ms == START_MS and row.holder is not None}
    with open_store(tmp_path / "fallow.duckdb") as sim, sim.reader() as reader:
        for history in cluster.history(START_MS, START_MS + 2 * DAY_MS, 10_000):
            sim.write_history(history)
        for now_ms in range(START_MS + DAY_MS, START_MS + 2 * DAY_MS, 3 * HOUR_MS):
            steady = {
                row.uuid: {kind.value for kind in row.findings}
                for row in truth
                if row.from_ms <= now_ms - 2 * HOUR_MS and row.to_ms > now_ms and row.holder not in old
            }
            analysis = assess(reader, now_ms, T, 10_000)
            for uuid, expected in steady.items():
                found = {f.kind.value for f in analysis.findings if f.uuid == uuid}
                doubted = {kind.value for e in analysis.unknown if e.uuid == uuid for kind in e.kinds}
                assert found - {"not-started"} == expected - doubted, (uuid, now_ms)
        kinds = {pattern.kind for pattern in patterns(reader, START_MS + 2 * DAY_MS, T)}
    assert kinds >= {PatternKind.ANALYSIS_BURSTS, PatternKind.LOW_SATURATION, PatternKind.SATURATED}
