"""What one person makes the store keep cannot make a question unanswerable for everybody."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.store.database import Limits
from tests.stores import open_store

ALWAYS = {"from_ts": datetime(2020, 1, 1, tzinfo=UTC), "to_ts": datetime(2100, 1, 1, tzinfo=UTC)}
LARGE = {
    "submission": {
        "command": ["x" * 8_000],
        "folder": "f" * 4_000,
        "name": "n" * 100,
        "kind": "batch",
        "min_gpus": 1,
        "max_gpus": 4,
        "share": 1.0,
        "gpu_models": [],
        "priority": 0,
        "mobility": "rigid",
        "preemptible": False,
        "may_share": False,
        "opted_out": [],
    }
}
ADD = """
INSERT INTO entries
SELECT 'fallow:' || i, i, '', ?, 'p', 'pending', now()::TIMESTAMP, NULL, ? FROM range(?, ?) AS t(i)
"""


@pytest.mark.slow
def test_submitted_jobs_with_the_longest_commands_are_read_within_the_stores_memory(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb", Limits(memory="200MB")) as store:
        with store.writing("submitting") as connection:
            connection.execute(ADD, ["eve", json.dumps(LARGE), 0, 8_000])
        store.checkpoint()
        with store.reader() as connection:
            rows = run(connection, "submitted_jobs", ALWAYS)
    assert len(rows) == 8_000
    first = rows.slice(0, 1).to_pylist()[0]
    assert (first["min_gpus"], first["max_gpus"], first["share"], first["mobility"]) == (1, 4, 1.0, "rigid")
    assert (first["memory_bytes"], first["step_s"], first["may_share"]) == (None, None, False)


def test_of_each_user_the_newest_submissions_are_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        with store.writing("submitting") as connection:
            connection.execute(ADD, ["ann", '{"submission": {"name": "mine"}}', 0, 5])
            connection.execute(ADD, ["eve", "{}", 5, 25_005])
        with store.reader() as connection:
            rows = run(connection, "submitted_jobs", ALWAYS)
    users = rows["user_name"].to_pylist()
    assert (users.count("ann"), users.count("eve")) == (5, 20_000)
    assert "fallow:25004" in rows["job"].to_pylist()
