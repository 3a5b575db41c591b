"""A foreign CUDA process on a real GPU: checkpointed, its memory gone from the GPU, restored, and unharmed.

Prints seconds per GiB; nothing is asserted of speed.
"""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from advisor.engines.checkpoint import GIB, unfit
from advisor.engines.checkpointer import LONGEST_S, LocalCheckpointer
from advisor.register.foreign import Seen
from collector.model import NodeName
from collector.procfs.entanglements import entanglement
from service.examined import driver_version

pytestmark = pytest.mark.gpu

HELD = """
import sys, torch
size = int(sys.argv[1]) << 30
held = torch.arange(size // 4, dtype=torch.int32, device="cuda")
small = torch.ones(1024, 1024, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    whole = int((held[:: 1 << 20].sum()).item())
    print(int(held[-1].item()), whole, float((small @ small).sum().item()), flush=True)
"""
READY_S, GONE_S = 120.0, 30.0


@pytest.fixture
def local() -> LocalCheckpointer:
    if driver_version() is None:
        pytest.skip("no NVIDIA driver is loaded; run on a machine with a GPU")
    if platform.machine() != "x86_64":
        pytest.skip(f"CUDA checkpoints processes on x86-64 only, and this is {platform.machine()}")
    return LocalCheckpointer(driver_version, lock_timeout_s=10.0)


@pytest.fixture(params=[1, 4, 16], ids=lambda gib: f"{gib} GiB")
def process(request: pytest.FixtureRequest) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that holds so many GiB on the first GPU, and answers a line with what is in them."""
    torch = pytest.importorskip("torch", reason="torch with CUDA is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA; install the CUDA build beside the tests")
    held = subprocess.Popen(
        [sys.executable, "-c", HELD, str(request.param)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert held.stdout is not None and held.stdout.readline().strip() == "ready"
        yield held, request.param
    finally:
        held.kill()
        held.wait()


def memory_of(pid: int) -> int:
    """MiB that nvidia-smi has for the process; 0 when it isn't on a GPU."""
    done = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = (line.split(",") for line in done.stdout.splitlines() if "," in line)
    return sum(int(used) for name, used in rows if name.strip() == str(pid) and used.strip().isdigit())


def answer(held: "subprocess.Popen[str]") -> str:
    assert held.stdin is not None and held.stdout is not None
    held.stdin.write("\n")
    held.stdin.flush()
    return held.stdout.readline()


def test_foreign_process_is_checkpointed_and_comes_back_unharmed(
    local: LocalCheckpointer, process: tuple["subprocess.Popen[str]", int]
) -> None:
    held, gib = process
    before = answer(held)
    now = entanglement(held.pid)
    assert now is not None
    print(f"\nmanaged {now.managed_bytes}, shared {now.shared_tensors}, nccl {now.nccl}, others {now.others}")
    seen = Seen(
        node=NodeName(os.uname().nodename),
        pid=held.pid,
        started_ms=now.started_ms,
        uid=now.uid,
        memory_bytes=gib * GIB,
    )
    assert unfit(local.host(), local.targets([seen])) is None
    paused = local.pause([held.pid]).ended(LONGEST_S)
    assert paused is not None and paused.ok, paused
    until = time.monotonic() + GONE_S
    while memory_of(held.pid) > 0:
        assert time.monotonic() < until, "its memory is still on the GPU"
        time.sleep(0.2)
    resumed = local.resume([held.pid]).ended(LONGEST_S)
    assert resumed is not None and resumed.ok, resumed
    assert answer(held) == before
    for verb, deed in (("pause", paused), ("resume", resumed)):
        spent = sum(deed.seconds.values())
        print(f"{verb} {gib} GiB: {dict(deed.seconds)}, {spent / gib:.3f} s per GiB")
