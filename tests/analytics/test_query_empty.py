"""Every named query answers on a store in which nothing happened yet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.query import catalogue, run
from collector.store.database import open_store

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXPECTED_ROWS = {
    "span": 1,
    "cluster_now": 1,
    "ledger_by_state": 8,
    "usage_over_time": 0,
    "states_over_time": 0,
}


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_query_answers_on_an_empty_store(name: str, tmp_path: Path) -> None:
    spec = catalogue()[name]
    values = {
        "from_ts": NOON,
        "to_ts": NOON + timedelta(hours=2),
        "as_of": NOON,
        "step_s": 3600,
        "bins_from": NOON,
        "bins_to": NOON + timedelta(hours=1),
        "use_from": NOON,
        "samples_from": NOON,
        "gpu_ids": [1],
        "full_ratio": 0.9,
        "flat_ratio": 0.01,
    }
    given = {p.name: values.get(p.name, "x") for p in spec.parameters if p.required}
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        table = run(reader, name, given)
    assert table.num_rows == EXPECTED_ROWS.get(name, 0)
    assert table.column_names == [column.name for column in spec.columns]


def test_every_query_stands_in_the_catalogue_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "queries.md").read_text()
    keys = "node,gpu,user,project,job,framework,model,hour,day"
    page = page.replace(f"`ledger_by_{{{keys}}}`", " ".join(f"`ledger_by_{key}`" for key in keys.split(",")))
    assert [name for name in catalogue() if f"`{name}`" not in page] == []
