"""How the values of a query's parameters and rows are written as text; the same on both sides of the wire."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from collector.spreadsheet import as_it_was, as_text

__all__ = ["as_it_was", "as_text", "plain", "plain_rows", "to_text", "utc_text"]

if TYPE_CHECKING:
    import pyarrow as pa


def to_text(value: object) -> str:
    """A parameter as it stands in a URL: times as ISO 8601 UTC, truth as true or false."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return utc_text(value)
        case date():
            return value.isoformat()
        case _:
            return str(value)


def utc_text(value: datetime) -> str:
    """``2026-11-21T09:30:00Z``; a time without a zone is UTC, as everywhere in the store."""
    at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return at.isoformat().replace("+00:00", "Z")


def plain(value: object) -> object:
    """A cell as JSON can carry it: times as text, NaN and infinities (never measured values) as null."""
    match value:
        case datetime():
            return utc_text(value)
        case date():
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case float():
            return value if value - value == 0 else None
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case bytes():
            return value.hex()
        case _:
            return value


def plain_rows(table: "pa.Table") -> list[dict[str, object]]:
    """The rows of an Arrow table as JSON can carry them; text, whole numbers and truth are so already."""
    columns = [_plain_column(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_column(column: "pa.ChunkedArray") -> list[object]:
    from pyarrow import types

    values: list[object] = column.to_pylist()
    if any(holds(column.type) for holds in (types.is_string, types.is_integer, types.is_boolean)):
        return values
    return [None if value is None else plain(value) for value in values]
