"""Use that rests on GPU utilization alone is marked in each cell, and said once below; hours by hand."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.cli import main
from tests.analytics.test_upper_bounds import END_MS, START_MS, history
from tests.stores import open_store

USE = "1.7 GPU-hours of the use rest"
STATES = "2.0 GPU-hours of low-saturation, moderate and good rest"
SAYS = "on GPU utilization alone, the time in which any kernel ran: an upper bound (≤), and low saturation"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(history())
    return folder


@pytest.mark.parametrize(
    ("asked", "cells", "says"),
    [
        (["ledger", "--by", "user"], ("ann 2.0 ≤0.9 1.0 0.0 ≤45%", "bob 4.0 ≤2.1 0.0 0.0 ≤52%"), USE),
        (["ledger", "--by", "job"], ("sharp (bob) 2.0 1.0 0.0 0.0 50%",), USE),
        (["ledger", "--by", "state"], ("good 4.0 67%",), STATES),
        (["job", "blunt"], ("at most 0.9 used (45%)",), "Some of the use rests"),
    ],
)  # fmt: skip
def test_what_is_an_upper_bound_is_marked_and_said(
    data: Path, capsys: pytest.CaptureFixture[str], asked: list[str], cells: tuple[str, ...], says: str
) -> None:
    since, until = (datetime.fromtimestamp(at / 1000, UTC).isoformat() for at in (START_MS, END_MS))
    assert main([*asked, "--since", since, "--until", until, "--data", str(data)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{says} {SAYS}" in shown
    assert [cell for cell in cells if cell not in shown] == [], shown


def test_what_is_measured_better_bears_no_mark(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    since = datetime.fromtimestamp(START_MS / 1000, UTC).isoformat()
    assert main(["job", "sharp", "--since", since, "--data", str(data)]) == 0
    shown = capsys.readouterr().out
    assert "1.0 used (50%)" in " ".join(shown.split()) and "≤" not in shown and "at most" not in shown
