"""The types of named queries' rows are those of the queries' headers, and what a header promises is so."""

from pathlib import Path

from analytics.query import catalogue
from tests.service.rows_stub import written

STUB = Path(__file__).parents[2] / "service" / "schemas" / "rows.pyi"


def test_types_of_rows_are_written_from_the_headers() -> None:
    assert STUB.read_text() == written(), "python -m tests.service.rows_stub > service/schemas/rows.pyi"


def test_a_promised_column_is_a_column() -> None:
    for spec in catalogue().values():
        assert spec.never_null <= {each.name for each in spec.columns}, spec.name
