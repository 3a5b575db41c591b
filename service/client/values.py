"""How the values of a query's parameters and rows are written as text; the same on both sides of the wire."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


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


def plain(value: Any) -> Any:
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


def plain_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON can carry them."""
    return [{key: plain(value) for key, value in row.items()} for row in rows]
