"""What nodes of one name in two clusters are called in the store, whoever tells of them, in which order."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from collector.model import Gap
from collector.reading import Reading, Tick
from collector.store.node_names import known_clusters, known_nodes
from tests.collector.store.store_parts import ask, at_path, older_file
from tests.service.two_clusters_world import LAST_MS, MINUTE_MS, NODES, gpus, past, sample, uuid
from tests.stores import open_store


def nodes_of(store: object, cluster: str) -> set[str]:
    rows = ask(store, "SELECT DISTINCT node FROM gpus WHERE uuid LIKE ?", f"GPU-{cluster}%")  # type: ignore[arg-type]
    return {node for (node,) in rows}


def live(*clusters: str, named: bool = True, minutes: int = 1) -> Tick:
    at_ms = LAST_MS + minutes * MINUTE_MS
    devices = [(gpu, each) for each in clusters for gpu in gpus(each, named=named)]
    reading = Reading(
        source="dcgm",
        at_ms=at_ms,
        gpus=tuple(gpu for gpu, _ in devices),
        samples=tuple(sample(gpu, each, at_ms) for gpu, each in devices),
    )
    return Tick(at_ms=at_ms, width_ms=MINUTE_MS, outcomes=(reading,))


def test_an_import_of_two_clusters_has_four_nodes(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
        assert (nodes_of(store, "a"), nodes_of(store, "b")) == (
            {"gpu-1@a", "gpu-2@a"},
            {"gpu-1@b", "gpu-2@b"},
        )
        with store.reader() as reader:
            assert known_nodes(reader) == set(NODES)
            assert known_clusters(reader)[uuid("b", "gpu-1", 0)] == "b"


def test_one_cluster_alone_has_plain_names(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", suffixes=False, minutes=2))
        assert nodes_of(store, "a") == {"gpu-1", "gpu-2"}
        assert store.names.shared == frozenset()


@pytest.mark.parametrize("by_tick", [False, True])
def test_a_second_cluster_later_renames_the_first_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, by_tick: bool
) -> None:
    """The old rows stay a's: each GPU keeps its number, and with it all of its past."""
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", suffixes=False, minutes=2))
        before = dict(ask(store, "SELECT uuid, gpu_id FROM gpus"))
        caplog.set_level(logging.WARNING)
        if by_tick:
            store.write_tick(live("a", "b"))
        else:
            store.write_history(past("b", minutes=2))
        assert (nodes_of(store, "a"), nodes_of(store, "b")) == (
            {"gpu-1@a", "gpu-2@a"},
            {"gpu-1@b", "gpu-2@b"},
        )
        after = dict(ask(store, "SELECT uuid, gpu_id FROM gpus"))
        assert before.items() <= after.items() and len(after) == 16
        told = [(record.__dict__["node"], record.__dict__["clusters"]) for record in caplog.records]
        assert sorted(told) == [("gpu-1", ["a", "b"]), ("gpu-2", ["a", "b"])]


def test_names_last_over_restarts_silences_and_sources_without_labels(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(live("a"))
        assert nodes_of(store, "a") == {"gpu-1@a", "gpu-2@a"}
        new = replace(gpus("a")[0], uuid=uuid("a", "gpu-1", 9), index=9)
        store.write_tick(
            replace(live(minutes=2), outcomes=(Reading(source="dcgm", at_ms=LAST_MS, gpus=(new,)),))
        )
        assert nodes_of(store, "a") == {"gpu-1@a", "gpu-2@a"}
        store.write_tick(live("a", named=False, minutes=3))
        assert nodes_of(store, "a") == {"gpu-1@a", "gpu-2@a"}
        assert {gpu.node for gpu in store.names.told(gpus("b"))} == {"gpu-1@b", "gpu-2@b"}


def test_a_cluster_that_is_called_otherwise_from_now_on_is_one_cluster(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", suffixes=False, minutes=2))
        renamed = tuple(replace(gpu, cluster="main") for gpu in gpus("a"))
        reading = Reading(source="dcgm", at_ms=LAST_MS, gpus=renamed)
        store.write_tick(Tick(at_ms=LAST_MS + MINUTE_MS, width_ms=MINUTE_MS, outcomes=(reading,)))
        assert nodes_of(store, "a") == {"gpu-1", "gpu-2"}


def test_a_store_of_before_learns_its_clusters_by_its_gpus(tmp_path: Path) -> None:
    """Both clusters were imported as one node each; the GPUs say later of which they are."""
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", named=False, minutes=2))
        assert (nodes_of(store, "a"), nodes_of(store, "b")) == ({"gpu-1", "gpu-2"}, {"gpu-1", "gpu-2"})
        store.write_tick(live("a", "b"))
        assert (nodes_of(store, "a"), nodes_of(store, "b")) == (
            {"gpu-1@a", "gpu-2@a"},
            {"gpu-1@b", "gpu-2@b"},
        )


def test_a_file_of_before_opens_and_its_nodes_have_their_names(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 100) as older:
        older.execute(
            "INSERT INTO gpus (uuid, node, source, installed_from) VALUES ('GPU-x', 'gpu-1', 's', now())"
        )
    with open_store(at_path(tmp_path)) as store:
        assert ask(store, "SELECT node, cluster, host FROM gpus") == [("gpu-1", None, None)]


def test_a_gap_is_of_the_node_of_its_cluster(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
        tick = live("a")
        gap = Gap(
            source="dcgm",
            from_ms=LAST_MS,
            to_ms=tick.at_ms,
            reason="no answer",
            node=gpus("b")[0].node,
            cluster="b",
        )
        store.write_tick(replace(tick, gaps=(gap,)))
        assert ("gpu-1@b",) in ask(store, "SELECT node FROM gaps WHERE reason = 'no answer'")


def test_a_machine_of_one_cluster_that_left_is_gone_though_the_others_is_there(tmp_path: Path) -> None:
    """An hour after a source names a's machines alone, those of b are gone, as if names were different."""
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", "b", minutes=2))
        for minutes in (1, 2, 63):
            store.write_tick(live(*("ab" if minutes == 1 else "a"), minutes=minutes))
        gone = ask(store, "SELECT uuid FROM gpus WHERE installed_to IS NOT NULL")
        assert {each[:5] for (each,) in gone} == {"GPU-b"} and len(gone) == 8
