"""Every named query answers on a store in which nothing happened yet."""

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from analytics.query import catalogue, run
from tests.stores import open_store

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXPECTED_ROWS = {
    "span": 1,
    "judgement": 1,
    "cluster_now": 1,
    "charged_alike": 1,
    "ledger_by_state": 9,
    "measured_time": 1,
    "usage_over_time": 0,
    "waste": 1,
    "states_over_time": 0,
}


def test_every_query_answers_on_an_empty_store(tmp_path: Path) -> None:
    values = {
        "from_ts": NOON,
        "to_ts": NOON + timedelta(hours=2),
        "as_of": NOON,
        "since_ts": NOON,
        "step_s": 3600,
        "bins_from": NOON,
        "bins_to": NOON + timedelta(hours=1),
        "use_from": NOON,
        "samples_from": NOON,
        "gpu_ids": [1],
        "full_ratio": 0.9,
        "flat_ratio": 0.01,
    }
    rows, columns = {}, {}
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as reader:
        for name, spec in catalogue().items():
            given = {p.name: values.get(p.name, "x") for p in spec.parameters if p.required}
            table = run(reader, name, given)
            rows[name], columns[name] = table.num_rows, table.column_names
    assert rows == {name: EXPECTED_ROWS.get(name, 0) for name in catalogue()}
    assert columns == {name: [column.name for column in spec.columns] for name, spec in catalogue().items()}


@cache
def _page_rows() -> dict[str, str]:
    """The page's table: query name to what stands in its last column, ``a_{b,c}`` spelled out."""
    page = (Path(__file__).parents[2] / "docs" / "queries.md").read_text()
    rows: dict[str, str] = {}
    for line in page.splitlines():
        if line.startswith("| `"):
            name, columns = line.split("|")[1].strip(" `"), line.split("|")[-2]
            stem, _, choices = name.partition("{")
            for choice in choices.strip("}").split(","):
                rows[stem + choice] = columns
    return rows


def test_the_catalogue_page_names_every_query_and_no_other() -> None:
    assert sorted(_page_rows()) == sorted(catalogue())


def test_columns_on_the_catalogue_page_exist() -> None:
    unknown, incomplete = [], []
    for name, spec in catalogue().items():
        listed = [word for part in _page_rows()[name].split("`")[1::2] for word in part.split(", ")]
        declared = {column.name for column in spec.columns}
        unknown += [
            f"{name}: {word}"
            for word in listed
            if word not in declared and "*" not in word and word != "user_name"
        ]
        if len(listed) > 3 and set(listed) != declared and not name.endswith("timeline"):
            incomplete.append(f"{name} lists {sorted(listed)}, has {sorted(declared)}")
    assert unknown == []
    assert incomplete == []
