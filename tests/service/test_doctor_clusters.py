"""Doctor says where one cluster seems to have two names, and says nothing of two clusters."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import History, to_table
from collector.store.database import Store
from service.doctor_checks.clusters import alike, clusters
from tests.collector.store.store_parts import at_path
from tests.service.two_clusters_world import LAST_MS, MINUTE_MS, gpus, past, sample
from tests.stores import open_store

HOUR_MS = 3_600_000


def seen_later(cluster: str, late_ms: int, boards: Iterable[str] = ("gpu-1", "gpu-2")) -> History:
    """A minute of a cluster's GPUs, so long after the world's end."""
    at_ms = LAST_MS + late_ms
    devices = [gpu for gpu in gpus(cluster) if gpu.node in boards]
    rows = to_table([sample(gpu, cluster, at_ms) for gpu in devices])
    return History(source="prometheus", gpus=tuple(devices), samples=rows)


def found(store: Store) -> list[tuple[object, ...]]:
    with store.reader() as reader:
        rows = run(reader, "clusters_alike").to_pylist()
    return [(row["told_by"], row["cluster"], row["other"], row["nodes"]) for row in rows]


def told(folder: Path) -> list[str]:
    return [f"{finding.found}; {finding.advice}" for finding in clusters(folder)]


def test_two_clusters_that_are_both_measured_are_two(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
        store.write_history(seen_later("b", 59 * MINUTE_MS))
        assert found(store) == [("label", "a", "b", 2)]
    assert told(tmp_path) == []


def test_a_cluster_whose_nodes_another_has_since_is_named_with_both_names(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
        store.write_history(seen_later("b", HOUR_MS))
    last = f"{datetime.fromtimestamp(LAST_MS / 1000, UTC):%Y-%m-%d %H:%M}"
    (said,) = told(tmp_path)
    assert said.startswith(
        f"2 nodes of the clusters a and b have one name, and nothing of a was measured since {last} UTC"
    )
    assert (
        "if it was, have the label say a: external_labels" in said
        and "if a is another cluster, nothing" in said
    )


@pytest.mark.parametrize(("name", "expected"), [("lab", [("slurm", "lab", "a", 1)]), ("A", [])])
def test_a_name_of_slurms_that_no_label_has_is_told_with_the_labels(
    tmp_path: Path, name: str, expected: list[tuple[object, ...]]
) -> None:
    """Slurm has gpu-1 and a node that nobody measures; the label of gpu-1's GPUs says a."""
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", suffixes=False, minutes=2))
        with store.writing("nodes of Slurm's") as connection:
            for node in ("gpu-1.site", "gpu-9"):
                connection.execute(
                    "INSERT INTO manager_nodes (manager, cluster, node, reason, partitions) "
                    "VALUES ('slurm', ?, ?, '', '')",
                    [name, node],
                )
        assert found(store) == expected
    said = told(tmp_path)
    assert len(said) == len(expected)
    assert all(
        "Slurm calls its cluster lab, the label of the GPUs on 1 node of it says a" in each for each in said
    )


def test_what_was_never_measured_says_nothing() -> None:
    row = {
        "cluster": "a",
        "other": "b",
        "told_by": "label",
        "nodes": 1,
        "last_ts": None,
        "other_last_ts": None,
    }
    assert alike(row) is None  # type: ignore[arg-type]
