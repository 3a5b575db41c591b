"""Looks through a whole store for damage, and makes a new file of what can be read of a damaged one.

For when no service runs. Nothing is deleted and no byte of a damaged file is changed: it stays beside the new
one. What the file's head or its list of tables has lost cannot be made up for here.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from collector.store.block_check import BLOCK_BYTES, damaged_blocks
from collector.store.connection import Limits, connect
from collector.store.errors import SALVAGED, StoreDamaged, translated
from collector.store.log_damage import (
    aside_name,
    cut_damaged_log,
    is_log_damage,
    log_path,
    note_damaged_log,
)
from collector.store.migrations import RECORD, applied_migrations
from collector.store.ownership import Ownership
from collector.store.salvage_derived import make_up
from collector.store.sealed_check import damaged_groups
from collector.store.sealing import broken_days
from collector.store.statements import migrations
from collector.store.table_copy import TableCopy, copy_table, number

DRAFT = ".salvaging"
"""The new file while it is being written; worthless after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a store that was read whole; ``trouble`` is what is wrong with it, ``None``: nothing."""

    part: str
    content: str
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What was done: where the damaged file is kept (``None``: none was replaced), and each table's fate."""

    aside: Path | None = None
    tables: tuple[TableCopy, ...] = ()


def look_through(path: Path, limits: Limits | None = None) -> Iterator[Part]:
    """Read all of the store and of its sealed days. Changes nothing; blocks.

    Raises StoreError where another process has it open, OSError where the file cannot be read.
    """
    try:
        with translated("looking through the store", path):
            connection = connect(path, limits or Limits(), read_only=True)
    except StoreDamaged as error:
        cause = error.__cause__ or error
        part = "log" if is_log_damage(cause) else "file"
        yield Part(part=part, content="it cannot be opened", trouble=str(cause).splitlines()[0])
        return
    with closing(connection):
        bad_tables = 0
        for table in _tables(connection):
            part_read = _read(connection, table)
            bad_tables += part_read.trouble is not None
            yield part_read
        yield _blocks(path, bad_tables)
        yield from _sealed(connection, path.parent)


def salvage(path: Path, limits: Limits | None = None) -> Salvage:
    """Make the store one that can be read whole; a damaged log is set aside in any case. Blocks.

    Needs as much room beside the file as it has. A salvage that was cut short is taken up again. Raises
    StoreError; StoreDamaged where the file's head or its list of tables is what is damaged.
    """
    limits = limits or Limits()
    with translated("salvaging the store", path):
        owner = Ownership(path)
        try:
            ready, draft = path.with_name(path.name + SALVAGED), path.with_name(path.name + DRAFT)
            tables: tuple[TableCopy, ...] = ()
            if not ready.exists():
                _pass_log_damage(path, limits)
                if _is_sound(path, limits):
                    return Salvage()
                draft.unlink(missing_ok=True)
                log_path(draft).unlink(missing_ok=True)
                try:
                    tables = _copied(path, draft, limits)
                except StoreDamaged:
                    draft.unlink(missing_ok=True)
                    raise
                _sync(draft)
                draft.rename(ready)
            return Salvage(aside=_replace(path, ready), tables=tables)
        finally:
            owner.release()


def _pass_log_damage(path: Path, limits: Limits) -> None:
    """Set a log aside that cannot be played back, with its sound beginning in its place."""
    for keeps_beginning in (True, False):
        try:
            connect(path, limits, read_only=True).close()
        except duckdb.Error as error:
            if not is_log_damage(error):
                raise
            if keeps_beginning:
                note_damaged_log(cut_damaged_log(path, str(error)))
            else:
                log_path(path).unlink(missing_ok=True)
        else:
            return


def _is_sound(path: Path, limits: Limits) -> bool:
    with closing(connect(path, limits, read_only=True)) as connection:
        tables_are = all(_read(connection, table).trouble is None for table in _tables(connection))
    return tables_are and not damaged_blocks(path)


def _copied(path: Path, draft: Path, limits: Limits) -> tuple[TableCopy, ...]:
    """Fill ``draft`` with all that can be read."""
    with closing(connect(path, limits, read_only=True)) as old:
        applied, there = _applied(old), frozenset(_tables(old))
    with closing(connect(draft, limits, read_only=False)) as made:
        made.execute(RECORD)
        for each, _, script in migrations():
            if each in applied:
                made.execute(script)
        # Only tables are copied: a view of a table's name runs what its maker wrote, as whoever salvages.
        if absent := [table for table in _tables(made) if table not in there]:
            raise StoreDamaged(
                f"salvaging the store: it has no table {', '.join(absent)}, as a store of its version has; "
                "it is no store of Fallow, or its list of tables is damaged. Restore a backup. Nothing was "
                "changed"
            )
        made.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS old (READ_ONLY)")
        copies = tuple(copy_table(made, "old", table) for table in _tables(made))
        made.execute("DETACH old")
        make_up(made, path, copies, applied)
        made.execute("CHECKPOINT")
    return copies


def _applied(old: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """The migrations that made the file; by its columns, where the table that says so is damaged.

    Raises StoreDamaged where no version of Fallow made such columns.
    """
    try:
        return applied_migrations(old)
    except duckdb.Error:
        wanted = _columns(old)
    found: frozenset[int] = frozenset()
    played: set[int] = set()
    with duckdb.connect() as made:
        made.execute(RECORD)
        for each, _, script in migrations():
            made.execute(script)
            played.add(each)
            if _columns(made) == wanted:
                found = frozenset(played)
    if not found:
        raise StoreDamaged(
            "salvaging the store: the table that says which version made it is damaged, and its columns are "
            "of no version that this Fallow knows; restore a backup, or try the Fallow that wrote it. "
            "Nothing was changed"
        )
    return found


def _replace(path: Path, ready: Path) -> Path:
    """Give the new file the store's name; the old one and its log keep each other under another."""
    aside = aside_name(path)
    if log_path(path).exists():
        log_path(path).rename(log_path(aside))
    if path.exists():
        ready.chmod(path.stat().st_mode & 0o777)
        path.rename(aside)
    ready.rename(path)
    _sync(path.parent)
    return aside


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _columns(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, ...]]:
    rows = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"
    ).fetchall()
    return frozenset(rows)


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() "
        "AND schema_name = 'main' AND NOT temporary ORDER BY table_name"
    ).fetchall()
    return [name for (name,) in rows]


def _read(connection: duckdb.DuckDBPyConnection, table: str) -> Part:
    try:
        named = table.replace('"', '""')  # the file may be anybody's
        rows = number(connection, f'SELECT count(hash(each)) FROM "{named}" AS each')
    except duckdb.Error as error:
        trouble = str(error).splitlines()[0]
        return Part(part=f"table {table}", content="it cannot be read whole", trouble=trouble)
    return Part(part=f"table {table}", content=f"{rows:,} rows")


def _blocks(path: Path, bad_tables: int) -> Part:
    """What reading the tables doesn't show: indexes above all."""
    blocks = damaged_blocks(path)
    trouble = None
    if blocks:
        whose = "the tables above, an index" if bad_tables else "an index"
        trouble = f"damaged are {', '.join(map(str, blocks))}: of {whose}, or free"
    return Part(
        part="blocks",
        content=f"{path.stat().st_size // BLOCK_BYTES:,} of {BLOCK_BYTES >> 10} KiB",
        trouble=trouble,
    )


def _sealed(connection: duckdb.DuckDBPyConnection, folder: Path) -> Iterator[Part]:
    try:
        broken = broken_days(connection, folder)
        rows = connection.execute("SELECT path, samples FROM sealed ORDER BY day").fetchall()
    except duckdb.Error:
        return  # the table is damaged, which was said; without it nobody knows which days there are
    for path, samples in rows:
        groups = () if path in broken else damaged_groups(folder / path)
        trouble = f"{len(groups)} of its row groups cannot be read" if groups else broken.get(path)
        yield Part(part=path, content=f"{samples:,} samples", trouble=trouble)
