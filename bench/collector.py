"""CPU that one full NVML sample costs, processes included, beside nvitop, gpustat and the bare client.

All run on the same stand-in driver (8 GPUs, 16 real processes) in one run, in turns, each in a process of
its own; counted is the CPU time of those processes, Fallow's sampling child included. A full sample is what
Fallow stores: of each GPU and each process on it, and of each process its user and command line. nvitop is
measured twice, both against the target: ``nvitop_same`` is called by hand for nothing but those values (it
has neither the sample rings, 60 samples a GPU and tick, nor throttle reasons nor the energy counter),
``nvitop_snapshots`` is its own call for everything, ``take_snapshots``. Told beside, without a target:
both without users and command lines (``fallow_bare``, ``nvitop_bare``), and the bare client.

    python bench/collector.py [--json] [--quick]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.driver import layout  # noqa: E402
from tests.driver.driver import GIB, Driver  # noqa: E402

GPUS, PROCESSES = 8, 16
RING_INTERVAL_US = 166_667
TICK_US = 10_000_000
SHARE = 1 / 6
RESIDENT_LIMIT_MIB = 60

Sample = Callable[[], object]


def main() -> None:
    """Measure and print; or, as ``--contender NAME``, be one of those measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--contender", choices=CONTENDERS)
    options = parser.parse_args()
    if options.contender:
        serve(CONTENDERS[options.contender]())
        return
    rounds = 4 if options.quick else 40
    with tempfile.TemporaryDirectory() as folder, machine(Path(folder)) as driver:
        sleepers = [subprocess.Popen(["sleep", "3600"]) for _ in range(PROCESSES)]
        try:
            furnish(driver, [one.pid for one in sleepers], gpm=False)
            costs, resident_mib = measure(driver, rounds, tuple(CONTENDERS))
            furnish(driver, [one.pid for one in sleepers], gpm=True)
            with_gpm, _ = measure(driver, max(rounds // 8, 1), ("fallow",))
        finally:
            for one in sleepers:
                one.kill()
                one.wait()
    show(figures(costs, with_gpm["fallow"], resident_mib), as_json=options.json)


def machine(folder: Path) -> Driver:
    """The stand-in machine; its clock runs as the contenders move it on."""
    return Driver(folder, gpus=GPUS)


def furnish(driver: Driver, pids: list[int], *, gpm: bool) -> None:
    """Busy GPUs with two processes each, and rings as a driver fills them: 60 samples in a tick."""
    driver.clock_us = time.time_ns() // 1000
    for slot in range(GPUS):
        gpu = driver.gpu(slot)
        gpu.utilization, gpu.memory_utilization, gpu.memory_used = 60 + slot, 30, 40 * GIB
        gpu.auto_ring_us, gpu.auto_process_samples = RING_INTERVAL_US, 1
        gpu.gpm_supported = 0
        if gpm:
            gpu.metrics(graphics=90, sm=70, occupancy=25, tensor=28, dram=20)
        gpu.no_processes()
        for pid in pids[2 * slot : 2 * slot + 2]:
            gpu.process(pid, 20 * GIB, sm=30)


def measure(driver: Driver, rounds: int, names: tuple[str, ...]) -> tuple[dict[str, float], float]:
    """Milliseconds of CPU a sample, the median over rounds in turns; resident MiB of the sampling child."""
    running = {name: Contender(name, driver) for name in names}
    costs: dict[str, list[float]] = {name: [] for name in names}
    resident_mib = 0.0
    try:
        for contender in running.values():
            contender.take(2)
        for _ in range(rounds):
            for name, contender in running.items():
                cpu_s, mib = contender.take(SAMPLES[name])
                costs[name].append(cpu_s / SAMPLES[name] * 1000)
                resident_mib = max(resident_mib, mib)
    finally:
        for contender in running.values():
            contender.end()
    return {name: statistics.median(values) for name, values in costs.items()}, resident_mib


class Contender:
    """One of those measured, in its own process; says how much CPU its samples took."""

    def __init__(self, name: str, driver: Driver) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--contender", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=driver.environment(),
        )

    def take(self, count: int) -> tuple[float, float]:
        """CPU seconds of ``count`` samples, and the child's resident MiB (0 without one)."""
        assert self._process.stdin and self._process.stdout
        print(count, file=self._process.stdin, flush=True)
        cpu_s, mib = json.loads(self._process.stdout.readline())
        return cpu_s, mib

    def end(self) -> None:
        """Close its input, which ends it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def serve(contender: "tuple[Sample, Callable[[], int | None]]") -> None:
    """Take as many samples as each line of stdin asks for."""
    sample, child = contender
    state = open_state()
    for line in sys.stdin:
        count = int(line)
        before = cpu_ns(child())
        for _ in range(count):
            state.clock_us += TICK_US
            sample()
        print(json.dumps([(cpu_ns(child()) - before) / 1e9, resident(child())]), flush=True)


def open_state() -> Any:
    """The driver's mapped state, to move its clock on by one tick before each sample."""
    import mmap

    with Path(os.environ["FALLOW_DRIVER_STATE"]).open("r+b") as file:
        return layout.State.from_buffer(mmap.mmap(file.fileno(), 0))


def cpu_ns(child: int | None) -> int:
    """CPU time of this process and of the child; the clock id of a pid is clock_getcpuclockid(3)'s."""
    own = time.process_time_ns()
    return own + time.clock_gettime_ns((~child << 3) | 2) if child else own


def resident(child: int | None) -> float:
    """Resident MiB of the child at its highest."""
    if child is None:
        return 0.0
    status = Path(f"/proc/{child}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def fallow() -> tuple[Sample, Callable[[], int | None]]:
    """Ours, with processes at every tick and what /proc says of them, as the service reads them."""
    return fallow_reading(described=True)


def fallow_bare() -> tuple[Sample, Callable[[], int | None]]:
    """Ours, of processes only what the driver says."""
    return fallow_reading(described=False)


def fallow_reading(*, described: bool) -> tuple[Sample, Callable[[], int | None]]:
    """A source of ours that is read tick by tick."""
    from collector.model import NodeName
    from collector.reading import Reading
    from collector.sources.nvml.source import NvmlOptions, NvmlSource
    from service.sources.described import Described

    node = NodeName("bench")
    driver = NvmlSource(node=node, options=NvmlOptions(processes_every=1, host_pids=True))
    source = Described(driver, node) if described else driver
    now_ms = time.time_ns() // 1_000_000

    def sample() -> None:
        nonlocal now_ms
        now_ms += TICK_US // 1000
        reading = source.read(now_ms)
        assert isinstance(reading, Reading), reading
        assert len(reading.samples) == GPUS and len(reading.process_samples or ()) == PROCESSES
        assert reading.samples[0].gpu_busy_ratio == 1.0
        if described:
            assert all(process.user and process.command for process in reading.processes or ())

    return sample, lambda: driver.child_pid


def nvitop_same() -> tuple[Sample, Callable[[], int | None]]:
    """nvitop, asked for what Fallow stores of a GPU and of a process, as far as it has it."""
    return nvitop_by_hand(described=True)


def nvitop_bare() -> tuple[Sample, Callable[[], int | None]]:
    """The same without users and command lines."""
    return nvitop_by_hand(described=False)


def nvitop_by_hand(*, described: bool) -> tuple[Sample, Callable[[], int | None]]:
    """nvitop called value by value."""
    from nvitop import Device

    devices = Device.all()

    def sample() -> None:
        seen = 0
        for device in devices:
            with device.oneshot():
                device.memory_info()
                device.utilization_rates()
                device.encoder_utilization()
                device.decoder_utilization()
                device.sm_clock()
                device.memory_clock()
                device.temperature()
                device.power_usage()
                device.persistence_mode()
                device.total_volatile_uncorrected_ecc_errors()
                for process in device.processes().values():
                    process.gpu_memory()
                    process.gpu_sm_utilization()
                    process.type  # noqa: B018
                    process.create_time()
                    if described:
                        assert process.username() and process.command()
                    seen += 1
        assert seen == PROCESSES

    return sample, nothing


def nvitop_snapshots() -> tuple[Sample, Callable[[], int | None]]:
    """nvitop's own way to take everything."""
    from nvitop import take_snapshots

    def sample() -> None:
        assert len(take_snapshots().gpu_processes) == PROCESSES

    return sample, nothing


def gpustat() -> tuple[Sample, Callable[[], int | None]]:
    """gpustat's one way to sample."""
    from gpustat import GPUStatCollection

    def sample() -> None:
        found = GPUStatCollection.new_query()
        assert sum(len(gpu.processes) for gpu in found) == PROCESSES

    return sample, nothing


def bare_client() -> tuple[Sample, Callable[[], int | None]]:
    """nvidia-ml-py's wrappers alone: the calls that nvitop's same information takes, nothing made of them."""
    import pynvml as n

    n.nvmlInit()
    handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]

    def sample() -> None:
        for handle in handles:
            n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
            n.nvmlDeviceGetUtilizationRates(handle)
            n.nvmlDeviceGetEncoderUtilization(handle)
            n.nvmlDeviceGetDecoderUtilization(handle)
            n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)
            n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_MEM)
            n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU)
            n.nvmlDeviceGetPowerUsage(handle)
            n.nvmlDeviceGetPersistenceMode(handle)
            n.nvmlDeviceGetTotalEccErrors(handle, 1, 0)
            n.nvmlDeviceGetComputeRunningProcesses(handle)
            n.nvmlDeviceGetGraphicsRunningProcesses(handle)
            n.nvmlDeviceGetProcessUtilization(handle, 0)

    return sample, nothing


def nothing() -> None:
    """No child."""
    return


def figures(costs: dict[str, float], gpm_ms: float, resident_mib: float) -> dict[str, dict[str, Any]]:
    """The figures against their targets, and what stands beside them."""
    ours = costs["fallow"]
    beside = {name: round(value, 4) for name, value in costs.items() if name != "fallow"}

    def ratio(peer: str) -> dict[str, Any]:
        return figure(ours / costs[peer], SHARE, {f"{peer}_ms": beside[peer]})

    return {
        "cpu_ms_per_full_sample": figure(ours, costs["nvitop_same"] * SHARE, beside),
        "share_of_nvitop_same": ratio("nvitop_same"),
        "share_of_nvitop_snapshots": ratio("nvitop_snapshots"),
        "share_of_gpustat": ratio("gpustat"),
        "cpu_ms_per_full_sample_with_gpm": figure(gpm_ms, None, beside),
        "sampling_child_resident_mib": figure(resident_mib, RESIDENT_LIMIT_MIB, {}),
    }


def figure(value: float, target: float | None, beside: dict[str, float]) -> dict[str, Any]:
    """One figure; without a target it is only told."""
    return {
        "value": round(value, 4),
        "target": None if target is None else round(target, 4),
        "ok": target is None or value <= target,
        "beside": beside,
    }


def show(found: dict[str, dict[str, Any]], *, as_json: bool) -> None:
    """A table, or one object."""
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'figure':34}{'value':>10}{'target':>10}  {'ok':4}beside")
    for name, one in found.items():
        target = "" if one["target"] is None else f"{one['target']:.4f}"
        beside = ", ".join(f"{peer} {value:.3f}" for peer, value in one["beside"].items())
        print(f"{name:34}{one['value']:>10.4f}{target:>10}  {'yes' if one['ok'] else 'NO':4}{beside}")


SAMPLES = {
    "fallow": 100,
    "fallow_bare": 100,
    "nvitop_same": 40,
    "nvitop_bare": 40,
    "nvitop_snapshots": 20,
    "gpustat": 4,
    "bare_client": 100,
}
"""Samples a round; gpustat sleeps 0.1 s for each GPU, so it gets few."""

CONTENDERS: dict[str, Callable[[], tuple[Sample, Callable[[], int | None]]]] = {
    "fallow": fallow,
    "fallow_bare": fallow_bare,
    "nvitop_same": nvitop_same,
    "nvitop_bare": nvitop_bare,
    "nvitop_snapshots": nvitop_snapshots,
    "gpustat": gpustat,
    "bare_client": bare_client,
}


if __name__ == "__main__":
    main()
