"""Writes ``collector/store/schema/base.sql``, which makes a new store, from the numbered migrations.

An older store is brought up by the migrations that it lacks, and both end with the same schema. Migrations
alone take much longer, for many of them replace what an earlier one made.

    python -m tests.collector.store.base_schema

To be run after a migration was added; ``test_store_base.py`` fails until it was.
"""

import re
from collections.abc import Iterator, Mapping

import duckdb

from collector.store.migrations import apply
from collector.store.statements import BASE, migrations

COMMAND = "python -m tests.collector.store.base_schema"
HEAD = f"""\
-- The whole schema of a new store: what the numbered files of this folder come to. Never edited; written by
--     {COMMAND}
-- What a column means, and why something is as it is, say the numbered files and docs/schema.md.
"""
NAMED = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:MACRO|VIEW)\s+(\w+)", re.IGNORECASE)
COMMENTS_BEFORE = re.compile(r"\A(?:\s*--[^\n]*\n|\s+)*")
TABLES = "SELECT sql FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"


def by_migrations(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the schema by one migration after the other."""
    for migration in migrations():
        apply(connection, *migration)


def made() -> str:
    """The text of the base script."""
    with duckdb.connect() as connection:
        by_migrations(connection)
        parts = [
            "\n".join(_column(connection, "SELECT sql FROM duckdb_sequences() ORDER BY sequence_name")),
            *map(_one_column_a_line, _column(connection, TABLES)),
            *_column(connection, "SELECT sql FROM duckdb_indexes() ORDER BY index_name"),
            *_in_order(_macros_and_views(connection)),
            *_rows(connection),
        ]
    return HEAD + "\n" + "\n\n".join(parts) + "\n"


def _column(connection: duckdb.DuckDBPyConnection, question: str) -> list[str]:
    return [row[0] for row in connection.execute(question).fetchall()]


def _one_column_a_line(sql: str) -> str:
    """A ``CREATE TABLE`` of the catalog, broken at commas that are in no brackets or quotes."""
    head, _, body = sql.removesuffix(";").partition("(")
    lines, depth, quote = [""], 0, ""
    for each in body.removesuffix(")"):
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
        depth += (each in "([") - (each in ")]") if not quote else 0
        if each == "," and not quote and depth == 0:
            lines.append("")
        else:
            lines[-1] += each
    return f"{head} (\n" + ",\n".join(f"    {line.strip()}" for line in lines) + "\n);"


def _macros_and_views(connection: duckdb.DuckDBPyConnection) -> Mapping[str, str]:
    """The last text of each that is there in the end, by name, in the words of its migration."""
    there = set(_column(connection, "SELECT function_name FROM duckdb_functions() WHERE NOT internal"))
    there |= set(_column(connection, "SELECT view_name FROM duckdb_views() WHERE NOT internal"))
    texts = {}
    for _, _, script in migrations():
        for each in connection.extract_statements(script):
            text = COMMENTS_BEFORE.sub("", each.query)
            if (found := NAMED.match(text)) and found[1] in there:
                texts[found[1]] = NAMED.sub(lambda it: it[0].replace(" OR REPLACE", ""), text, count=1)
    if missing := there - set(texts):
        raise LookupError(f"no migration's own statement makes {sorted(missing)}")
    return {name: f"{text.strip().removesuffix(';')};" for name, text in texts.items()}


def _in_order(texts: Mapping[str, str]) -> Iterator[str]:
    """Each after those that it names."""
    said: set[str] = set()

    def say(name: str, beneath: tuple[str, ...]) -> Iterator[str]:
        if name in beneath:
            raise LookupError(f"{' needs '.join((*beneath, name))}")
        if name not in said:
            for other in sorted(set(re.findall(r"\w+", texts[name])) & set(texts) - {name}):
                yield from say(other, (*beneath, name))
            said.add(name)
            yield texts[name]

    for name in sorted(texts):
        yield from say(name, ())


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The rows that a new store begins with; last those that say which migrations this is."""
    tables = _column(connection, "SELECT table_name FROM duckdb_tables() WHERE NOT internal")
    for table in sorted(set(tables) - {"schema_migrations"}):
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            yield f"INSERT INTO {table} VALUES ({', '.join(map(_literal, row))});"
    done = ",\n".join(f"    ({number}, {_literal(name)})" for number, name, _ in migrations())
    yield f"INSERT INTO schema_migrations (number, name) VALUES\n{done};"


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | float():
            return str(value)
    raise TypeError(f"a new store's row has {value!r}: say here how it is written in SQL")


if __name__ == "__main__":
    BASE.write_text(made(), encoding="utf-8")
