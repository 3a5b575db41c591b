"""The list of metrics holds together, and the store has what it declares."""

from dataclasses import fields
from pathlib import Path

import pytest

from collector.arrow import SAMPLE_SCHEMA
from collector.dcgm.vocabulary import measure_of
from collector.declared_metric import Simulated
from collector.metrics import METRICS, GpuSample
from collector.reading import Reading
from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import Store
from tests.stores import open_store

IN_THE_STORE = {
    "float": "SMALLINT",
    "uint8": "UTINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
}
NOT_METRICS = {"uuid", "flags"}


def test_every_field_of_a_sample_is_declared() -> None:
    assert [each.name for each in METRICS] == [
        each.name for each in fields(GpuSample) if each.name not in NOT_METRICS
    ]


def test_the_store_has_a_column_of_the_declared_type_for_each_metric(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        columns = _columns_of_samples(store)
    wanted = {
        each.column: IN_THE_STORE[each.arrow] for each in METRICS if each.is_stored and each.name != "at_ms"
    }
    assert columns == wanted | {"ts": "TIMESTAMP", "gpu_id": "INTEGER", "flags": "VARCHAR"}


def test_the_unit_at_the_end_of_a_name_is_one_that_is_known() -> None:
    units = ("ratio", "bytes", "mw", "mj", "c", "mhz", "ms")
    counts = {"rung", "throttle_reasons", "ecc_corrected", "ecc_uncorrected", "xid", "process_count"}
    strange = {each.name for each in METRICS if each.name.rpartition("_")[2] not in units} - counts
    assert not strange, f"no unit at the end, and no count: {strange}"


def test_a_ratio_is_a_float_and_nothing_else_is() -> None:
    assert all(each.is_ratio == (each.arrow == "float") for each in METRICS)


@pytest.mark.parametrize("what", ["exposed name", "column", "exporter's name", "column of nvidia-smi"])
def test_no_two_metrics_share_a_name(what: str) -> None:
    said = {
        "exposed name": [each.exposed.name for each in METRICS if each.exposed],
        "column": [each.column for each in METRICS],
        "exporter's name": [name for each in METRICS for name in each.dcgm],
        "column of nvidia-smi": [name for each in METRICS for name in each.smi],
    }[what]
    assert len(said) == len(set(said))


def test_the_first_name_of_an_exporter_is_believed_before_the_others() -> None:
    for metric in METRICS:
        found = [measure_of(f"DCGM_FI_DEV_{name.format(0)}") for name in metric.dcgm]
        assert all(measure is not None and measure.quantity == metric.name for measure in found)
        ranks = [measure.rank for measure in found if measure]
        assert ranks == sorted(ranks)


def test_all_engines_of_one_name_are_believed_alike() -> None:
    for metric in METRICS:
        for name in metric.dcgm:
            measures = [measure_of(f"DCGM_FI_PROF_{name.format(n)}") for n in range(max(metric.engines, 1))]
            assert len({measure.rank for measure in measures if measure}) == 1


def test_what_is_exposed_is_in_base_units() -> None:
    """Prometheus's conventions: a counter ends in _total; seconds, bytes, hertz, watts, joules."""
    ends = {"_mw": "_watts", "_mj": "_joules_total", "_mhz": "_hertz", "_c": "_celsius", "_ms": "_seconds"}
    for metric in METRICS:
        if metric.exposed is None:
            continue
        assert metric.exposed.is_counter == metric.exposed.name.endswith("_total")
        unit = next((ends[end] for end in ends if metric.name.endswith(end)), "")
        assert metric.exposed.name.endswith(unit), f"{metric.name} is {metric.exposed.name} on /metrics"
        assert metric.exposed.help.endswith(".")


def test_arrow_has_the_metrics_in_the_order_of_the_list() -> None:
    stored = [each.name for each in METRICS if each.is_stored]
    assert SAMPLE_SCHEMA.names == ["uuid", *stored, "flags"]


def test_the_simulated_cluster_says_what_the_list_has_of_it() -> None:
    reading = SimulatedCluster(seed=1, nodes=1, gpus_per_node=2).source().read(1_790_000_000_000)
    assert isinstance(reading, Reading)
    said = {each.name for each in METRICS if each.simulated is not Simulated.NOT_MEASURED}
    kept_with_it = {"at_ms", "width_ms", "rung", "memory_total_bytes"}
    for sample in reading.samples:
        assert (
            said == {each.name for each in METRICS if getattr(sample, each.name) is not None} - kept_with_it
        )
        zero = {each.name for each in METRICS if each.simulated is Simulated.ZERO}
        assert all(getattr(sample, name) == 0 for name in zero)


def _columns_of_samples(store: Store) -> dict[str, str]:
    with store.reader() as connection:
        rows = connection.execute("SELECT column_name, column_type FROM (DESCRIBE samples)").fetchall()
    return dict(rows)
