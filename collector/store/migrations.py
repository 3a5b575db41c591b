"""Brings a file up to this program's schema: numbered migrations, each with its record in one transaction."""

from pathlib import Path

import duckdb

from collector.store.errors import StoreNewer, StoreOlder
from collector.store.statements import migrations

RECORD = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    applied_at TIMESTAMP NOT NULL DEFAULT CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP)
)
"""


def migrate(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, ...]:
    """The numbers of the migrations applied now. Raises StoreNewer for a schema from the future."""
    applied = applied_migrations(connection)
    refuse_newer(applied, path)
    added = []
    for number, name, script in migrations():
        if number in applied:
            continue
        connection.execute("BEGIN")
        try:
            connection.execute(RECORD)
            connection.execute(script)
            connection.execute("INSERT INTO schema_migrations (number, name) VALUES (?, ?)", (number, name))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        added.append(number)
    return tuple(added)


def applied_migrations(connection: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """The numbers of the migrations that the file records; empty for a new file."""
    try:
        # duckdb_tables() would tell whether the table is there, and costs a quarter of opening a store.
        rows = connection.execute("SELECT number FROM schema_migrations").fetchall()
    except duckdb.CatalogException:
        return frozenset()
    return frozenset(row[0] for row in rows)


def refuse_newer(applied: frozenset[int], path: Path) -> None:
    """Raise StoreNewer when the file has migrations that this program has never heard of."""
    newest = migrations()[-1][0]
    ahead = sorted(number for number in applied if number > newest)
    if ahead:
        raise StoreNewer(
            f"opening {path}: its schema has version {ahead[-1]}, this Fallow knows {newest}; "
            "update Fallow, or choose another folder with --data. Nothing was changed."
        )


def refuse_older(applied: frozenset[int], path: Path) -> None:
    """Raise StoreOlder when the file lacks migrations, which reading it does not apply."""
    newest = migrations()[-1][0]
    if newest not in applied:
        raise StoreOlder(
            f"reading {path}: its schema has version {max(applied, default=0)}, this Fallow reads {newest}; "
            f"start the service on it once (`fallow serve --data {path.parent}`) to bring it up to date, "
            "or read it with the Fallow that wrote it. Nothing was changed."
        )
