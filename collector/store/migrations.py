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
NOTE = "INSERT INTO schema_migrations (number, name) SELECT unnest($numbers), unnest($names)"


def migrate(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, ...]:
    """The numbers of the migrations applied now. Raises StoreNewer for a schema from the future.

    A new file is made in one transaction: with one for each, a third of the time goes into them. An older
    file has one each, so that what was done to much data stays done.
    """
    applied = applied_migrations(connection)
    refuse_newer(applied, path)
    due = [migration for migration in migrations() if migration[0] not in applied]
    for together in [[migration] for migration in due] if applied else [due]:
        connection.execute("BEGIN")
        try:
            connection.execute(RECORD)
            for _, _, script in together:
                connection.execute(script)
            numbers, names, _ = zip(*together, strict=True)
            connection.execute(NOTE, {"numbers": list(numbers), "names": list(names)})
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return tuple(number for number, _, _ in due)


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
