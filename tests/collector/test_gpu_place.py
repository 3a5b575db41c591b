"""One name for each GPU: two instances of one profile on one board never have the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.query import run
from collector.gpu_place import node_place, place_of, places_apart
from collector.model import Gpu, GpuUuid, NodeName
from tests.collector.store.store_parts import T0, history, sample
from tests.stores import open_store

NODE, BOARD = NodeName("n1"), GpuUuid("GPU-5c2ab1f0-11d2")
WHOLE = Gpu(uuid=BOARD, node=NODE, index=3)


def part(uuid: str, **said: object) -> Gpu:
    values = {"node": NODE, "index": 0, "parent_uuid": BOARD, "mig_profile": "1g.10gb", **said}
    return Gpu(uuid=GpuUuid(uuid), **values)  # type: ignore[arg-type]


CASES = [
    (WHOLE, "3"),
    (Gpu(uuid=BOARD, node=NODE), None),
    (part("MIG-a", gpu_instance=7), "0/1g.10gb#7"),
    (part("MIG-b", gpu_instance=8, compute_instance=0), "0/1g.10gb#8"),
    (part("MIG-c", gpu_instance=2, compute_instance=0, mig_profile="1c.3g.40gb"), "0/1c.3g.40gb#2.0"),
    (part("MIG-d", gpu_instance=2, compute_instance=1, mig_profile="1c.3g.40gb"), "0/1c.3g.40gb#2.1"),
    (part("MIG-e", gpu_instance=7, mig_profile=None), "0/MIG#7"),
    (part("MIG-5c2ab1f0-11d2-5a7c"), "0/1g.10gb (MIG-5c2ab1f0)"),
    (part("MIG-f", index=None, gpu_instance=7), None),
]


@pytest.mark.parametrize(("gpu", "place"), CASES)
def test_a_gpu_is_called_by_its_index_and_an_instance_by_profile_and_number(
    gpu: Gpu, place: str | None
) -> None:
    assert place_of(gpu) == place


def test_the_store_calls_gpus_as_the_function_does(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store, store.reader() as connection:
        for gpu, place in CASES:
            (told,) = connection.execute(
                "SELECT gpu_place($1::INTEGER, $2, $3::VARCHAR, $4::VARCHAR, $5::INTEGER, $6::INTEGER)",
                [
                    gpu.index,
                    gpu.uuid,
                    gpu.parent_uuid,
                    gpu.mig_profile,
                    gpu.gpu_instance,
                    gpu.compute_instance,
                ],
            ).fetchall()[0]
            assert told == place, gpu


def test_no_index_is_called_by_the_start_of_the_uuid() -> None:
    assert node_place("n1", None, "GPU-5c2ab1f0-11d2-4b7e-9f53-0a1b2c3d4e5f") == "n1:GPU-5c2ab1f0"
    assert node_place("n1", "0/1g.10gb#7", "MIG-a") == "n1:0/1g.10gb#7"


def test_gpus_of_one_name_in_two_clusters_are_told_by_their_uuids_as_well() -> None:
    """gpu-1:0 of cluster a works, that of cluster b has done nothing for 20 h: a sentence says which."""
    a, b = "GPU-5c2ab1f0-0000-0000-0000-000000000000", "GPU-91f0c2ab-0000-0000-0000-000000000000"
    found = places_apart(
        [("gpu-1", "0", a), ("gpu-1", "0", b), ("gpu-1", "1", "GPU-c"), ("gpu-2", "0", "GPU-d")]
    )
    assert found == {a: "0 (GPU-5c2ab1f0)", b: "0 (GPU-91f0c2ab)", "GPU-c": "1", "GPU-d": "0"}
    assert places_apart([("n", None, "GPU-x"), ("n", None, "GPU-y")]) == {"GPU-x": None, "GPU-y": None}


def test_sentences_call_such_gpus_so(tmp_path: Path) -> None:
    """What findings are judged on: GPU 0 of two nodes of one name, with a driver's UUID and without."""
    uuids = {"GPU-5c2ab1f0-0000-0000-0000-000000000000": 0, "GPU-b0": 0, "GPU-c": 1}
    rows = [replace(sample(0, T0, 0.5), uuid=GpuUuid(uuid)) for uuid in uuids]
    gpus = tuple(Gpu(uuid=GpuUuid(uuid), node=NODE, index=index) for uuid, index in uuids.items())
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_history(replace(history(rows), gpus=gpus))
        with store.reader() as reader:
            found = run(reader, "assess_gpus", {"as_of": T0 + 1000, "bins_from": T0 - 60_000}).to_pylist()
    assert sorted(row["gpu_place"] for row in found) == ["0 (GPU-5c2ab1f0)", "0 (GPU-b0)", "1"]


@pytest.mark.parametrize(
    ("node", "uuid", "called"),
    [
        ("m1", "m1/0", "m1:0"),
        ("m1", "m10/0", "m1:m10/0"),
        (None, "m1/0", "unknown:m1/0"),
        ("m1", "GPU-x", "m1:GPU-x"),
    ],
)
def test_a_gpu_that_goes_by_its_place_has_its_nodes_name_once(
    node: str | None, uuid: str, called: str
) -> None:
    assert node_place(node, None, uuid) == called
