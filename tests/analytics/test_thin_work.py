"""SMs that work a little are at work on every screen: ledger, what recurs, now, and once they stop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.query import Connection, run
from analytics.thresholds import Thresholds
from collector.arrow import History, to_table
from tests.analytics.thin_world import (
    BIN_MS,
    BINS,
    END_MS,
    HOUR_MS,
    IDLE_HOURS,
    LOW_HOURS,
    MINUTE_MS,
    START_MS,
    STOP_MS,
    gpus,
    history,
    holds,
    rows,
)
from tests.stores import open_store

ALL = {"from_ts": START_MS, "to_ts": END_MS}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with open_store(tmp_path_factory.mktemp("thin") / "fallow.duckdb") as store:
        store.write_history(history())
        with store.reader() as reader:
            yield reader


def test_the_ledger_has_the_hours_that_were_counted_by_hand(ask: Connection) -> None:
    told = {row["key"]: row for row in run(ask, "ledger_by_job", ALL).to_pylist()}
    assert {job: round(told[job]["wasted_gpu_hours"], 6) for job in IDLE_HOURS} == IDLE_HOURS
    assert {job: round(told[job]["low_saturation_gpu_hours"], 6) for job in LOW_HOURS} == LOW_HOURS
    # 0.5% of four hours
    assert told["thin"]["used_gpu_hours"] == pytest.approx(0.02)


def test_minutes_hours_and_days_bear_the_same_faint_time(ask: Connection) -> None:
    for level, until in (("1m", END_MS), ("1h", END_MS)):
        found = ask.execute(
            f"SELECT uuid, sum(faint_ms) / 3600000, bool_and(faint_ms <= low_saturation_ms) "
            f"FROM rollup_{level} JOIN gpus USING (gpu_id) WHERE ts < epoch_ms(?::BIGINT) GROUP BY uuid",
            [until],
        ).fetchall()
        assert {uuid: hours for uuid, hours, _ in found} == LOW_HOURS
        assert all(is_part for *_, is_part in found)


def test_what_recurs_has_no_idle_time_while_sms_work(ask: Connection) -> None:
    # A start is forgiven for two hours.
    found = [
        (row["job"], (row["from_ms"] - START_MS) / HOUR_MS, (row["to_ms"] - START_MS) / HOUR_MS)
        for row in run(ask, "idle_stretches", ALL).to_pylist()
        if row["job"] in ("thin", "third", "ticks", "idle")
    ]
    assert found == [("idle", 2.0, 6.0), ("ticks", 2.0, 6.0), ("thin", 4.0, 6.0)]


def test_idle_begins_when_the_last_work_ends_however_little_it_was(ask: Connection) -> None:
    found = {
        str(each.holder.job): each
        for each in assess(ask, END_MS, Thresholds(), BIN_MS).findings
        if each.holder is not None and each.kind is FindingKind.HELD_IDLE
    }
    assert found["thin"].since_ms == STOP_MS
    assert found["thin"].wasted_gpu_hours == pytest.approx(2.0)
    now = {row["job"]: row for row in run(ask, "gpus_now", {}).to_pylist()}
    assert {job: now[job]["state"] for job in ("thin", "idle", "ticks")} == dict.fromkeys(
        ("thin", "idle", "ticks"), "held-idle"
    )
    since = {job: now[job]["state_since"].timestamp() * 1000 - START_MS for job in ("thin", "ticks")}
    assert since["thin"] == STOP_MS - START_MS
    assert since["ticks"] <= BIN_MS  # ticks that pass are no end of it


def test_while_it_works_a_little_nothing_calls_it_idle(ask: Connection) -> None:
    found = {
        (str(each.holder.job), each.kind)
        for each in assess(ask, STOP_MS, Thresholds(), BIN_MS).findings
        if each.holder is not None
    }
    assert {kind for job, kind in found if job in ("thin", "third")} == {FindingKind.RARELY_USED}
    waste = {
        row["key"]: row["wasted_gpu_hours"]
        for row in run(ask, "ledger_by_job", {"from_ts": START_MS, "to_ts": STOP_MS}).to_pylist()
    }
    assert waste["thin"] == 0.0


def test_job_by_job_it_has_used_its_gpu(ask: Connection) -> None:
    told = {row["job"]: row for row in run(ask, "jobs", ALL).to_pylist()}
    assert {job: told[job]["gpus_used"] for job in told} == {
        "thin": 1, "third": 1, "ticks": 0, "idle": 0, "bursts": 1, "blunt": 0,
    }  # fmt: skip


def test_the_busiest_minutes_and_the_traffic_are_of_those_over_noise(ask: Connection) -> None:
    """Traffic of 30% five hours ago counts: the newest two hours alone would have said 2%."""
    told = {
        row["job"]: row for row in run(ask, "decide_jobs", {"as_of": END_MS, "from_ts": START_MS}).to_pylist()
    }
    assert told["bursts"]["utilization_p95_ratio"] == pytest.approx(0.6)
    assert told["bursts"]["controller_p95_ratio"] == pytest.approx(0.3)
    assert told["thin"]["controller_p95_ratio"] is None  # never over 1% busy
    past = {row["job"]: row["controller_p95_ratio"] for row in run(ask, "past_jobs", ALL).to_pylist()}
    assert (past["bursts"], past["thin"]) == (pytest.approx(0.3), None)


@pytest.mark.slow
def test_minute_by_minute_it_is_as_told_at_once(ask: Connection, tmp_path: Path) -> None:
    """The ten minutes that are looked back at lie before what is rolled up now."""
    table = (
        "SELECT uuid, ts, low_saturation_ms, held_idle_ms, faint_ms FROM rollup_1m JOIN gpus USING (gpu_id) "
    )
    until = START_MS + 50 * MINUTE_MS
    first = "WHERE ts < epoch_ms(?::BIGINT) ORDER BY ALL"
    with open_store(tmp_path / "fallow.duckdb") as store:
        for minute in range(0, 60, 3):
            last = to_table(rows(2 * minute, 2 * minute + 6))
            store.write_history(History(source="hand", gpus=gpus(), samples=last, held=holds()))
        with store.reader() as reader:
            assert reader.execute(table + first, [until]).fetchall() == (
                ask.execute(table + first, [until]).fetchall()
            )


def test_now_it_is_at_low_saturation(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        short = to_table(iter(rows(BINS // 2, BINS // 2 + 60)))
        store.write_history(History(source="hand", gpus=gpus(), samples=short, held=holds()))
        with store.reader() as reader:
            states = {row["job"]: row["state"] for row in run(reader, "gpus_now", {}).to_pylist()}
    assert states["thin"] == "low-saturation"
    assert states["idle"] == states["blunt"] == "held-idle"
