"""One name for each GPU: two instances of one profile on one board never have the same."""

from pathlib import Path

import pytest

from collector.gpu_place import node_place, place_of
from collector.model import Gpu, GpuUuid, NodeName
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
