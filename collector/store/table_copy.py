"""Copies a table out of an attached file that is damaged: the rows that can be read, and which cannot.

DuckDB keeps a table in row groups, a column of one in blocks of its own; a damaged block fails every read
that touches it. So a table that can't be read whole is read in pieces, which are halved until what is lost is
narrow. A row of which one column can't be read is lost as a whole: half a row might say what was never so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

PIECE_ROWS = 122_880
"""A full row group of DuckDB: where nothing is damaged, larger pieces are no faster."""
LEAST_ROWS = 2_048
"""DuckDB reads as many at once: halving further finds no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """Rows of a table that cannot be read: the places ``from_row`` to before ``to_row``, counted from 0.

    ``from_ms`` and ``to_ms`` are the times between which they lie, UTC, by their own times or those of the
    rows beside them; ``None`` where the table has no times or none can be read.
    """

    from_row: int
    to_row: int
    from_ms: int | None
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """What became of a table: rows that are kept, and of how many."""

    table: str
    kept: int
    rows: int
    lost: tuple[LostRows, ...] = ()


def copy_table(made: duckdb.DuckDBPyConnection, old: str, table: str) -> TableCopy:
    """Fill ``table`` with the rows of the attached database ``old``; rows that it began with stay where none
    is kept. Raises duckdb.Error where the new file cannot be written."""
    rows = number(made, f'SELECT count(*) FROM {old}.main."{table}"')
    if rows == 0:
        made.execute(f'DELETE FROM main."{table}"')
        return TableCopy(table=table, kept=0, rows=0)
    made.execute(f'CREATE OR REPLACE TEMP TABLE first_rows AS FROM main."{table}"')
    made.execute(f'DELETE FROM main."{table}"')
    gone = () if _copied(made, old, table, "") else tuple(_pieces(made, old, table))
    kept = number(made, f'SELECT count(*) FROM main."{table}"')
    if kept == 0:
        made.execute(f'INSERT INTO main."{table}" FROM first_rows')
    lost = tuple(_with_times(made, old, table, first, end) for first, end in joined(gone))
    return TableCopy(table=table, kept=kept, rows=rows, lost=lost)


def joined(spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Neighbours made one; ``spans`` are in order. Pure."""
    found: list[tuple[int, int]] = []
    for first, end in spans:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return tuple(found)


def number(connection: duckdb.DuckDBPyConnection, question: str) -> int:
    """The one number of an answer; 0 for no row or NULL."""
    row = connection.execute(question).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _pieces(made: duckdb.DuckDBPyConnection, old: str, table: str) -> Iterator[tuple[int, int]]:
    """Copies piece by piece; the spans that cannot be read."""
    end = number(made, f'SELECT max(rowid) + 1 FROM {old}.main."{table}"')
    waiting = [(first, min(first + PIECE_ROWS, end)) for first in range(0, end, PIECE_ROWS)][::-1]
    while waiting:
        first, after = waiting.pop()
        if _copied(made, old, table, _where(first, after)):
            continue
        if after - first > LEAST_ROWS:
            middle = first + (after - first) // 2
            waiting += [(middle, after), (first, middle)]
        elif number(made, f'SELECT count(*) FROM {old}.main."{table}"{_where(first, after)}'):
            yield first, after


def _copied(made: duckdb.DuckDBPyConnection, old: str, table: str, where: str) -> bool:
    """Whether these rows could be read; all of them are copied then, and none otherwise."""
    try:
        made.execute(f'SELECT count(hash(each)) FROM {old}.main."{table}" AS each{where}')
    except duckdb.Error:
        return False
    made.execute(f'INSERT INTO main."{table}" BY NAME SELECT * FROM {old}.main."{table}"{where}')
    return True


def _where(first: int, after: int) -> str:
    return f" WHERE rowid >= {first} AND rowid < {after}"


def _with_times(made: duckdb.DuckDBPyConnection, old: str, table: str, first: int, end: int) -> LostRows:
    column = _time_column(made, table)
    within = _times(made, old, table, column, (first, end))
    before = within or _times(made, old, table, column, (first - 1, first))
    after = within or _times(made, old, table, column, (end, end + 1))
    return LostRows(
        from_row=first,
        to_row=end,
        from_ms=None if before is None else before[0 if within else 1],
        to_ms=None if after is None else after[1 if within else 0],
    )


def _time_column(made: duckdb.DuckDBPyConnection, table: str) -> str | None:
    row = made.execute(
        "SELECT column_name FROM duckdb_columns() WHERE database_name = current_database() AND table_name = "
        "? AND data_type = 'TIMESTAMP' ORDER BY column_index LIMIT 1",
        [table],
    ).fetchone()
    return None if row is None else str(row[0])


def _times(
    made: duckdb.DuckDBPyConnection, old: str, table: str, column: str | None, span: tuple[int, int]
) -> tuple[int, int] | None:
    """The first and last time of these rows, UTC ms; ``None`` where there is none that can be read."""
    if column is None:
        return None
    try:
        row = made.execute(
            f'SELECT epoch_ms(min("{column}")), epoch_ms(max("{column}")) '
            f'FROM {old}.main."{table}"{_where(*span)}'
        ).fetchone()
    except duckdb.Error:
        return None
    return None if row is None or row[0] is None else (int(row[0]), int(row[1]))
