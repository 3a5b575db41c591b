"""``fallow explain`` of a job that has ended says what it was, what it made of it, and what was found."""

import time
from pathlib import Path
from typing import Any, cast

import pytest

from collector.arrow import HeldInterval
from service.cli import main
from service.cli.explain import ended
from service.client.queries import Client, Transport
from service.config.file import load
from service.usecases.judge import judge
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

pytestmark = pytest.mark.slow

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """``rested`` held a GPU for ten hours, worked for one, was found, and ended an hour ago."""
    rows = [
        sample(0, at, 0.8 if at <= T0 - 10 * HOUR_MS else 0.0, width_ms=MINUTE_MS)
        for at in range(T0 - 11 * HOUR_MS + MINUTE_MS, T0 + 1, MINUTE_MS)
    ]
    whole = HeldInterval(allocation=held(0, "rested"), from_ms=T0 - 11 * HOUR_MS, to_ms=T0 - HOUR_MS)
    with open_store(at_path(tmp_path)) as store:
        early = [row for row in rows if row.at_ms <= T0 - HOUR_MS]
        store.write_history(history(early, [whole]))
        config = load(None, {}).config
        judge(config, store, T0 - HOUR_MS)
        store.write_history(history(rows))
        judge(config, store, T0)
    return tmp_path


@pytest.mark.parametrize("name", ["slurm:rested", "rested"])
def test_explain_tells_of_a_job_that_has_ended(
    past: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", name, "--data", str(past)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "user-rested's job of project p, and has ended: it held 1 GPU" in told
    assert "Its verdict: " in told and "wasted" in told
    assert "Found " in told and "done nothing on it for 9 h" in told


def test_a_name_that_no_job_had_is_refused(past: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "slurm:nobody", "--data", str(past)]) == 2
    assert "no job that ended in the last 30 days" in capsys.readouterr().err


class OlderService:
    """A service whose jobs bear nothing that a verdict needs."""

    url = "http://127.0.0.1:1"

    def rows(self, name: str, params: dict[str, object]) -> list[dict[str, Any]]:
        """One job that has ended; nothing was found."""
        job = {"job": "slurm:7", "job_name": None, "project": "p", "user_name": "ada", "gpus": 2}
        times = {"from_ts": "2026-11-20T08:00:00+00:00", "to_ts": "2026-11-20T18:00:00+00:00"}
        return [job | times] if name == "jobs" else []


def test_an_older_service_tells_of_an_ended_job_without_its_verdict() -> None:
    client = Client(cast("Transport", OlderService()), data=None)
    (told,) = ended(client, "7", T0)
    assert "ada's job of project p, and has ended: it held 2 GPUs" in told


def test_all_times_are_in_the_readers_own_zone(
    past: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        assert main(["explain", "rested", "--data", str(past)]) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    (found,) = (line for line in capsys.readouterr().out.splitlines() if "Found " in line)
    assert "has held" in found and " UTC" not in found
