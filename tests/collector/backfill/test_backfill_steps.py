"""A sample counts for the time between scrapes of its own target, whatever others are scraped at."""

import numpy as np
import pytest

from collector.sources.prometheus.series import Device, Series, Site, devices

S, HOUR = 1000, 3_600_000
BEGAN_MS = 1_763_000_000_000


def series(uuid: str, at_ms: np.ndarray, **labels: str) -> Series:
    return Series(
        name="DCGM_FI_DEV_GPU_UTIL",
        labels={"UUID": uuid, "instance": uuid, **labels},
        at_ms=at_ms,
        values=np.full(len(at_ms), 70.0),
    )


def every(step_s: int, hours: float, from_ms: int = BEGAN_MS) -> np.ndarray:
    return np.arange(from_ms + step_s * S, from_ms + round(hours * HOUR) + 1, step_s * S)


def hours(device: Device) -> float:
    return float(device.width_ms.sum()) / HOUR


@pytest.mark.parametrize("step_s", [10, 30, 60, 120, 300])
def test_hours_of_a_slow_target_beside_a_fast_one_are_whole(step_s: int) -> None:
    # a node scraped each 10 s and one each 2 min, 24 h at 0.7: 24 h are given, 16.8 used
    fast, slow = devices(
        [series("fast", every(10, 2)), series("slow", every(step_s, 24))], Site(step_ms=10 * S)
    )
    assert hours(fast) == pytest.approx(2)
    assert hours(slow) == pytest.approx(24)
    used = float((slow.columns["gpu_utilization_ratio"] * slow.width_ms).sum()) / HOUR
    assert used == pytest.approx(0.7 * 24)


def test_a_gap_counts_as_one_step_of_its_own_target() -> None:
    at = np.concatenate([every(120, 4), every(120, 4, BEGAN_MS + 7 * HOUR)])
    (device,) = devices([series("A", at)], Site(step_ms=10 * S))
    assert hours(device) == pytest.approx(8)


def test_a_target_that_is_scraped_less_often_from_noon_on_keeps_its_hours() -> None:
    at = np.concatenate([every(30, 12), every(300, 12, BEGAN_MS + 12 * HOUR)])
    (device,) = devices([series("A", at)], Site(step_ms=30 * S))
    # the first four of the slow scrapes are judged by the fast ones around them
    assert 24 - 4 * 270 / 3600 <= hours(device) <= 24


def test_single_samples_hours_apart_are_no_hours() -> None:
    (device,) = devices([series("A", every(7200, 24))], Site(step_ms=30 * S))
    assert hours(device) == pytest.approx(12 * 300 / 3600)


def test_a_short_life_has_the_step_of_its_own_target() -> None:
    at = every(120, 3 * 120 / 3600)
    labels = {"job": "gpus"}
    target = ("gpus", "A", "", "", "", "", "", "")
    site = Site(step_ms=10 * S, steps={target: 120 * S})
    (device,) = devices([series("A", at, **labels)], site)
    assert hours(device) == pytest.approx(0.1)
