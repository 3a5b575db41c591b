"""A GPU of which the driver tells no UUID is shown, and given to nobody: CUDA knows no other name."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.gpu_place import is_named_by_place
from collector.model import GpuUuid, NodeName
from service.config.model import Config
from service.control.cluster_view import Observing
from tests.advisor.jobs.job_store_world import HandClock, opened
from tests.collector.store.store_parts import T0, empty, gpu, tick

PLACE = GpuUuid("n0/00000000:01:00.0")


@pytest.mark.parametrize(
    ("uuid", "is_place"),
    [
        (PLACE, True),
        ("MIG-n0/00000000:01:00.0/7/0", True),
        ("GPU-00000001", False),
        ("MIG-GPU-00000001/7/0", False),
        ("n01/00000000:01:00.0", False),
    ],
)
def test_a_place_is_told_from_a_uuid(uuid: str, is_place: bool) -> None:
    assert is_named_by_place(uuid, "n0") is is_place


def test_a_gpu_that_goes_by_its_place_is_given_to_nobody(tmp_path: Path) -> None:
    clock = HandClock(T0)
    store, register = opened(tmp_path, clock)
    with store:
        named = replace(gpu(0), uuid=PLACE)
        both = [replace(empty(0, T0), uuid=PLACE), empty(1, T0)]
        store.write_tick(tick(T0, both, gpus=(named, gpu(1))))
        state = Observing(
            store,
            Config(),
            clock,
            register,
            last_tick=lambda: T0,
            by_launcher=lambda job: False,
            here=lambda state: frozenset({NodeName("n0")}),
        ).look()
    assert {uuid: seen.occupied for uuid, seen in state.gpus.items()} == {PLACE: True, gpu(1).uuid: False}
