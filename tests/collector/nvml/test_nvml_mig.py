"""MIG: instances are GPUs of their own, the parent keeps the remainder, and nothing counts twice."""

from collections.abc import Callable

import pytest

from collector.gpu_place import place_of
from collector.model import (
    Basis,
    Gpu,
)
from collector.reading import Reading
from collector.sources.nvml import device_changes
from collector.sources.nvml.convert import MIG_BY_INSTANCE, MIG_PARENT
from tests.collector.nvml.conftest import Watch, Watched, of
from tests.driver.driver import GIB, NOT_AVAILABLE

Start = Callable[[], int]


def by_uuid(reading: Reading) -> dict[str, Gpu]:
    return {gpu.uuid: gpu for gpu in reading.gpus}


def partitioned(watch: Watch) -> tuple[Watched, str, str]:
    w = watch(gpus=2)
    small, large = w.driver.gpu(0).partition(("1g.10gb", 1, 10), ("3g.40gb", 3, 40))
    w.driver.gpu(0).memory_used = 30 * GIB
    parts = w.driver.state.gpus[0].instances
    parts[0].memory_used, parts[1].memory_used = 5 * GIB, 24 * GIB
    return w, small, large


def test_instances_are_gpus_and_the_parent_keeps_the_remainder(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    gpus = by_uuid(w.read())
    parent = w.driver.gpu(0).uuid
    assert [gpus[uuid].share_of_device for uuid in (small, large, parent)] == [1 / 7, 3 / 7, 3 / 7]
    assert [gpus[uuid].mig_profile for uuid in (small, large, parent)] == ["1g.10gb", "3g.40gb", None]
    assert {gpus[uuid].parent_uuid for uuid in (small, large)} == {parent}
    assert gpus[small].model == gpus[parent].model == "NVIDIA H100 80GB HBM3"
    assert gpus[w.driver.gpu(1).uuid].share_of_device == 1.0


def test_each_instance_tells_where_it_lies_even_while_its_board_is_lost(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    board = w.driver.gpu(0).uuid
    found = {place.uuid: (place.parent_uuid, place.gpu_instance) for place in w.read().mig_places}
    assert found == {small: (board, 1), large: (board, 2)}
    w.driver.gpu(0).lost = 1
    w.read()
    assert {place.uuid for place in w.read().mig_places} == {small, large}


def test_the_slices_of_a_full_gpu_leave_nothing_to_the_parent(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).partition(("4g.40gb", 4, 40), ("3g.40gb", 3, 40))
    gpus = w.read().gpus
    assert sum(gpu.share_of_device for gpu in gpus) == pytest.approx(1.0)
    assert by_uuid(w.read())[w.driver.gpu(0).uuid].share_of_device == 0.0


def test_a_board_with_four_slices_is_shared_by_four(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).mig_max = 4
    (uuid,) = w.driver.gpu(0).partition(("1g.6gb", 1, 6))
    assert by_uuid(w.read())[uuid].share_of_device == 0.25


def test_memory_is_nowhere_counted_twice(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    rows = {row.uuid: row for row in w.read().samples}
    parent = rows[w.driver.gpu(0).uuid]
    assert rows[small].memory_used_bytes == 5 * GIB
    assert rows[large].memory_used_bytes == 24 * GIB
    assert (parent.memory_used_bytes, parent.memory_total_bytes) == (1 * GIB, 30 * GIB)
    assert MIG_PARENT in parent.flags


def test_the_board_s_values_stay_with_the_parent(watch: Watch) -> None:
    w, small, _ = partitioned(watch)
    rows = {row.uuid: row for row in w.read().samples}
    assert rows[w.driver.gpu(0).uuid].power_mw == 70_000
    part = rows[small]
    assert (part.power_mw, part.energy_mj, part.temperature_c, part.ecc_corrected) == (None,) * 4


def test_utilization_is_unknown_while_mig_is_on_and_not_zero(watch: Watch) -> None:
    w, small, _ = partitioned(watch)
    rows = {row.uuid: row for row in w.read().samples}
    for uuid in (small, w.driver.gpu(0).uuid):
        assert (rows[uuid].rung, rows[uuid].utilization_ratio) == (Basis.UNKNOWN, None)
    assert rows[w.driver.gpu(1).uuid].rung is Basis.GPU_UTILIZATION


def test_each_instance_has_its_own_sm_activity_through_gpm(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    w.driver.gpu(0).gpm_supported = 1
    parts = w.driver.state.gpus[0].instances
    parts[0].gpm[2], parts[1].gpm[2] = 20.0, 90.0
    w.read()
    rows = {row.uuid: row for row in w.read().samples}
    assert (rows[small].sm_active_ratio, rows[large].sm_active_ratio) == (0.2, 0.9)
    assert rows[small].rung is Basis.SM_ACTIVE


def test_processes_are_attributed_by_instance_and_it_is_said(watch: Watch, process: Start) -> None:
    w, small, large = partitioned(watch)
    one, two = process(), process()
    w.driver.gpu(0).process(one, 4 * GIB, instance=(1, 0))
    w.driver.gpu(0).process(two, NOT_AVAILABLE, instance=(2, 0))
    reading = w.read()
    assert [(row.uuid, row.memory_used_bytes, row.sm_ratio) for row in of(reading, one)] == [
        (small, 4 * GIB, None)
    ]
    assert [(row.uuid, row.memory_used_bytes, row.sm_ratio) for row in of(reading, two)] == [
        (large, None, None)
    ]
    rows = {row.uuid: row for row in reading.samples}
    assert (rows[small].process_count, rows[w.driver.gpu(0).uuid].process_count) == (1, 0)
    assert MIG_BY_INSTANCE in rows[small].flags
    assert w.driver.gpu(0).calls("nvmlDeviceGetProcessUtilization") == 0


def test_an_instance_that_is_destroyed_goes_and_its_share_returns(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    w.read()
    w.driver.state.gpus[0].instances[0].present = 0
    reading = w.read()
    assert small not in by_uuid(reading)
    assert by_uuid(reading)[w.driver.gpu(0).uuid].share_of_device == 4 / 7
    assert [(event.kind, event.uuid) for event in reading.events] == [(device_changes.REMOVED, small)]
    assert large in {row.uuid for row in w.read().samples}


def test_an_instance_that_is_destroyed_between_two_scans_costs_nobody_else(watch: Watch) -> None:
    w = watch(processes_every=5)
    small, large = w.driver.gpu(0).partition(("1g.10gb", 1, 10), ("3g.40gb", 3, 40))
    w.read()
    w.driver.state.gpus[0].instances[0].present = 0
    reading = w.read()
    assert {row.uuid for row in reading.samples} == {large, w.driver.gpu(0).uuid}
    assert [event.uuid for event in reading.events] == [small]
    assert reading.gaps == ()


def test_a_new_instance_is_found(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).mig_mode = 1
    assert w.read().samples[0].process_count == 0
    (uuid,) = w.driver.gpu(0).partition(("2g.20gb", 2, 20))
    reading = w.read()
    assert by_uuid(reading)[uuid].share_of_device == 2 / 7
    assert [(event.kind, event.uuid) for event in reading.events] == [(device_changes.ADDED, uuid)]


def test_mig_that_is_switched_on_is_noticed(watch: Watch) -> None:
    w = watch(rescan_every=2)
    w.read()
    (uuid,) = w.driver.gpu(0).partition(("2g.20gb", 2, 20))
    assert uuid not in by_uuid(w.read())
    assert uuid in by_uuid(w.read())


def test_a_lost_board_takes_its_instances_with_it(watch: Watch) -> None:
    w, small, large = partitioned(watch)
    w.read()
    w.driver.gpu(0).lost = 1
    reading = w.read()
    assert {gap.uuid for gap in reading.gaps} == {small, large, w.driver.gpu(0).uuid}
    assert {gap.reason for gap in reading.gaps} == {reading.gaps[0].reason}
    assert {row.uuid for row in reading.samples} == {w.driver.gpu(1).uuid}


def test_instances_of_one_profile_have_names_that_differ(watch: Watch) -> None:
    w = watch()
    one, two, half, other = w.driver.gpu(0).partition(
        ("1g.10gb", 1, 10), ("1g.10gb", 1, 10), ("1c.3g.40gb", 1, 40), ("1c.3g.40gb", 1, 40)
    )
    parts = w.driver.state.gpus[0].instances
    parts[3].gpu_instance, parts[3].compute_instance = parts[2].gpu_instance, 1
    gpus = by_uuid(w.read())
    assert [place_of(gpus[uuid]) for uuid in (one, two, half, other)] == [
        "0/1g.10gb#1",
        "0/1g.10gb#2",
        "0/1c.3g.40gb#3.0",
        "0/1c.3g.40gb#3.1",
    ]


def test_an_instance_with_graphics_is_told_from_one_without(watch: Watch) -> None:
    w = watch()
    uuids = w.driver.gpu(0).partition(("2g.48gb", 2, 48), ("1g.24gb+gfx", 1, 24), ("1g.24gb", 1, 24))
    gpus = by_uuid(w.read())
    assert [place_of(gpus[uuid]) for uuid in uuids] == ["0/2g.48gb#1", "0/1g.24gb+gfx#2", "0/1g.24gb#3"]
