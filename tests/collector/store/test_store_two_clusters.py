"""What nodes of one name in two clusters are called in the store, whoever tells of them, in which order."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from collector.model import Allocation, ClaimSource, Gap, Holder, JobId
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.node_names import known_clusters, known_nodes
from tests.collector.store.store_parts import ask, at_path, older_file
from tests.service.two_clusters_world import LAST_MS, MINUTE_MS, NODES, gpus, holder, past, sample, uuid
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
        told = [(each.node, each.clusters) for each in caplog.records if hasattr(each, "node")]
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


def jobs_of(store: Store) -> dict[str, set[str]]:
    """Which GPUs each job ever held, by cluster and node."""
    rows = ask(
        store, "SELECT job, uuid FROM allocations JOIN holders USING (holder_id) JOIN gpus USING (gpu_id)"
    )
    told: dict[str, set[str]] = {}
    for job, gpu in rows:
        told.setdefault(job, set()).add(gpu[4:6])
    return told


def test_jobs_that_were_stored_before_go_on_under_their_clusters_name(tmp_path: Path) -> None:
    """The job of a has one id for all its time, and is as old as it was."""
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past("a", suffixes=False, minutes=2))
        assert jobs_of(store) == {"pod:ml/train-0": {"a1"}}
        before = ask(store, "SELECT holder_id, first_seen FROM holders")
        with store.writing("replies") as connection:
            for job in ("pod:ml/train-0", "pod:ml/other"):
                connection.execute(
                    "INSERT INTO consents VALUES (now(), 'ann', ?, 'pause', false, NULL)", [job]
                )
                connection.execute("INSERT INTO keeps VALUES (?, now(), now(), 'ann')", [job])
                connection.execute("INSERT INTO tellings VALUES (?, now(), 'idle', 'm', NULL)", [job])
        store.write_history(past("a", "b", minutes=2))
        assert jobs_of(store) == {
            "pod:ml/train-0@a": {"a1"},
            "pod:ml/train-0@b": {"b1"},
            "pod:ml/web-0@b": {"b2"},
        }
        assert set(before) <= set(ask(store, "SELECT holder_id, first_seen FROM holders"))
        assert ask(store, "SELECT job_name FROM holders WHERE job = 'pod:ml/train-0@a'") == [("train-0@a",)]
        for replies in ("consents", "keeps", "tellings"):  # who said no to a pause has not allowed it since
            told = ask(store, f"SELECT job FROM {replies} ORDER BY job")
            assert told == [("pod:ml/other",), ("pod:ml/train-0@a",)]


def test_a_hold_goes_on_through_the_tick_that_sees_the_second_cluster(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for minutes, clusters in ((1, "a"), (2, "ab"), (3, "ab")):
            tick = live(*clusters, minutes=minutes)
            end = "" if clusters == "a" else "@"
            held = tuple(
                Allocation(uuid=gpu.uuid, holder=whose, source=ClaimSource.KUBERNETES)
                for each in clusters
                for gpu in gpus(each)
                if (whose := holder(each, gpu.node, suffix=f"{end}{each}" if end else "")) is not None
            )
            store.write_tick(replace(tick, allocations=held))
        rows = ask(
            store,
            "SELECT job, count(*), count(to_ts), epoch_ms(min(from_ts)) "
            "FROM allocations JOIN holders USING (holder_id) GROUP BY job ORDER BY job",
        )
        assert rows == [
            ("pod:ml/train-0@a", 4, 0, LAST_MS),
            ("pod:ml/train-0@b", 4, 0, LAST_MS + MINUTE_MS),
            ("pod:ml/web-0@b", 4, 0, LAST_MS + MINUTE_MS),
        ]


def test_an_id_that_came_again_keeps_its_second(tmp_path: Path) -> None:
    """Two people's jobs of one id were told apart by the second of the later one, who keeps it."""
    with open_store(at_path(tmp_path)) as store:
        told = past("a", "b", suffixes=False, named=False, minutes=2)
        again = [
            replace(
                each,
                allocation=replace(each.allocation, holder=Holder(job=JobId(f"slurm:5@{10**9}"), user="z")),
            )
            for each in told.held
            if each.allocation.uuid.startswith("GPU-b2")
        ]
        others = [each for each in told.held if not each.allocation.uuid.startswith("GPU-b2")]
        store.write_history(replace(told, held=(*others, *again)))
        (bob,) = ask(store, "SELECT job FROM holders WHERE user_name = 'bob'")
        assert {"pod:ml/train-0", *bob} <= jobs_of(store).keys()
        store.write_tick(live("a", "b"))
        names = jobs_of(store)
        assert names["pod:ml/train-0@a"] == {"a1"} and names[f"slurm:5@b@{10**9}"] == {"b2"}
        assert "pod:ml/train-0" not in names and len(names) == 3
