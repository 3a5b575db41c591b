"""What toy processes do on the board is what the real NVML client reads from the stand-in driver."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from examples.toys.board import CONTEXT_BYTES, GIB, Board, masked
from tests.driver.driver import Driver
from tests.end_to_end.conftest import Start

pytestmark = pytest.mark.quick

UUIDS = ("GPU-aaaa1111", "GPU-aaaa2222", "GPU-bbbb3333")

TOY = """
import sys
from examples.toys.board import GIB, OutOfMemory, visible
for line in sys.stdin:
    verb, at, amount = line.split()
    device = visible_devices[int(at)] if "visible_devices" in globals() else None
    if device is None:
        visible_devices = visible()
        device = visible_devices[int(at)]
    try:
        getattr(device, verb)(int(float(amount) * (1 if verb == "busy" else GIB)))
        print("done", flush=True)
    except OutOfMemory as refused:
        print(refused, flush=True)
"""

CLIENT = """
import json, pynvml as n
n.nvmlInit()
rows = []
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    rows.append({
        "used": n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).used,
        "busy": n.nvmlDeviceGetUtilizationRates(h).gpu,
        "power_mw": n.nvmlDeviceGetPowerUsage(h),
        "processes": {p.pid: p.usedGpuMemory for p in n.nvmlDeviceGetComputeRunningProcesses(h)},
        "sm": {s.pid: s.smUtil for s in use(n, h)},
    })
print(json.dumps(rows))
"""
USE = """
def use(n, h):
    try:
        return n.nvmlDeviceGetProcessUtilization(h, 0)
    except n.NVMLError_NotFound:
        return []
"""


class Toy:
    """A process on the board that does what it is told on its standard input."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def tell(self, verb: str, amount: float, at: int = 0) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{verb} {at} {amount}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def toy(start: Start) -> Callable[[str], Toy]:
    return lambda mask: Toy(start("-c", TOY, gpus=mask))


def read(driver: Driver) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", USE + CLIENT],
        env=driver.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return list(json.loads(done.stdout))


def test_nvml_tells_what_a_toy_took_and_does_on_the_gpu_that_it_was_given(
    machine: Driver, toy: Callable[[str], Toy]
) -> None:
    one = toy(machine.gpu(1).uuid)
    assert one.tell("allocate", 30) == "done"
    assert one.tell("busy", 60) == "done"
    first, second = read(machine)
    pid = str(one.process.pid)
    assert (first["used"], first["processes"]) == (0, {})
    assert second["used"] == 30 * GIB + CONTEXT_BYTES
    assert second["processes"] == {pid: 30 * GIB + CONTEXT_BYTES}
    assert (second["busy"], second["sm"]) == (60, {pid: 60})
    assert second["power_mw"] > first["power_mw"]


def test_two_toys_on_a_gpu_add_up_and_no_more_is_given_than_there_is(
    machine: Driver, toy: Callable[[str], Toy]
) -> None:
    one, two = toy("0"), toy("0")
    assert one.tell("allocate", 50) == "done"
    assert "CUDA out of memory. Tried to allocate 30.00 GiB" in two.tell("allocate", 30)
    assert two.tell("allocate", 20) == "done"
    assert one.tell("busy", 70) == "done"
    assert two.tell("busy", 70) == "done"
    assert one.tell("release", 10) == "done"
    row = read(machine)[0]
    assert row["used"] == 60 * GIB + 2 * CONTEXT_BYTES
    assert row["busy"] == 100


def test_what_a_killed_toy_held_is_free_at_once(machine: Driver, toy: Callable[[str], Toy]) -> None:
    one = toy("0")
    assert one.tell("allocate", 70) == "done"
    one.process.kill()
    one.process.wait()
    assert read(machine)[0]["used"] == 0
    assert toy("0").tell("allocate", 70) == "done"


def test_a_stopped_toy_holds_its_memory_and_computes_nothing(
    machine: Driver, toy: Callable[[str], Toy]
) -> None:
    one = toy("0")
    one.tell("allocate", 10)
    one.tell("busy", 90)
    os.kill(one.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, one.process.pid, os.WSTOPPED)
    row = read(machine)[0]
    assert (row["used"], row["busy"]) == (10 * GIB + CONTEXT_BYTES, 0)


def test_the_board_knows_who_holds_what(machine: Driver, board: Board, toy: Callable[[str], Toy]) -> None:
    one = toy("0,1")
    one.tell("allocate", 1, at=0)
    one.tell("allocate", 2, at=1)
    held = board.holders()
    pid = one.process.pid
    assert held[machine.gpu(0).uuid] == {pid: GIB + CONTEXT_BYTES}
    assert held[machine.gpu(1).uuid] == {pid: 2 * GIB + CONTEXT_BYTES}


@pytest.mark.parametrize(
    ("mask", "slots"),
    [
        (None, (0, 1, 2)),
        ("", ()),
        ("-1", ()),
        ("2,0", (2, 0)),
        ("1,7,0", (1,)),
        ("GPU-bbbb3333", (2,)),
        ("GPU-bbbb", (2,)),
        ("GPU-aaaa", ()),
        ("GPU-aaaa2222,GPU-aaaa1111", (1, 0)),
        ("0,0", ()),
    ],
)
def test_the_mask_is_read_as_cuda_reads_it(mask: str | None, slots: tuple[int, ...]) -> None:
    assert masked(mask, UUIDS) == slots
