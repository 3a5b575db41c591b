"""A sealed day that is damaged amid its pages costs the row groups that are, and it is said."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from collector.store import sealing
from collector.store.database import Store, open_read_only
from collector.store.errors import StoreDamaged
from collector.store.sealed_check import ASIDE, damaged_groups
from tests.collector.store.store_parts import ask, at_path, history, sample
from tests.stores import copy_of, open_store

DAY_MS, STEP_MS, GPUS = 86_400_000, 60_000, 4
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
ROWS = 500
COUNT = "SELECT gpu_id, count(*), sum(power_mw) FROM samples_all GROUP BY ALL ORDER BY 1"


def write_sealed(folder: Path) -> None:
    rows = [
        sample(gpu, D0 + n * STEP_MS, (n % 97) / 97, width_ms=STEP_MS, power_mw=100_000 + n * 7 % 9_973)
        for n in range(1, DAY_MS // STEP_MS)
        for gpu in range(GPUS)
    ]
    with open_store(at_path(folder)) as store:
        store.write_history(history(rows, source="nvml"))
        assert len(store.seal_days(D0 + DAY_MS)) == 1


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, Path]]:
    """A store with one sealed day of several row groups, and its file."""
    monkeypatch.setattr(sealing, "ROW_GROUP_ROWS", ROWS)
    copy_of(tmp_path, write_sealed)
    with open_store(at_path(tmp_path)) as store:
        ((path,),) = ask(store, "SELECT path FROM sealed")
        yield store, store.folder / path


def spoil(file: Path, group: int) -> None:
    """Overwrite the middle of a column of one row group."""
    metadata = pq.read_metadata(file).row_group(group)
    column = max(
        (metadata.column(n) for n in range(metadata.num_columns)), key=lambda c: c.total_compressed_size
    )
    content = bytearray(file.read_bytes())
    place = column.data_page_offset + column.total_compressed_size // 2
    content[place : place + 8] = bytes(255 - each for each in content[place : place + 8])
    file.write_bytes(bytes(content))


def test_a_sound_day_is_left_alone(sealed: tuple[Store, Path]) -> None:
    store, file = sealed
    before = ask(store, COUNT)
    assert pq.read_metadata(file).num_row_groups > GPUS
    assert (store.mend_sealed(), damaged_groups(file), ask(store, COUNT)) == ((), (), before)


@pytest.mark.parametrize("group", [0, 5])
def test_what_can_be_read_is_used_and_the_rest_is_a_gap(sealed: tuple[Store, Path], group: int) -> None:
    store, file = sealed
    before = {row[0]: row[1:] for row in ask(store, COUNT)}
    rows = pq.read_metadata(file).row_group(group).num_rows
    whose = set(pq.ParquetFile(file).read_row_group(group, columns=["gpu_id"])["gpu_id"].to_pylist())
    spoil(file, group)
    damaged = file.read_bytes()
    assert damaged_groups(file) == (group,)
    (told,) = store.mend_sealed()
    assert str(file) in told and "damaged" in told
    after = {row[0]: row[1:] for row in ask(store, COUNT)}
    assert sum(each[0] for each in before.values()) - sum(each[0] for each in after.values()) == rows
    assert {gpu for gpu in before if before[gpu] != after.get(gpu)} == whose
    gaps = ask(store, "SELECT gpu_id, to_ts > from_ts FROM gaps WHERE source = 'store' ORDER BY 1")
    assert {gpu for gpu, _ in gaps} == whose and all(longer for _, longer in gaps)
    assert file.with_name(file.name + ASIDE).read_bytes() == damaged
    assert store.mend_sealed() == ()
    store.close()
    with open_store(store.path) as again:
        assert again.remarks == () and {row[0]: row[1:] for row in ask(again, COUNT)} == after


@pytest.mark.parametrize(
    "path", ["/{out}", "../elsewhere.parquet", "sealed/day=2026-11-01/../../../elsewhere.parquet"]
)
def test_a_file_elsewhere_is_no_sealed_day(sealed: tuple[Store, Path], tmp_path: Path, path: str) -> None:
    """Whoever made a store wrote its paths: what lies elsewhere is not read, moved or removed."""
    store, file = sealed
    out = store.folder.parent / "elsewhere.parquet"
    out.write_bytes(file.read_bytes())
    spoil(out, 0)
    content, told = out.read_bytes(), path.format(out=str(out).lstrip("/"))
    store.together("a path", lambda connection: connection.execute("UPDATE sealed SET path = ?", [told]))
    store.mend_sealed()
    assert out.read_bytes() == content and list(out.parent.glob("elsewhere*")) == [out]
    sealing.remove_files(store.folder, [told])
    assert out.read_bytes() == content
    with store.reader() as connection:
        broken = sealing.broken_days(connection, store.folder)
    assert broken == {told: "is outside of the store's folder sealed: no day of it is read from there"}


def test_a_gap_lies_between_what_can_be_read_on_both_sides(sealed: tuple[Store, Path]) -> None:
    store, file = sealed
    times = pq.ParquetFile(file).read_row_group(1, columns=["gpu_id", "ts"])
    lost = [
        at for gpu, at in zip(times["gpu_id"].to_pylist(), times["ts"].to_pylist(), strict=True) if gpu == 1
    ]
    spoil(file, 1)
    store.mend_sealed()
    ((first, last),) = ask(
        store, "SELECT min(from_ts), max(to_ts) FROM gaps WHERE source = 'store' AND gpu_id = 1"
    )
    assert first <= min(lost) and last >= max(lost)


def test_an_export_of_a_damaged_day_brings_what_can_be_read(
    sealed: tuple[Store, Path], tmp_path: Path
) -> None:
    store, file = sealed
    for group in range(pq.read_metadata(file).num_row_groups):
        spoil(file, group)
    assert len(store.mend_sealed()) == 1
    exported = store.export(tmp_path / "out", "parquet", D0, D0 + DAY_MS)
    assert exported.rows[0] == 0
    assert ask(store, "SELECT count(*) FROM sealed") == [(0,)]


def test_an_export_looks_at_the_days_it_takes_first(sealed: tuple[Store, Path], tmp_path: Path) -> None:
    """DuckDB checks no page: a damaged one may be read as numbers that never were."""
    store, file = sealed
    (before,) = ask(store, "SELECT count(*) FROM samples_all")[0]
    content = bytearray(file.read_bytes())
    column = pq.read_metadata(file).row_group(0)
    power = next(
        column.column(n) for n in range(column.num_columns) if column.column(n).path_in_schema == "power_mw"
    )
    content[power.data_page_offset + power.total_compressed_size - 40] ^= 0x01
    file.write_bytes(bytes(content))
    path = store.path
    store.close()
    with open_read_only(path) as reading, pytest.raises(StoreDamaged, match="fallow store salvage"):
        reading.export(tmp_path / "out", "parquet", D0, D0 + DAY_MS)
    with open_store(path) as again:
        exported = again.export(tmp_path / "out", "parquet", D0, D0 + DAY_MS)
    assert exported.rows[0] == before - column.num_rows


def test_an_export_of_other_days_reads_no_damaged_one(sealed: tuple[Store, Path], tmp_path: Path) -> None:
    store, file = sealed
    spoil(file, 0)
    path = store.path
    store.close()
    with open_read_only(path) as reading:
        assert reading.export(tmp_path / "out", "parquet", D0 - DAY_MS, D0 - 1).rows[0] == 0
