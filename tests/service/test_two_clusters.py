"""Two clusters with nodes of one name, as people read them. The figures are counted by hand in the world."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.query import run as ask
from collector.metrics_endpoint import gpu_labels
from collector.store.database import Store
from service.usecases.imports import now_apart, of_two_clusters
from tests.service.conftest import verb
from tests.service.two_clusters_world import (
    END_MS,
    INSTALLED,
    NODES,
    NOON_MS,
    USED,
    WASTED,
    fill,
    fill_one,
    gpus,
)
from tests.stores import open_store

WINDOW = {"from_ts": NOON_MS, "to_ts": END_MS}
SPAN = ("--since", "2026-11-01T12:00", "--until", "2026-11-01T15:00")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("clusters"))


@pytest.fixture(scope="module")
def store(data: Path) -> Iterator[Store]:
    with open_store(data / "fallow.duckdb") as opened:
        yield opened


def test_the_ledger_has_a_row_for_each_of_the_four_machines(store: Store) -> None:
    with store.reader() as reader:
        rows = {row["key"]: row for row in ask(reader, "ledger_by_node", WINDOW).to_pylist()}
    for column, expected in (("gpu", INSTALLED), ("wasted_gpu", WASTED), ("used_gpu", USED)):
        told = {node: round(row[f"{column}_hours"], 1) for node, row in rows.items()}
        assert told == expected, column


def test_what_is_shown_of_now_names_sixteen_gpus(store: Store) -> None:
    with store.reader() as reader:
        rows = ask(reader, "gpus_now", {}).to_pylist()
        chosen = ask(reader, "options", {}).to_pylist()
    assert sorted((row["node"], row["gpu_place"]) for row in rows) == [
        (n, str(i)) for n in NODES for i in range(4)
    ]
    assert [row["value"] for row in chosen if row["dimension"] == "node"] == list(NODES)


def test_metrics_name_the_node_as_the_store_does(store: Store) -> None:
    told = [gpu_labels(gpu) for gpu in store.names.told(gpus("b"))]
    assert {(each["node"], each["gpu"]) for each in told if each["index"] == "0"} == {
        ("gpu-1@b", "gpu-1@b:0"),
        ("gpu-2@b", "gpu-2@b:0"),
    }


def test_an_export_has_four_nodes(store: Store, tmp_path: Path) -> None:
    store.export(tmp_path, "csv", NOON_MS, NOON_MS + 60_000)
    for path in sorted(tmp_path.glob("*.csv")):
        with path.open() as file:
            nodes = {row["node"] for row in csv.DictReader(file)}
        assert nodes <= set(NODES) and len(nodes) >= 3, path.name


def test_one_cluster_reads_as_before(tmp_path: Path) -> None:
    with open_store(fill_one(tmp_path, "b") / "fallow.duckdb") as store, store.reader() as reader:
        rows = {
            row["key"]: row["wasted_gpu_hours"] for row in ask(reader, "ledger_by_node", WINDOW).to_pylist()
        }
        jobs = {row["key"] for row in ask(reader, "ledger_by_job", WINDOW).to_pylist()}
    assert rows == {"gpu-1": pytest.approx(12.0), "gpu-2": 0.0}
    assert jobs - {None} == {"pod:ml/train-0", "pod:ml/web-0"}


def test_an_import_says_what_nodes_are_called() -> None:
    assert of_two_clusters(["gpu-1 (a, b)"]) == (
        "1 name is of nodes in more than one cluster (gpu-1 (a, b)): each of these nodes is called by its "
        "cluster as well, gpu-1@CLUSTER, as jobs are"
    )
    assert now_apart(["gpu-1", "gpu-2"]).startswith(
        "What was stored of gpu-1, gpu-2 before is now under the name"
    )


@pytest.mark.slow
def test_verbs_tell_the_machines_apart(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    status = verb("status", data=folder).stdout
    assert all(f"{node}:{index}" in status for node in NODES for index in range(4))
    waste = verb("waste", *SPAN, data=folder).stdout
    assert "12.0 GPU-hours wasted" in waste and "train-0@b" in waste and "train-0@a" not in waste
    told = verb("job", "train-0@b", *SPAN, data=folder).stdout
    assert "gpu-1@b:0" in told and "gpu-1@a" not in told and "12.0 wasted (100%)" in told
    plain = verb("ledger", "--by", "node", "--node", "gpu-1", *SPAN, data=folder)
    assert "nearest: gpu-1@a, gpu-1@b" in plain.stderr
    assert "gpu-1@a:0, gpu-1@b:0" in verb("explain", "gpu-1:0", data=folder).stderr
