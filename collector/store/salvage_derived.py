"""What a salvaged store makes anew of what it lost: tables that larger ones tell, and names for numbers."""

from contextlib import suppress
from pathlib import Path

import duckdb

from collector.store.sealing import SEALED_FOLDER
from collector.store.statements import migrations, statement
from collector.store.table_copy import LostRows, TableCopy, number

SEQUENCES = {
    "gpu_ids": "gpu_id",
    "holder_ids": "holder_id",
    "process_ids": "process_id",
    "finding_ids": "finding_id",
}
"""Each sequence and the columns that bear its numbers: a new file's begins anew, and must not give one
twice."""
DERIVED = {
    "newest_tick": ("INSERT INTO newest_tick SELECT max(ts) FROM ticks",),
    "latest_times": ("INSERT INTO latest_times SELECT DISTINCT max(ts) FROM samples GROUP BY gpu_id",),
    "origin": (
        "INSERT INTO origin SELECT CASE WHEN bool_and(source = 'simulated') THEN 'simulated' ELSE 'real' "
        "END, min(installed_from) FROM gpus HAVING count(*) > 0",
    ),
    "watermarks": tuple(
        f"INSERT INTO watermarks SELECT '{level}', max(ts) + INTERVAL 1 {unit} FROM {level} HAVING count(*) "
        "> 0"
        for level, unit in (("rollup_1m", "MINUTE"), ("rollup_1h", "HOUR"), ("rollup_1d", "DAY"))
    ),
}
"""Small tables that are told by larger ones: what is lost of them is made anew."""
SAMPLES_LOST = "the store's file was damaged: these samples could not be read any more"


def make_up(
    made: duckdb.DuckDBPyConnection, path: Path, copies: tuple[TableCopy, ...], applied: frozenset[int]
) -> None:
    """Make anew, in the salvaged file, what follows from the rest; ``path`` is the store's own name.

    Lost samples become gaps. ``applied`` are the migrations that made the file. Raises duckdb.Error.
    """
    for copy in copies:
        if copy.lost and copy.table in DERIVED:
            made.execute(f'DELETE FROM "{copy.table}"')
            for order in DERIVED[copy.table]:
                made.execute(order)
        elif copy.lost and copy.table == "schema_migrations":
            made.execute("DELETE FROM schema_migrations")
            rows = [(each, name) for each, name, _ in migrations() if each in applied]
            made.executemany("INSERT INTO schema_migrations (number, name) VALUES (?, ?)", rows)
        elif copy.lost and copy.table == "sealed":
            _record_sealed(made, path.parent)
        elif copy.table == "samples":
            _note_gaps(made, copy.lost)
    if any(copy.lost for copy in copies if copy.table == "gpus"):
        _name_gpus(made, path.parent)
    for sequence, column in SEQUENCES.items():
        newest = max(number(made, f'SELECT max({column}) FROM "{table}"') for table in _bearing(made, column))
        made.execute(f"SELECT max(nextval('{sequence}')) FROM range({newest})")


def _record_sealed(made: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Record the days that lie in the folder, the newest file of each; one that is damaged is told later."""
    made.execute("DELETE FROM sealed")
    for day in sorted((folder / SEALED_FOLDER).glob("day=*")):
        files = sorted(day.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
        if files:
            newest = files[-1]
            try:
                widest = made.execute(
                    "SELECT max(width_ms), count(*) FROM read_parquet(?)", [str(newest)]
                ).fetchone()
            except duckdb.Error:
                widest = None
            record = {"day": day.name.removeprefix("day="), "path": newest.relative_to(folder).as_posix()}
            width_ms, samples = widest or (0, 0)
            sizes = {"samples": samples, "bytes": newest.stat().st_size, "widest_ms": width_ms or 0}
            made.execute(statement("record_sealed"), {**record, **sizes})


def _name_gpus(made: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Sealed days say which number is whose: GPUs whose row is lost get one with that, and are described when
    they are measured next."""
    for (path,) in made.execute("SELECT path FROM sealed ORDER BY day DESC").fetchall():
        with suppress(duckdb.Error):
            made.execute(
                "INSERT INTO gpus (gpu_id, uuid, node, source, installed_from) "
                "SELECT gpu_id, uuid, 'unknown', 'store', min(ts) FROM read_parquet(?) AS days "
                "WHERE NOT EXISTS (FROM gpus WHERE gpus.gpu_id = days.gpu_id OR gpus.uuid = days.uuid) "
                "GROUP BY gpu_id, uuid",
                [str(folder / path)],
            )


def _note_gaps(made: duckdb.DuckDBPyConnection, lost: tuple[LostRows, ...]) -> None:
    for span in lost:
        if span.from_ms is None or span.to_ms is None:
            continue
        gap = {"source": "store", "node": None, "gpu_id": None, "reason": SAMPLES_LOST}
        made.execute(statement("insert_gap"), {**gap, "from_ms": span.from_ms, "to_ms": span.to_ms})


def _bearing(connection: duckdb.DuckDBPyConnection, column: str) -> list[str]:
    rows = connection.execute(
        "SELECT table_name FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_name, table_name) "
        "WHERE database_name = current_database() AND column_name = ?",
        [column],
    ).fetchall()
    return [name for (name,) in rows]
