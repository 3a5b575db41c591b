"""Devices: single values, what the driver refuses, and how the GPUs of a machine come, go and move."""

import os
import signal

import pytest

from collector.reading import Reading
from collector.sources.nvml import device_changes
from tests.collector.nvml.conftest import Watch, Watched
from tests.driver.driver import (
    FUNCTION_NOT_FOUND,
    GIB,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
)

VALUES = {
    "temperature_c": ("nvmlDeviceGetTemperature", 71),
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", 1755),
    "throttle_reasons": ("nvmlDeviceGetCurrentClocksEventReasons", 0x44),
    "encoder_ratio": ("nvmlDeviceGetEncoderUtilization", 0.12),
    "decoder_ratio": ("nvmlDeviceGetDecoderUtilization", 0.34),
    "jpeg_ratio": ("nvmlDeviceGetJpgUtilization", 0.56),
    "ofa_ratio": ("nvmlDeviceGetOfaUtilization", 0.78),
    "memory_used_bytes": ("nvmlDeviceGetMemoryInfo_v2", 21 * GIB),
    "power_mw": ("field:185", 512_345),
    "energy_mj": ("field:83", 1 << 42),
    "ecc_corrected": ("field:3", 17),
    "ecc_uncorrected": ("field:4", 2),
}


def furnish(w: Watched, slot: int = 0) -> None:
    gpu = w.driver.gpu(slot)
    gpu.temperature, gpu.sm_clock, gpu.memory_clock = 71, 1755, 2619
    gpu.throttle_reasons, gpu.encoder, gpu.decoder = 0x44, 12, 34
    gpu.jpeg, gpu.ofa = 56, 78
    gpu.memory_used, gpu.power_mw, gpu.energy_mj = 21 * GIB, 512_345, 1 << 42
    gpu.ecc_corrected, gpu.ecc_uncorrected = 17, 2


def test_every_value_arrives_in_its_unit(watch: Watch) -> None:
    w = watch()
    furnish(w)
    row = w.sample()
    assert {name: getattr(row, name) for name in VALUES} == {
        name: value for name, (_, value) in VALUES.items()
    }
    assert (row.memory_reserved_bytes, row.memory_total_bytes) == (GIB // 2, 80 * GIB)
    assert row.memory_clock_mhz == 2619
    gpu = w.read().gpus[0]
    assert (gpu.model, gpu.driver_version) == ("NVIDIA H100 80GB HBM3", "570.86.15")
    assert (gpu.power_limit_mw, gpu.persistence_mode) == (700_000, True)
    assert (gpu.memory_total_bytes, gpu.index, gpu.share_of_device) == (80 * GIB, 0, 1.0)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND])
def test_a_refused_value_is_null_and_the_others_stay(watch: Watch, name: str, code: int) -> None:
    w = watch()
    furnish(w)
    w.driver.fail(VALUES[name][0], code)
    for spare in (
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ):
        w.driver.fail(spare, code)
    row = w.sample()
    assert getattr(row, name) is None
    others = {other: value for other, (_, value) in VALUES.items() if other != name}
    assert {other: getattr(row, other) for other in others} == others


def test_what_is_refused_is_asked_once_and_again_after_a_new_start(watch: Watch) -> None:
    w = watch(rescan_every=1)
    w.driver.fail("nvmlDeviceGetTemperature", NOT_SUPPORTED, times=1)
    assert [w.sample().temperature_c for _ in range(4)] == [None] * 4
    assert w.driver.calls("nvmlDeviceGetTemperature") == 1
    w.source.close()
    assert w.sample().temperature_c == 35


def test_a_value_that_fails_in_passing_is_asked_again(watch: Watch) -> None:
    w = watch()
    w.driver.fail("nvmlDeviceGetTemperature", UNKNOWN, times=1)
    assert [w.sample().temperature_c for _ in range(2)] == [None, 35]


def test_what_one_gpu_refuses_another_may_have(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.fail("nvmlDeviceGetTemperature", NOT_SUPPORTED, gpu=0)
    assert [row.temperature_c for row in w.read().samples] == [None, 35]


def test_fields_that_the_batch_refuses_are_got_one_by_one(watch: Watch) -> None:
    w = watch()
    furnish(w)
    for field in (3, 4, 83, 185):
        w.driver.fail(f"field:{field}", NOT_SUPPORTED)
    for _ in range(2):
        row = w.sample()
    assert (row.power_mw, row.energy_mj) == (512_345, 1 << 42)
    assert (row.ecc_corrected, row.ecc_uncorrected) == (17, 2)
    assert w.driver.calls("nvmlDeviceGetFieldValues") == 1


def test_an_old_driver_still_gives_memory_power_and_throttle_reasons(watch: Watch) -> None:
    w = watch(old=True)
    furnish(w)
    row = w.sample()
    assert row.memory_used_bytes == 21 * GIB + GIB // 2
    assert row.memory_reserved_bytes is None
    assert "memory-v1" in row.flags
    assert (row.power_mw, row.throttle_reasons) == (512_345, 0x44)


def test_memory_v2_keeps_what_the_driver_reserves_apart(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).memory_reserved = 7 * GIB
    row = w.sample()
    assert (row.memory_used_bytes, row.memory_reserved_bytes) == (0, 7 * GIB)


def test_nvml_is_initialized_once_and_pcie_throughput_never_asked(watch: Watch) -> None:
    w = watch(gpus=3)
    for _ in range(5):
        w.read()
    assert w.driver.calls("nvmlInitWithFlags") == 1
    assert w.driver.calls("nvmlShutdown") == 0
    assert w.driver.calls("nvmlDeviceGetPcieThroughput") == 0


def test_an_energy_counter_that_was_set_back_is_an_event(watch: Watch) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.energy_mj = 5_000_000
    w.read()
    gpu.energy_mj = 6_000_000
    assert w.read().events == ()
    gpu.energy_mj = 1_000
    (event,) = w.read().events
    assert (event.kind, event.uuid) == (device_changes.ENERGY_RESET, gpu.uuid)
    assert w.sample().energy_mj == 1_000


def test_an_xid_is_an_event_with_its_meaning_and_stands_in_the_sample(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.event(1, 13)
    first = w.read()
    assert first.events == ()  # before we listened
    w.driver.event(1, 31)
    w.driver.event(1, 79)
    reading = w.read()
    uuid = w.driver.gpu(1).uuid
    assert [(e.uuid, e.kind, e.detail.split(":")[0]) for e in reading.events] == [
        (uuid, "xid", "31"),
        (uuid, "xid", "79"),
    ]
    assert "fallen off the bus" in reading.events[1].detail
    assert [row.xid for row in reading.samples] == [None, 79]
    assert [row.xid for row in w.read().samples] == [None, None]


def test_a_gpu_that_gives_no_events_does_not_cost_the_others_theirs(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.gpu(0).events_supported = 0
    w.read()
    w.driver.event(1, 48)
    assert [event.detail for event in w.read().events] == ["48: double-bit ECC error"]


def test_gpus_are_known_by_uuid_when_their_index_changes(watch: Watch) -> None:
    w = watch(gpus=3)
    for slot in range(3):
        w.driver.gpu(slot).power_mw = 100_000 + slot
    before = w.read()
    w.driver.order(2, 0)
    after = w.read()
    assert {gpu.uuid: gpu.index for gpu in after.gpus} == {
        w.driver.gpu(2).uuid: 0,
        w.driver.gpu(0).uuid: 1,
    }
    power = {row.uuid: row.power_mw for row in before.samples}
    assert all(power[row.uuid] == row.power_mw for row in after.samples)
    assert [(e.kind, e.uuid) for e in after.events] == [(device_changes.REMOVED, w.driver.gpu(1).uuid)]


def test_a_gpu_that_is_added_is_found(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.order(0)
    w.read()
    w.driver.order(0, 1)
    reading = w.read()
    assert len(reading.samples) == 2
    assert [(e.kind, e.uuid) for e in reading.events] == [(device_changes.ADDED, w.driver.gpu(1).uuid)]


def test_persistence_mode_is_followed(watch: Watch) -> None:
    w = watch(rescan_every=1)
    assert w.read().gpus[0].persistence_mode is True
    w.driver.gpu(0).persistence = 0
    assert w.read().gpus[0].persistence_mode is False


def test_nvml_does_not_survive_a_fork_and_the_copy_starts_its_own(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).power_mw = 123_000
    w.read()
    copy = os.fork()
    if copy == 0:
        reading = w.tick()
        right = isinstance(reading, Reading) and reading.samples[0].power_mw == 123_000
        w.source.close()
        os.kill(os.getpid(), signal.SIGTERM if right else signal.SIGKILL)
    _, status = os.waitpid(copy, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert w.sample().power_mw == 123_000
    assert w.driver.calls("nvmlInitWithFlags") == 2


def test_a_reading_after_a_long_silence_claims_no_more_than_the_driver_remembers(watch: Watch) -> None:
    w = watch()
    w.read()
    assert w.sample(step_ms=3_600_000).width_ms == 30_000


def test_a_clock_that_goes_back_still_gives_a_positive_width(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).metrics(sm=50)
    w.read()
    row = w.sample(step_ms=-5000)
    assert row.width_ms == 10_000
    assert row.sm_active_ratio is None
    assert w.sample().sm_active_ratio == 0.5


def test_a_name_or_a_version_that_is_no_text_costs_nothing_else(watch: Watch) -> None:
    # As driver 555 answered under WSL: bytes that are no UTF-8.
    w = watch()
    w.driver.state.gpus[0].name = b"\xf8\x95\xa0\x81"
    w.driver.state.driver_version = b"\xf8\x01"
    furnish(w)
    assert w.sample().memory_used_bytes == 21 * GIB
