"""The stand-in driver itself: the real client and two well-known monitors run on it, unmodified."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver import layout
from tests.driver.driver import BOTH, GIB, NOT_SUPPORTED, RING_DECODER, UNKNOWN, CompilerMissing, Driver

CLIENT = """
import json, pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
print(json.dumps([{
    "uuid": n.nvmlDeviceGetUUID(h),
    "name": n.nvmlDeviceGetName(h),
    "v1": n.nvmlDeviceGetMemoryInfo(h).used,
    "v2": n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).used,
    "reserved": n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).reserved,
    "utilization": n.nvmlDeviceGetUtilizationRates(h).gpu,
    "samples": [[s.timeStamp, s.sampleValue.uiVal]
                for s in n.nvmlDeviceGetSamples(h, n.NVML_DEC_UTILIZATION_SAMPLES, 0)[1]],
    "processes": [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)],
    "graphics": [p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(h)],
    "power": n.nvmlDeviceGetPowerUsage(h),
    "energy": n.nvmlDeviceGetFieldValues(h, [n.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])[0].value.ullVal,
} for h in handles]))
n.nvmlShutdown()
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    try:
        machine = Driver(tmp_path, gpus=2)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with machine:
        yield machine


def run(driver: Driver, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        env=driver.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def furnish(driver: Driver) -> None:
    gpu = driver.gpu(1)
    gpu.utilization, gpu.memory_used, gpu.power_mw, gpu.energy_mj = 73, 12 * GIB, 412_000, 1 << 41
    gpu.process(os.getpid(), 11 * GIB, BOTH)
    gpu.ring([(1000, 7), (2000, 9)], RING_DECODER)
    driver.gpu(0).ring([(1000, 0)], RING_DECODER)
    last = driver.state.gpus[1].instances[layout.MAX_INSTANCES - 1]
    last.gpm[layout.GPM_METRICS - 1] = 0.5


def test_the_real_client_reads_what_the_test_wrote(driver: Driver) -> None:
    furnish(driver)
    idle, busy = json.loads(run(driver, "-c", CLIENT))
    assert idle["uuid"] == driver.gpu(0).uuid
    assert idle["processes"] == []
    assert busy["name"] == "NVIDIA H100 80GB HBM3"
    assert (busy["v2"], busy["reserved"], busy["v1"]) == (12 * GIB, GIB // 2, 12 * GIB + GIB // 2)
    assert busy["samples"] == [[1000, 7], [2000, 9]]
    assert busy["processes"] == [[os.getpid(), 11 * GIB]]
    assert busy["graphics"] == [os.getpid()]
    assert (busy["utilization"], busy["power"], busy["energy"]) == (73, 412_000, 1 << 41)


def test_gpustat_runs_on_it_unmodified(driver: Driver) -> None:
    furnish(driver)
    busy = json.loads(run(driver, "-m", "gpustat", "--json"))["gpus"][1]
    assert busy["utilization.gpu"] == 73
    assert busy["memory.used"] == 12 * 1024
    assert [process["pid"] for process in busy["processes"]] == [os.getpid()]


def test_nvitop_runs_on_it_unmodified(driver: Driver) -> None:
    furnish(driver)
    screen = run(driver, "-m", "nvitop", "--once", "--no-unicode")
    assert "412W / 700W" in screen
    assert "73%" in screen
    assert str(os.getpid()) in screen


def test_faults_counts_and_a_state_file_of_another_layout_are_told(driver: Driver) -> None:
    driver.fail("nvmlDeviceGetName", UNKNOWN, gpu=1, times=1)
    driver.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED, gpu=0)
    client = (
        "import pynvml as n\nn.nvmlInit()\nh=[n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]\n"
        "def ask(f, h):\n  try: f(h); return 0\n  except n.NVMLError as e: return e.value\n"
        "print([ask(n.nvmlDeviceGetName, h[1]), ask(n.nvmlDeviceGetName, h[1]),"
        " ask(n.nvmlDeviceGetPowerUsage, h[0]), ask(n.nvmlDeviceGetPowerUsage, h[1])])"
    )
    assert run(driver, "-c", client).strip() == f"[{UNKNOWN}, 0, {NOT_SUPPORTED}, 0]"
    assert driver.calls("nvmlDeviceGetName") == 2
    assert driver.gpu(0).calls("nvmlDeviceGetPowerUsage") == 1
    driver.state.size = ctypes.sizeof(layout.State) - 8
    refused = subprocess.run(
        [sys.executable, "-c", client], env=driver.environment(), capture_output=True, text=True, check=False
    )
    assert "another layout" in refused.stderr


def test_an_old_driver_lacks_the_newer_symbols(tmp_path: Path) -> None:
    try:
        old = Driver(tmp_path, old=True)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with old:
        client = "import pynvml as n\nn.nvmlInit()\nh=n.nvmlDeviceGetHandleByIndex(0)\n"
        client += "n.nvmlDeviceGetMemoryInfo(h)\nn.nvmlDeviceGetComputeRunningProcesses(h)"
        done = subprocess.run(
            [sys.executable, "-c", client], env=old.environment(), capture_output=True, text=True, check=False
        )
    assert "NVMLError_FunctionNotFound" in done.stderr
