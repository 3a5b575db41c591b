"""Utilization: the driver's sample ring over the whole tick, GPM where there is any, and the best rung."""

import math
from collections.abc import Callable

import pytest

from collector.model import Basis
from collector.sources.nvml.convert import INSTANT
from tests.collector.nvml.conftest import Watch
from tests.driver.driver import NO_PERMISSION, NOT_SUPPORTED, RING_MEMORY, UNKNOWN


def test_mean_max_and_busy_share_come_from_the_ring_over_the_tick(watch: Watch) -> None:
    w = watch()
    w.sample()
    gpu = w.driver.gpu(0)
    gpu.ring([(w.ago_us(8000), 0), (w.ago_us(6000), 100), (w.ago_us(4000), 20), (w.ago_us(2000), 0)])
    gpu.ring([(w.ago_us(4000), 10), (w.ago_us(2000), 30)], RING_MEMORY)
    row = w.sample()
    assert row.gpu_utilization_ratio == 0.3
    assert row.gpu_utilization_max_ratio == 1.0
    assert row.gpu_busy_ratio == 0.5
    assert row.memory_controller_ratio == 0.2
    assert row.width_ms == 10_000


def test_a_burst_between_two_ticks_is_seen_although_the_instant_is_idle(watch: Watch) -> None:
    w = watch()
    w.sample()
    gpu = w.driver.gpu(0)
    gpu.utilization = 0
    gpu.ring([(w.ago_us(5000), 90), (w.ago_us(100), 0)])
    assert w.sample().gpu_utilization_max_ratio == 0.9


def test_no_ring_sample_counts_twice(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.ring([(w.ago_us(5000), 100)])
    assert w.sample().gpu_utilization_ratio == 1.0
    gpu.ring([(w.ago_us(15_000), 100), (w.ago_us(5000), 50)])
    assert w.sample().gpu_utilization_ratio == 0.5


def test_the_first_reading_takes_only_the_newest_tick_of_an_old_ring(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).ring([(w.ago_us(60_000), 100), (w.ago_us(4000), 10), (w.ago_us(1000), 20)])
    assert w.sample().gpu_utilization_ratio == 0.15


def test_ring_values_above_one_hundred_are_left_out(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).ring([(w.ago_us(4000), 4294967295), (w.ago_us(1000), 20)])
    row = w.sample()
    assert (row.gpu_utilization_ratio, row.gpu_utilization_max_ratio) == (0.2, 0.2)


def test_a_ring_shorter_than_the_tick_is_flagged(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.ring([(w.ago_us(1000), 10)])
    assert "ring-partial" not in w.sample().flags
    gpu.ring([(w.ago_us(600), 10), (w.ago_us(400), 10), (w.ago_us(200), 10)])
    assert "ring-partial" in w.sample().flags


def test_without_a_new_ring_sample_the_present_value_is_marked_as_an_instant(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).utilization = 42
    row = w.sample()
    assert (row.gpu_utilization_ratio, row.flags) == (0.42, (INSTANT,))
    assert row.gpu_utilization_max_ratio is None
    assert row.gpu_busy_ratio is None


def test_a_driver_clock_that_was_set_back_does_not_silence_the_ring(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.ring([(w.ago_us(-3_600_000), 100)])
    w.sample()
    for _ in range(10):
        gpu.ring([(w.ago_us(1000), 30)])
        row = w.sample()
        if INSTANT not in row.flags:
            break
    assert row.gpu_utilization_ratio == 0.3


def test_not_supported_utilization_is_unknown_and_never_zero(watch: Watch) -> None:
    w = watch()
    for function in ("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"):
        w.driver.fail(function, NOT_SUPPORTED)
    row = w.sample()
    assert (row.rung, row.utilization_ratio, row.gpu_utilization_ratio) == (Basis.UNKNOWN, None, None)


def test_a_driver_without_rings_still_gives_the_instant(watch: Watch) -> None:
    w = watch()
    w.driver.fail("nvmlDeviceGetSamples", NO_PERMISSION)
    w.driver.gpu(0).utilization = 55
    assert w.sample().gpu_utilization_ratio == 0.55


def test_sm_active_and_its_kin_come_from_two_gpm_samples(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.metrics(graphics=80, sm=20, occupancy=10, tensor=4, dram=8)
    assert w.sample().sm_active_ratio is None
    gpu.metrics(graphics=100, sm=60, occupancy=30, tensor=8, dram=16)
    row = w.sample()
    assert row.rung is Basis.SM_ACTIVE
    assert row.utilization_ratio == row.sm_active_ratio == 0.4
    assert row.graphics_active_ratio == 0.9
    assert row.sm_occupancy_ratio == 0.2
    assert row.tensor_active_ratio == 0.06
    assert row.dram_active_ratio == 0.12


def test_gpm_windows_under_a_tenth_of_a_second_are_skipped(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=50)
    w.sample()
    assert w.sample(step_ms=99).sm_active_ratio is None
    assert w.driver.calls("nvmlGpmMetricsGet") == 0
    assert w.sample(step_ms=1).sm_active_ratio == 0.5


def test_the_rung_is_the_best_there_is(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.utilization = 70
    assert (w.sample().rung, w.sample().utilization_ratio) == (Basis.GPU_UTILIZATION, 0.7)
    w.source.close()
    gpu.metrics(graphics=60)
    w.sample()
    row = w.sample()
    assert (row.rung, row.utilization_ratio, row.sm_active_ratio) == (Basis.GRAPHICS_ACTIVE, 0.6, None)


def test_an_activity_above_one_is_cut_and_flagged(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=129, dram=20)
    w.sample()
    row = w.sample()
    assert (row.sm_active_ratio, row.dram_active_ratio) == (1.0, 0.2)
    assert row.flags == (INSTANT, "sm_active-above-1")


def test_a_gpm_value_that_is_no_number_is_unknown(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=math.inf, graphics=50)
    w.sample()
    row = w.sample()
    assert (row.sm_active_ratio, row.rung) == (None, Basis.GRAPHICS_ACTIVE)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_gpm_that_is_refused_is_not_asked_again(watch: Watch, code: int) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=50)
    w.driver.fail("nvmlGpmSampleGet", code)
    for _ in range(4):
        assert w.sample().sm_active_ratio is None
    assert w.driver.calls("nvmlGpmSampleGet") == 1


def test_a_driver_that_has_no_room_for_gpm_samples_still_gives_the_rest(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=50)
    w.driver.gpu(0).utilization = 30
    w.driver.fail("nvmlGpmSampleAlloc", UNKNOWN)
    assert [(row.rung, row.utilization_ratio) for row in (w.sample(), w.sample())] == [
        (Basis.GPU_UTILIZATION, 0.3)
    ] * 2


def test_a_passing_gpm_failure_costs_one_tick_and_starts_a_new_window(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=50)
    w.sample()
    w.driver.fail("nvmlGpmSampleGet", UNKNOWN, times=1)
    assert [w.sample().sm_active_ratio for _ in range(3)] == [None, None, 0.5]


def test_full_utilization_without_a_process_or_at_idle_power_is_flagged(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.power_mw = 70_000
    gpu.ring([(w.ago_us(1000), 0)])
    assert w.sample().flags == ()
    gpu.ring([(w.ago_us(1000), 100)])
    assert w.sample().flags == ("busy-without-process", "busy-at-idle-power")
    gpu.power_mw = 300_000
    gpu.ring([(w.ago_us(1000), 100)])
    assert w.sample().flags == ("busy-without-process",)


def test_a_busy_gpu_with_a_process_raises_no_suspicion(watch: Watch, process: Callable[[], int]) -> None:
    w = watch()
    w.driver.gpu(0).process(process())
    w.driver.gpu(0).ring([(w.ago_us(1000), 100)])
    assert w.sample().flags == ()


def test_when_processes_were_not_looked_at_nobody_is_said_to_be_missing(watch: Watch) -> None:
    w = watch(processes_every=2)
    w.driver.gpu(0).utilization = 100
    assert "busy-without-process" in w.sample().flags
    row = w.sample()
    assert row.process_count is None
    assert "busy-without-process" not in row.flags
