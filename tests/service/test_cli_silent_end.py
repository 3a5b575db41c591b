"""Where a range goes on after the last sample, verbs say so, and which ``--until`` ends it there."""

import os
import time
from pathlib import Path

import pytest

from service.cli import main
from service.client import connect
from tests.service import one_sum_world as world

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
    """An earlier end would lie before its begin: that is no hint."""
    to_come = ["--since", "2126-11-01", "--until", "2126-11-02"]
    assert main(["waste", *to_come, "--data", str(data)]) == 0
    out = capsys.readouterr().out
    assert "This time is yet to come: the last sample is of 2026-11-01 15:03." in out and "--until" not in out
