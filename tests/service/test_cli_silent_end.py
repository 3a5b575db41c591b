"""Where a range goes on after the last sample, verbs say so, and which ``--until`` ends it there."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.store.judgements import Judgement
from service.cli import main
from service.client import connect
from tests.service import one_sum_world as world
from tests.stores import open_store

LAST = "--until 2026-11-01T15:04"
"""The world's newest sample is in the minute before (``test_the_newest_sample``)."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.fill(tmp_path_factory.mktemp("silent") / "data")


def test_the_newest_sample(data: Path) -> None:
    with connect(data) as client:
        assert str(client.rows("span")[0]["last_ts"]).startswith("2026-11-01T15:03")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["waste", "ledger", "findings"])
def test_an_old_recording_is_not_taken_for_a_quiet_week(
    data: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main([verb, "--data", str(data)]) == 0
    assert f"Nothing was measured in this time: `{LAST}`" in capsys.readouterr().out
    assert main([verb, "--since", "2026-11-01T12:00", "--until", "2026-11-02", "--data", str(data)]) == 0
    assert f"`{LAST}` ends the range with the last sample." in capsys.readouterr().out
    assert main([verb, "--since", "2026-11-01T12:00", "--until", LAST.split()[1], "--data", str(data)]) == 0
    assert "Nothing was measured" not in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["waste", "ledger", "findings"])
def test_what_is_typed_back_works(data: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main([verb, *LAST.split(), "--data", str(data)]) == 0
    assert "Nothing was measured" not in capsys.readouterr().out


def test_the_hint_is_in_utc_whatever_the_readers_zone(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "TZ", "Asia/Tokyo")
    time.tzset()
    try:
        main(["waste", "--data", str(data)])
        assert f"`{LAST}`" in capsys.readouterr().out
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_to_come_is_said_to_be_one(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier end would lie before its begin: that is no hint; and no hours of it are told."""
    to_come = ["--since", "2126-11-01", "--until", "2126-11-02"]
    for verb in ("waste", "ledger", "findings"):
        assert main([verb, *to_come, "--data", str(data)]) != 0
        printed = capsys.readouterr()
        assert (
            "this time is yet to come: from_ts is 2126-11-01" in printed.err and "--until" not in printed.err
        )
        assert "GPU-h" not in printed.out


@pytest.mark.parametrize("by", ["node", "gpu", "model", "state", "day"])
def test_a_range_that_is_not_over_has_the_hours_until_now_alone(
    data: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    """Until now, in a year and in a hundred is one range: what is to come was not installed, nor unknown."""
    hours = []
    for until in (None, timedelta(days=365), timedelta(days=36_500)):
        end = datetime.now(UTC) + (until or timedelta())
        with connect(data) as client:
            rows = client.rows(
                f"ledger_by_{by}",
                from_ts=datetime(2026, 11, 1, 12, tzinfo=UTC),
                to_ts=end.replace(second=0, microsecond=0),
            )
        hours.append(sum(row["gpu_hours"] for row in rows))
    assert hours[0] == pytest.approx(hours[1], abs=0.2) and hours[0] == pytest.approx(hours[2], abs=0.2)


def test_what_happened_in_this_minute_is_in_a_range_that_is_not_over(data: Path) -> None:
    with connect(data) as client:
        asked = [
            client.rows("findings", from_ts=datetime(2026, 11, 1, 12, tzinfo=UTC), to_ts=to)
            for to in (datetime(2026, 11, 2, tzinfo=UTC), datetime(2126, 1, 1, tzinfo=UTC))
        ]
    assert [len(rows) for rows in asked] == [len(asked[0])] * 2 and asked[0]


def test_what_was_found_in_this_minute_is_listed_at_once(tmp_path: Path) -> None:
    data = world.fill(tmp_path / "data")
    now = datetime.now(UTC).replace(second=30)
    with open_store(data / "fallow.duckdb") as store:
        found = world._finding(3, "held-idle", world.UNKNOWN, 1.0)
        store.write_judgement(Judgement(findings=[found]), round(now.timestamp() * 1000))
    with connect(data) as client:
        minute = now.replace(second=0, microsecond=0)
        window = {"from_ts": minute - timedelta(hours=1), "to_ts": minute + timedelta(days=365)}
        rows = client.rows("findings", **window)
    assert [row["closed_at"] for row in rows].count(None) == 1


@pytest.mark.slow
def test_a_report_of_a_month_that_is_not_over_ends_now(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to_come = ["--since", "2026-11-01T12:00", "--until", "2126-11-02", "--data", str(data)]
    assert main(["report", "cluster-week", "--out", "-", *to_come]) == 0
    out = capsys.readouterr().out
    assert f"to {datetime.now(UTC):%-d %b %Y}" in out and "2126" not in out
