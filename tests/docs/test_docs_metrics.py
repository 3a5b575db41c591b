"""The pages that describe measures have all that the list of metrics has."""

from pathlib import Path

from collector.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"
WHEN = {"at_ms", "width_ms"}
"""No measures: the time that a sample covers. The store calls its end ``ts``."""


def test_a_stored_metric_is_described_with_its_column_and_with_where_it_comes_from() -> None:
    schema, measuring = ((DOCS / page).read_text() for page in ("schema.md", "measuring.md"))
    told = [each for each in METRICS if each.is_stored and each.name not in WHEN]
    assert not [each.column for each in told if f"`{each.column}`" not in schema]
    assert not [each.name for each in told if f"`{each.name}`" not in measuring]


def test_what_an_exporter_says_is_described_by_a_name_that_it_has() -> None:
    page = (DOCS / "dcgm.md").read_text()
    missing = [
        each.name
        for each in METRICS
        if each.dcgm and not any(f"`{name.format(0)}`" in page for name in each.dcgm)
    ]
    assert not missing, f"docs/dcgm.md has no name of {missing}"
