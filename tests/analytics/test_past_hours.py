"""What is read from hours is what their minutes would have said, for questions that look back for weeks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics.query import Connection, checked, load, run
from collector.sources.simulated.cluster import SimulatedCluster
from tests.stores import open_store

START = datetime(2026, 11, 2, tzinfo=UTC).replace(tzinfo=None)
END = START + timedelta(days=3)
NEVER = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
WINDOWS = {
    "whole days": (START, END),
    "odd minutes": (START + timedelta(hours=5, minutes=17), END - timedelta(hours=3, minutes=41)),
    "within an hour": (START + timedelta(hours=30, minutes=3), START + timedelta(hours=30, minutes=50)),
    "hours that are not complete": (START + timedelta(hours=40), END),
}


@pytest.fixture(scope="module", params=[3, 8])
def simulated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """Three days of a node, shared GPUs and jobs that come and go within an hour among them."""
    cluster = SimulatedCluster(seed=request.param, nodes=2)
    begin_ms, end_ms = (round(at.replace(tzinfo=UTC).timestamp() * 1000) for at in (START, END))
    path = tmp_path_factory.mktemp("past") / "fallow.duckdb"
    with open_store(path) as store, store.reader() as reader:
        for history in cluster.history(begin_ms, end_ms, 30_000):
            store.write_history(history)
        yield reader


def told(reader: Connection, name: str, window: tuple[datetime, datetime], hours_to: datetime) -> Any:
    """The rows of a query that takes hours up to ``hours_to`` for granted."""
    spec = load(name)
    values = checked(spec, {"from_ts": window[0], "to_ts": window[1]}) | {"hours_to": hours_to}
    return reader.execute(spec.sql, values).to_arrow_table().to_pylist()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", ["idle_stretches", "past_jobs"])
def test_hours_tell_what_minutes_tell(simulated: Connection, name: str, window: str) -> None:
    marks = {row["name"]: row["complete_to"] for row in run(simulated, "marks").to_pylist()}
    hours_to = START + timedelta(hours=55) if window.endswith("complete") else marks["rollup_1h"]
    by_minutes = told(simulated, name, WINDOWS[window], NEVER)
    by_hours = told(simulated, name, WINDOWS[window], hours_to)
    assert len(by_minutes) > 3 or window == "within an hour"
    assert len(by_hours) == len(by_minutes)
    for one, other in zip(by_hours, by_minutes, strict=True):
        assert one == {key: pytest.approx(value) for key, value in other.items()}


def test_hours_that_an_older_version_made_have_their_minutes_read(simulated: Connection) -> None:
    hours_to = {row["name"]: row["complete_to"] for row in run(simulated, "marks").to_pylist()}["rollup_1h"]
    text = load("idle_stretches").sql
    assert text.count("JOIN worked_minutes") == 1
    values = checked(load("idle_stretches"), {"from_ts": START, "to_ts": END}) | {"hours_to": hours_to}
    for older in ("false", "gpu_id % 2 = 0", f"ts >= TIMESTAMP '{START + timedelta(days=1)}'"):
        kept = f"JOIN (SELECT * FROM worked_minutes WHERE {older})"
        found = simulated.execute(text.replace("JOIN worked_minutes", kept), values).to_arrow_table()
        assert found.to_pylist() == [
            {key: pytest.approx(value) for key, value in row.items()}
            for row in told(simulated, "idle_stretches", (START, END), hours_to)
        ]
