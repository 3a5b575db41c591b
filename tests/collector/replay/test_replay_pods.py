"""Real telemetry of 144 pods through replay, store and ledger, against questions put to the raw file alone.

The trace counts seconds in steps of 57; its README takes them for minutes. Read as minutes its rows lie on
the store's bins exactly, and totals must be equal; read as they stand, each stretch without a measurement is
rounded to bins of 30 s, and totals must be close.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from analytics.assess import assess
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.reading import Tick
from collector.sources.replay.mapping import ColumnMapping, parse_mapping
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import Recording, histories
from collector.sources.replay.source import ReplaySource
from collector.store.database import Store
from tests.stores import open_store

pytestmark = pytest.mark.slow

MAPPING = """
time = {{ column = "t_s", {unit}, origin = "2026-03-02T00:00:00Z" }}
gpu = "pod"
width_s = {width_s}
node_name = "pods"
[sample]
gpu_utilization_ratio = {{ column = "gpu_util_pct", unit = "percent" }}
memory_used_bytes = {{ column = "gpu_mem_used_mib", unit = "MiB" }}
[holder]
job = "pod"
"""
ORIGIN_MS = 1_772_409_600_000
SPAN = {"from_ts": "2026-03-01T23:00:00Z", "to_ts": "2026-03-03T01:00:00Z"}


@pytest.fixture(scope="module")
def raw(shared: Path) -> Path:
    return shared / "traces" / "alibaba-genai-2026" / "pod_gpu_telemetry.csv.gz"


def as_minutes() -> ColumnMapping:
    return parse_mapping(MAPPING.format(unit=f"unit_s = {60 / 57!r}", width_s=60), "pods.toml")


def as_it_stands() -> ColumnMapping:
    return parse_mapping(MAPPING.format(unit='unit = "s"', width_s=57), "pods.toml")


@pytest.fixture(scope="module")
def store(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("pods") / "fallow.duckdb") as opened:
        fill(opened, open_recording(raw, as_minutes()))
        yield opened


def fill(store: Store, recording: Recording) -> None:
    """All of the recording, and one tick after its end, with which the last minute is rolled up."""
    for history in histories(recording):
        store.write_history(history)
    source = ReplaySource(recording)
    source.read(recording.to_ms)
    at_ms = recording.to_ms + 120_000
    store.write_tick(Tick(at_ms=at_ms, width_ms=60_000, outcomes=(source.read(at_ms),)))


def ask(store: Store, question: str) -> tuple[object, ...]:
    with store.reader() as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row


def ask_raw(raw: Path, question: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(question.replace("RAW", f"read_csv('{raw}')")).fetchall()


def test_every_row_arrives_and_nulls_stay_null(store: Store, raw: Path) -> None:
    counted = ask(store, "SELECT count(*), count(utilization_e4), count(memory_used_bytes) FROM samples_all")
    assert [counted] == ask_raw(raw, "SELECT count(*), count(gpu_util_pct), count(gpu_mem_used_mib) FROM RAW")
    assert counted == (161_415, 157_417, 161_413)
    zeros = "SELECT count(*) FILTER (utilization_e4 = 0) FROM samples_all"
    assert [ask(store, zeros)] == ask_raw(raw, "SELECT count(*) FILTER (gpu_util_pct = 0) FROM RAW")


def test_each_pod_holds_one_gpu(store: Store) -> None:
    assert ask(
        store, "SELECT count(*), count(DISTINCT holder_id), count(DISTINCT gpu_id) FROM allocations"
    ) == (
        144,
        144,
        144,
    )


def test_utilization_hours_of_each_pod_equal_the_raw_sums(store: Store, raw: Path) -> None:
    expected = dict(
        ask_raw(
            raw,
            "SELECT pod, sum(gpu_util_pct) / 100 / 60 FROM RAW WHERE gpu_util_pct IS NOT NULL GROUP BY pod",
        )
    )
    with store.reader() as connection:
        rows = run(connection, "ledger_by_gpu", SPAN).to_pylist()
    assert len(rows) == 144
    for row in rows:
        assert row["used_gpu_hours"] == pytest.approx(expected.get(row["key"], 0.0), abs=1e-6), row["key"]
    assert sum(row["used_gpu_hours"] for row in rows) == pytest.approx(sum(expected.values()), abs=1e-6)


def test_measured_and_memory_totals_equal_the_raw_sums(store: Store, raw: Path) -> None:
    measured = ask(store, "SELECT sum(measured_ms) / 60000 FROM rollup_1m")
    assert [measured] == ask_raw(raw, "SELECT count(gpu_util_pct) FROM RAW")
    memory = ask(store, "SELECT sum(memory_used_bytes) / 1048576 FROM samples_all")
    assert [memory] == ask_raw(raw, "SELECT sum(gpu_mem_used_mib) FROM RAW")


def test_states_of_each_pod_sum_to_its_installed_time(store: Store) -> None:
    with store.reader() as connection:
        rows = run(connection, "ledger_by_gpu", SPAN).to_pylist()
    states = (
        "free",
        "allocated_empty",
        "held_idle",
        "low_saturation",
        "moderate",
        "good",
        "suspect",
        "unknown",
    )
    for row in rows:
        assert sum(row[f"{state}_gpu_hours"] for state in states) == pytest.approx(row["gpu_hours"], abs=1e-9)


def test_read_as_it_stands_the_totals_are_within_a_percent(raw: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as opened:
        fill(opened, open_recording(raw, as_it_stands()))
        (used, measured) = ask(opened, "SELECT sum(used_ms) / 3.6e6, sum(measured_ms) / 3.6e6 FROM rollup_1m")
    ((used_raw, measured_raw),) = ask_raw(
        raw, "SELECT sum(gpu_util_pct) / 100 * 57 / 3600, count(gpu_util_pct) * 57 / 3600 FROM RAW"
    )
    assert used == pytest.approx(used_raw, rel=0.01)
    assert measured == pytest.approx(measured_raw, rel=0.01)


def found_at(store: Store, at_ms: int) -> tuple[dict[str, set[str]], set[str]]:
    """The pods of each kind of finding, and those that are starting up."""
    with store.reader() as connection:
        analysis = assess(connection, at_ms, Thresholds(), tick_ms=60_000)
    kinds: dict[str, set[str]] = {}
    for finding in analysis.findings:
        kinds.setdefault(finding.kind.value, set()).add(str(finding.uuid))
    return kinds, {str(entry.uuid) for entry in analysis.starting}


NAMED = ("held-idle", "allocated-empty", "rarely-used", "sleeping-batch", "not-started")
"""Kinds that say of a pod which did nothing that it did nothing."""


def silent(raw: Path, minute: int, minutes: int) -> set[str]:
    """The pods of which 95% of those minutes were measured, and no row of them was over 1%."""
    rows = ask_raw(
        raw,
        f"""
        SELECT pod FROM RAW WHERE t_s // 57 > {minute - minutes} AND t_s // 57 <= {minute} GROUP BY pod
        HAVING count(gpu_util_pct) >= {0.95 * minutes} AND max(gpu_util_pct) <= 1
        """,
    )
    return {str(pod) for (pod,) in rows}


@pytest.mark.parametrize("minute", [180, 540, 900, 1080, 1260, 1439])
def test_nobody_is_called_idle_who_was_busy_within_the_hour_and_who_rests_for_long_is_named(
    store: Store, raw: Path, minute: int
) -> None:
    """Idle by the policy's words, asked of the raw rows: nothing over 1% within the window, which is an hour
    and grows with a pod's own silences to six."""
    kinds, starting = found_at(store, ORIGIN_MS + minute * 60_000)
    assert kinds.get("held-idle", set()) <= silent(raw, minute, 60)
    named = set().union(*(kinds.get(kind, set()) for kind in NAMED))
    if minute >= 360:
        assert silent(raw, minute, 360) <= named | starting
    if minute >= 1080:
        assert len(kinds["held-idle"]) > 10


def test_pods_that_hold_memory_and_do_nothing_are_named(store: Store, raw: Path) -> None:
    """21 pods have a 95th percentile under 1%; those with hours of life are named, the young ones spared.

    Of one, pod-086, most rows of the hours that are asked for bear no utilization (24 of the 60 before minute
    1080, 22 before 1260): nobody can say."""
    quiet = ask_raw(
        raw,
        """
        SELECT pod, count(*) >= 120 FROM RAW GROUP BY pod
        HAVING quantile_cont(gpu_util_pct, 0.95) < 1 AND max(gpu_mem_used_mib) > 0
        """,
    )
    assert len(quiet) == 21
    named: set[str] = set()
    accused: set[str] = set()
    for minute in (1080, 1200, 1340, 1439):
        kinds, _ = found_at(store, ORIGIN_MS + minute * 60_000)
        named |= set().union(*(kinds.get(kind, set()) for kind in NAMED))
        accused |= kinds.get("held-idle", set()) | kinds.get("allocated-empty", set())
    old = {str(pod) for pod, is_old in quiet if is_old}
    assert len(old) == 10 and old - {"pod-086"} <= named
    assert not accused & ({str(pod) for pod, _ in quiet} - old)
