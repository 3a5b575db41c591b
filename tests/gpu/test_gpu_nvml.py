"""The NVML source on a real driver: values that can be true, and the figures printed for docs/hardware.md.

Nothing here changes a GPU's settings. Run with ``pytest tests/gpu -m gpu -s`` on a GPU machine.
"""

import ctypes
import time
from collections.abc import Iterator

import pytest

from collector.model import (
    Basis,
    NodeName,
)
from collector.reading import Reading
from collector.sources.nvml.probe import Probe, probe
from collector.sources.nvml.source import NvmlOptions, NvmlSource

pytestmark = pytest.mark.gpu

TICK_S = 1.0
RESIDENT_LIMIT_MIB = 60


@pytest.fixture(scope="module")
def found() -> Probe:
    """The driver's probe, or a skip that says why there is none."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pytest.skip("no NVIDIA driver here: libnvidia-ml.so.1 was not found")
    told = probe()
    if told.problem:
        pytest.skip(f"no usable NVIDIA driver: {told.problem}")
    return told


@pytest.fixture(scope="module")
def readings(found: Probe) -> Iterator[list[Reading]]:
    """Four readings, a second apart."""
    options = NvmlOptions(tick_ms=int(TICK_S * 1000), processes_every=1, timeout_s=30)
    source = NvmlSource(node=NodeName("here"), options=options)
    held = []
    for _ in range(4):
        outcome = source.read(time.time_ns() // 1_000_000)
        assert isinstance(outcome, Reading), outcome
        held.append(outcome)
        time.sleep(TICK_S)
    yield held
    source.close()


def test_probe_tells_versions_and_every_gpu(found: Probe) -> None:
    print(f"\ndriver {found.driver_version}, NVML {found.nvml_version}, CUDA {found.cuda_version}")
    print(f"sampling child: {found.resident_mib:.1f} MiB resident")
    for gpu in found.gpus:
        print(f"{gpu.index} {gpu.model} {gpu.uuid} persistence={gpu.persistence_mode} mig={gpu.mig}")
        for measure in gpu.measures:
            print(f"    {measure.name:22}{measure.by or '-- ' + (measure.reason or '')}")
    for advice in found.advice:
        print(f"advice: {advice}")
    assert found.driver_version
    assert found.gpus
    assert found.resident_mib is not None
    assert found.resident_mib < RESIDENT_LIMIT_MIB


def test_every_gpu_is_read_with_plausible_values(found: Probe, readings: list[Reading]) -> None:
    last = readings[-1]
    assert {row.uuid for row in last.samples} == {gpu.uuid for gpu in found.gpus}
    for row in last.samples:
        print(f"\n{row}")
        assert row.memory_total_bytes is not None
        assert row.memory_total_bytes > 1 << 28
        assert row.memory_used_bytes is not None
        assert 0 <= row.memory_used_bytes <= row.memory_total_bytes
        if row.power_mw is not None:
            assert 1_000 < row.power_mw < 3_000_000
        if row.temperature_c is not None:
            assert 5 < row.temperature_c < 120


def test_energy_never_falls_and_agrees_with_power(readings: list[Reading]) -> None:
    first, last = readings[0], readings[-1]
    elapsed_s = (last.at_ms - first.at_ms) / 1000
    after = {row.uuid: row for row in last.samples}
    for row in first.samples:
        if row.energy_mj is None or row.power_mw is None:
            continue
        used_mw = ((after[row.uuid].energy_mj or 0) - row.energy_mj) / elapsed_s
        print(f"\n{row.uuid}: {used_mw / 1000:.1f} W by energy, {row.power_mw / 1000:.1f} W by power")
        assert used_mw >= 0
        assert used_mw < 3_000_000


def test_the_rung_is_sm_active_where_the_probe_says_gpm(found: Probe, readings: list[Reading]) -> None:
    with_gpm = {g.uuid for g in found.gpus if any(m.name == "gpm" and m.by for m in g.measures)}
    for row in readings[-1].samples:
        if row.uuid in with_gpm:
            assert row.rung is Basis.SM_ACTIVE
        print(f"\n{row.uuid}: rung {row.rung.name}, utilization {row.utilization_ratio}")


def test_a_reading_is_quick(readings: list[Reading]) -> None:
    for reading in readings:
        print(f"\n{len(reading.samples)} samples in {reading.duration_ms:.1f} ms")
    assert all(reading.gaps == () for reading in readings)
