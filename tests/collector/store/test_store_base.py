"""A new store is made by one base script, and is what an older one becomes by its migrations."""

from pathlib import Path

import duckdb
import pytest

from collector.store import migrations as module
from collector.store.database import open_store
from collector.store.migrations import applied_migrations, migrate
from collector.store.statements import BASE, base, migrations
from tests.collector.store import base_schema
from tests.collector.store.store_parts import at_path, older_file

CATALOG = {
    "duckdb_tables()": "schema_name, table_name, comment, temporary, has_primary_key, column_count, sql",
    "duckdb_columns()": "table_name, column_name, column_index, data_type, is_nullable, column_default",
    "duckdb_constraints()": "table_name, constraint_text, constraint_type",
    "duckdb_indexes()": "table_name, index_name, is_unique, is_primary, expressions, sql, comment",
    "duckdb_views()": "view_name, sql, comment, column_count",
    "duckdb_functions()": "function_name, function_type, parameters, parameter_types, macro_definition",
    "duckdb_sequences()": "sequence_name, start_value, min_value, max_value, increment_by, cycle, last_value",
    "duckdb_types()": "type_name, logical_type, labels",
}

HAS_INTERNAL = {
    "duckdb_tables()",
    "duckdb_columns()",
    "duckdb_views()",
    "duckdb_functions()",
    "duckdb_types()",
}
"""Of which the catalog also has DuckDB's own."""


def content(connection: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """All that a file is: its catalog, and each table's rows but for when a migration was applied."""
    found: dict[str, object] = {}
    for kind, what in CATALOG.items():
        ours = "NOT internal" if kind in HAS_INTERNAL else "true"
        found[kind] = connection.execute(f"SELECT {what} FROM {kind} WHERE {ours} ORDER BY ALL").fetchall()
    names = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL"
    for (table,) in connection.execute(names).fetchall():
        what = "number, name" if table == "schema_migrations" else "*"
        found[table] = connection.execute(f"SELECT {what} FROM {table} ORDER BY ALL").fetchall()
    return found


def test_the_base_script_is_what_the_migrations_come_to() -> None:
    told = (
        f"{BASE.name} is not what the migrations make: run `{base_schema.COMMAND}` and commit what it wrote"
    )
    assert base() == base_schema.made(), told


def test_a_new_store_is_what_the_oldest_becomes(tmp_path: Path) -> None:
    older_file(at_path(tmp_path), 1).close()
    found = []
    for path in (at_path(tmp_path), at_path(tmp_path / "new")):
        with open_store(path) as store, store.reader() as connection:
            found.append(content(connection))
    became, made = found
    assert made.keys() == became.keys() and len(made) > len(CATALOG)
    assert [kind for kind in made if made[kind] != became[kind]] == []
    empty = {kind for kind in CATALOG if not made[kind]}
    assert empty <= {"duckdb_indexes()", "duckdb_types()"}, f"nothing to compare in {empty}"
    assert made["schema_migrations"] == [(number, name) for number, name, _ in migrations()]


def test_a_migration_that_the_base_script_lacks_is_applied_to_a_new_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = (*migrations(), (999, "more", "CREATE TABLE more (word VARCHAR)"))
    monkeypatch.setattr(module, "migrations", lambda: more)
    with duckdb.connect() as connection:
        migrate(connection, Path("new"))
        assert applied_migrations(connection) == {number for number, _, _ in more}
        assert connection.execute("FROM more").fetchall() == []


def test_a_new_file_is_made_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (
        *migrations(),
        (999, "broken", "CREATE TABLE broken (word VARCHAR); SELECT nothing FROM nowhere"),
    )
    monkeypatch.setattr(module, "migrations", lambda: broken)
    with duckdb.connect() as connection:
        with pytest.raises(duckdb.CatalogException, match="nowhere"):
            migrate(connection, Path("new"))
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
        monkeypatch.undo()
        migrate(connection, Path("new"))
        assert applied_migrations(connection) == {number for number, _, _ in migrations()}
