"""Named SQL statements: ``sql/NAME.sql``, one question a file, parameters only."""

from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

_FOLDER = Path(__file__).parent
BASE = _FOLDER / "schema" / "base.sql"
"""What makes a new store; written from the migrations (docs/decisions/0119)."""


@cache
def statement(name: str) -> str:
    """The text of ``sql/NAME.sql``."""
    return (_FOLDER / "sql" / f"{name}.sql").read_text(encoding="utf-8")


_parsed: dict[str, duckdb.Statement] = {}


def parsed(connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.Statement:
    """The same, parsed once by any connection: for a long statement that a tick waits for.

    ``rollup_minutes`` takes 3 ms to parse.
    """
    if name not in _parsed:
        (_parsed[name],) = connection.extract_statements(statement(name))
    return _parsed[name]


def feed(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Run a statement that reads ``rows`` once, as the table ``incoming``.

    DuckDB finds the variable by its name; registering it would cost two catalog changes, 1.7 ms. A reader
    is taken as it comes, where a table goes through a scanner that costs 0.8 ms a statement.
    """
    incoming = rows.to_reader()  # noqa: F841
    connection.execute(statement(name))


@cache
def migrations() -> tuple[tuple[int, str, str], ...]:
    """Number, name and text of each ``schema/NNN_name.sql``, in their order."""
    paths = sorted((_FOLDER / "schema").glob("[0-9][0-9][0-9]_*.sql"))
    return tuple((int(path.stem[:3]), path.stem[4:], path.read_text(encoding="utf-8")) for path in paths)


@cache
def base() -> str:
    """The text of the script that makes a new store, the rows of ``schema_migrations`` with it."""
    return BASE.read_text(encoding="utf-8")
