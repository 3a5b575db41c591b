"""A whole store is looked through for damage, and of a damaged one is kept what can be read."""

import shutil
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

from collector.store.block_check import BLOCK_BYTES, HEADER_BYTES, damaged_blocks
from collector.store.database import Store, open_store
from collector.store.errors import SALVAGED, StoreDamaged, StoreError
from collector.store.salvage import look_through, salvage
from collector.store.salvage_derived import SEQUENCES
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, sample, tick
from tests.service.conftest import verb

pytestmark = pytest.mark.slow
TICKS, GPUS = 40, 4
MANY = 500_000
"""Rows of samples: four row groups of DuckDB, and one that is not full."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which each table that has rows has blocks of its own."""
    made = at_path(tmp_path_factory.mktemp("small"))
    with open_store(made) as store:
        for n in range(TICKS):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(gpu, at, energy_mj=n * 7919 + gpu) for gpu in range(GPUS)]))
    return made


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = at_path(tmp_path_factory.mktemp("large"))
    with open_store(made) as store:
        store.write_tick(tick(T0, [sample(gpu, T0) for gpu in range(GPUS)]))
        with store.writing("filling it") as connection:
            connection.execute(
                "INSERT INTO samples BY NAME SELECT epoch_ms(? + (1 + i // 4) * ?) AS ts, 1 + i % 4 AS "
                "gpu_id, 10000 AS width_ms, 1 AS rung, hash(i) % 1000000007 AS energy_mj FROM range(?) AS "
                "t(i)",
                [T0, TICK_MS, MANY],
            )
    return made


@pytest.fixture
def path(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(small, tmp_path))


def blocks_of(path: Path) -> dict[str, set[int]]:
    """Which blocks hold rows of which table, as DuckDB tells."""
    found: dict[str, set[int]] = defaultdict(set)
    with duckdb.connect(str(path), read_only=True) as connection:
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            rows = connection.execute(f"SELECT block_id FROM pragma_storage_info('{table}')").fetchall()
            found[table] |= {block for (block,) in rows if block is not None and block >= 0}
    return found


def spoil(path: Path, block: int, within: int = 3_000) -> None:
    """Flip a bit of a block."""
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + block * BLOCK_BYTES + within] ^= 0x10
    path.write_bytes(content)


def troubles(path: Path) -> list[str]:
    return [each.part for each in look_through(path) if each.trouble is not None]


def samples(store: Store) -> int:
    return int(ask(store, "SELECT count(*) FROM samples")[0][0])


def goes_on(path: Path) -> None:
    """A service measures into it: GPUs that it knows and a new one."""
    with open_store(path) as store:
        before = samples(store)
        for n in range(1, 20):
            at = T0 + (TICKS + n) * TICK_MS
            store.write_tick(tick(at, [sample(gpu, at) for gpu in (0, 1, 60)]))
        store.checkpoint()
        assert samples(store) == before + 3 * 19
        ids = ask(store, "SELECT count(*), count(DISTINCT gpu_id), count(DISTINCT uuid) FROM gpus")[0]
        assert ids[0] == ids[1] == ids[2]


def test_a_sound_store_is_left_as_it_is(path: Path) -> None:
    content = path.read_bytes()
    assert troubles(path) == [] and path.read_bytes() == content
    assert salvage(path).aside is None and path.read_bytes() == content
    done = verb("store", "check", data=path.parent)
    assert done.returncode == 0 and "All of it can be read." in done.stdout


@pytest.mark.long
def test_each_block_may_be_damaged_and_the_rest_is_kept(small: Path, tmp_path: Path) -> None:
    """All but the first, which holds the list of tables: rows' blocks, an index's, free ones."""
    owners, tried = blocks_of(small), 0
    count = (small.stat().st_size - HEADER_BYTES) // BLOCK_BYTES
    for block in range(1, count):
        path = at_path(tmp_path / str(block))
        path.parent.mkdir()
        shutil.copy(small, path)
        spoil(path, block)
        damaged = path.read_bytes()
        hit = {table for table, blocks in owners.items() if block in blocks}
        assert damaged_blocks(path) == (block,)
        assert set(troubles(path)) == {"blocks", *(f"table {table}" for table in hit)}
        result = salvage(path)
        assert result.aside is not None and result.aside.read_bytes() == damaged
        assert {each.table for each in result.tables if each.lost} == hit
        assert all(each.kept == each.rows for each in result.tables if each.table not in hit)
        assert troubles(path) == []
        goes_on(path)
        tried += bool(hit)
    assert tried > 6


def test_a_damaged_block_of_a_large_table_costs_few_rows_and_says_which(large: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(large, tmp_path))
    with duckdb.connect(str(path), read_only=True) as connection:
        segments = connection.execute(
            "SELECT row_group_id, block_id, start, count FROM pragma_storage_info('samples') "
            "WHERE column_name = 'energy_mj' AND block_id >= 0 ORDER BY row_group_id, start"
        ).fetchall()
        before = sum(row[3] for row in segments if row[0] < 2)
        first = next(row for row in segments if row[0] == 2)
    spoil(path, first[1])
    result = salvage(path)
    (copy,) = (each for each in result.tables if each.lost)
    assert copy.table == "samples" and copy.rows == MANY + GPUS
    lost = copy.rows - copy.kept
    assert first[3] <= lost <= first[3] + 2 * 2_048
    (span,) = copy.lost
    assert span.to_row - span.from_row == lost and abs(span.from_row - before - GPUS) <= 2_048
    with duckdb.connect(str(large), read_only=True) as connection:
        told = connection.execute(
            "SELECT epoch_ms(min(ts)), epoch_ms(max(ts)) FROM samples WHERE rowid >= ? AND rowid < ?",
            [span.from_row, span.to_row],
        ).fetchone()
    assert told == (span.from_ms, span.to_ms)
    with open_store(path) as store:
        assert samples(store) == copy.kept
        gaps = ask(store, "SELECT epoch_ms(from_ts), epoch_ms(to_ts) FROM gaps WHERE reason LIKE '%damaged%'")
        assert gaps == [(span.from_ms, span.to_ms)]


def test_the_verb_says_what_is_damaged_and_what_was_lost(path: Path) -> None:
    spoil(path, min(blocks_of(path)["samples"]))
    damaged = path.read_bytes()
    seen = verb("store", "check", data=path.parent)
    assert seen.returncode == 1 and "✗ table samples" in seen.stdout and "Traceback" not in seen.stderr
    planned = verb("store", "salvage", data=path.parent)
    assert planned.returncode == 0 and "With --yes" in planned.stdout
    assert path.read_bytes() == damaged
    done = verb("store", "salvage", "--yes", data=path.parent)
    assert done.returncode == 0, done
    assert f"samples: 0 of {TICKS * GPUS} rows are kept" in done.stdout
    (aside,) = path.parent.glob("*.damaged-*")
    assert str(aside) in done.stdout and aside.read_bytes() == damaged
    goes_on(path)


@pytest.mark.parametrize("order", [("check",), ("salvage", "--yes")])
def test_a_table_s_name_is_no_statement(path: Path, order: tuple[str, ...]) -> None:
    written = path.with_name("written")
    name = f"gpus\"\" AS each; COPY (SELECT 1) TO '{written}'; SELECT 1 --"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f'CREATE TABLE "{name}" (a INTEGER)')
    looked = verb("store", *order, data=path.parent)
    assert looked.returncode == 0 and "Traceback" not in looked.stderr, looked
    assert not written.exists()


def test_what_is_no_table_of_a_store_is_not_read(path: Path, small: Path) -> None:
    """A view runs whatever its maker wrote into it, with the rights of who looks."""
    secret = path.with_name("secret")
    secret.write_text("not for anybody")
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP VIEW samples_all")
        connection.execute("DROP TABLE gaps")
        connection.execute(f"CREATE VIEW gaps AS SELECT content AS reason FROM read_text('{secret}')")
    block = next(iter(sorted(blocks_of(path)["samples"])))
    spoil(path, block)
    before = path.read_bytes()
    done = verb("store", "salvage", "--yes", data=path.parent)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    assert "has no table gaps" in done.stderr and "Nothing was changed" in done.stderr
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.glob("fallow.duckdb*") if "lock" not in each.name] == [
        path.name
    ]


def test_what_waits_in_the_log_is_kept_as_well(path: Path) -> None:
    with duckdb.connect(str(path), config={"wal_autocheckpoint": "1GB"}) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute("INSERT INTO prices VALUES ('H100', 2.5, 'EUR')")
    spoil(path, min(blocks_of(path)["ticks"]))
    result = salvage(path)
    assert result.aside is not None and result.aside.with_name(f"{result.aside.name}.wal").exists()
    with open_store(path) as store:
        assert ask(store, "SELECT per_gpu_hour FROM prices") == [(2.5,)]


def test_a_salvage_that_was_cut_short_is_ended_by_the_next(small: Path, path: Path) -> None:
    """The new file was whole, and the damaged one had its name still, or none any more."""
    spoil(path, min(blocks_of(path)["samples"]))
    ready = path.with_name(path.name + SALVAGED)
    for is_renamed in (False, True):
        shutil.copy(small, ready)
        if is_renamed:
            path.unlink()
        with pytest.raises(StoreDamaged, match="fallow store salvage --yes"):
            open_store(path)
        salvage(path)
        assert not ready.exists() and troubles(path) == []
        goes_on(path)


def test_a_sealed_day_is_found_again_where_the_list_of_them_is_lost(path: Path) -> None:
    with open_store(path) as store:
        (day,) = store.seal_days(T0 // 86_400_000 * 86_400_000 + 86_400_000)
        before = ask(store, "SELECT count(*), sum(energy_mj) FROM samples_all")
    spoil(path, min(blocks_of(path)["sealed"]))
    salvage(path)
    with open_store(path) as store:
        assert store.remarks == () and (path.parent / day.path).exists()
        assert ask(store, "SELECT count(*), sum(energy_mj) FROM samples_all") == before


def test_gpus_whose_rows_are_lost_are_named_by_the_sealed_days(path: Path) -> None:
    names = "SELECT gpu_id, uuid FROM gpus ORDER BY ALL"
    with open_store(path) as store:
        store.seal_days(T0 // 86_400_000 * 86_400_000 + 86_400_000)
        before = ask(store, names)
    spoil(path, min(blocks_of(path)["gpus"]))
    salvage(path)
    with open_store(path) as store:
        assert ask(store, names) == before
    goes_on(path)
    with open_store(path) as store:
        node = ask(store, "SELECT node, model FROM gpus WHERE gpu_id = 1")
        assert node == [("n0", "H100")]


def test_numbers_are_not_given_twice(path: Path) -> None:
    """Each sequence of the schema is known to the salvage."""
    with duckdb.connect(str(path), read_only=True) as connection:
        names = connection.execute("SELECT sequence_name FROM duckdb_sequences()").fetchall()
    assert {name for (name,) in names} == set(SEQUENCES)


@pytest.mark.parametrize("content", [b"", b"x" * 9_000], ids=["cut off", "garbage"])
def test_a_file_that_is_no_store_is_said_without_a_traceback(path: Path, content: bytes) -> None:
    path.write_bytes(content or path.read_bytes()[:5_000])
    for words in (("check",), ("salvage", "--yes")):
        done = verb("store", *words, data=path.parent)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done
    with pytest.raises(StoreError, match="fallow store"):
        open_store(path)


def test_a_store_that_a_service_has_is_left_to_it(path: Path) -> None:
    with open_store(path):
        done = verb("store", "salvage", "--yes", data=path.parent)
        seen = verb("store", "check", data=path.parent)
    assert done.returncode == 2 and "in use by another process; stop it" in done.stderr
    assert seen.returncode == 2 and "in use by another process; stop it" in seen.stderr
