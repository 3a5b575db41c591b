"""Brings a file up to this program's schema: a new one by one script, an older one by numbered migrations.

Each migration is recorded in ``schema_migrations``, in the transaction that applies it.
"""

from pathlib import Path

import duckdb

from collector.store.connection import transaction
from collector.store.errors import StoreNewer, StoreOlder
from collector.store.statements import base, migrations

RECORD = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    applied_at TIMESTAMP NOT NULL DEFAULT CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP)
)
"""


def migrate(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Bring the file up to this program's schema. Raises StoreNewer for a schema from the future.

    A new file is made by the base script, in one transaction. An older one has a transaction for each
    migration that it lacks, so that what was done to much data stays done.
    """
    applied = applied_migrations(connection)
    refuse_newer(applied, path)
    if applied:
        for number, name, script in migrations():
            if number not in applied:
                with transaction(connection):
                    apply(connection, number, name, script)
    else:
        with transaction(connection):
            connection.execute(base())
            in_base = applied_migrations(connection)
            for number, name, script in migrations():
                if number not in in_base:  # while somebody works on it: a test wants it in the base script
                    apply(connection, number, name, script)


def apply(connection: duckdb.DuckDBPyConnection, number: int, name: str, script: str) -> None:
    """Run one migration and record it, within the caller's transaction."""
    connection.execute(RECORD)
    connection.execute(script)
    connection.execute("INSERT INTO schema_migrations (number, name) VALUES (?, ?)", [number, name])


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
