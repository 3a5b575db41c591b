"""From a driver, real processes and a squeue to who holds what: every part as in the service."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from collector.attribution import effective
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.model import NodeName
from collector.reading import Reading
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from service.sources.described import Described
from tests.collector.managers.slurm_world import Job, World
from tests.collector.managers.slurm_world import Node as SlurmNode
from tests.driver.driver import GRAPHICS, CompilerMissing, Driver

NODE = NodeName("node-a")
NOW_MS = 1_800_000_000_000
GIB = 1 << 30

MAPPER = """
import mmap, sys
files = [open(path, "rb") for path in sys.argv[1:]]
kept = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
print("mapped", flush=True)
sys.stdin.read()
"""


@contextmanager
def training(folder: Path, *libraries: str, **environ: str) -> Iterator[int]:
    """A real process with these libraries mapped and these variables set; its pid."""
    for name in libraries:
        (folder / name).write_bytes(bytes(4096))
    child = subprocess.Popen(
        [sys.executable, "-c", MAPPER, *(str(folder / name) for name in libraries)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **environ},
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "mapped\n"
        yield child.pid
    finally:
        child.communicate("")


def test_driver_processes_and_squeue_become_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        try:
            driver = stack.enter_context(Driver(tmp_path, gpus=4))
        except CompilerMissing as missing:
            pytest.skip(str(missing))
        for name, value in driver.variables().items():
            monkeypatch.setenv(name, value)
        driver.clock_us = NOW_MS * 1000
        uuids = [driver.gpu(slot).uuid for slot in range(4)]
        given = stack.enter_context(training(tmp_path, "libtorch_cuda.so", CUDA_VISIBLE_DEVICES="2,3"))
        stray = stack.enter_context(training(tmp_path, "libnccl.so.2", FALLOW_JOB="night", SLURM_JOB_ID="9"))
        driver.gpu(2).process(given, 8 * GIB)
        driver.gpu(1).process(stray, 2 * GIB)
        options = NvmlOptions(processes_every=1, host_pids=True)
        nvml = Described(NvmlSource(node=NODE, options=options), NODE)
        stack.callback(nvml.close)
        queue = _slurm([_job(812, "0"), _job(9, "1")])
        readings = [nvml.read(NOW_MS), queue.read(NOW_MS)]

    assert all(isinstance(reading, Reading) for reading in readings), readings
    found = effective([reading for reading in readings if isinstance(reading, Reading)], NOW_MS)
    assert found is not None
    held = {each.uuid: each for each in found.allocations}
    assert [str(held[uuid].source) for uuid in uuids] == ["slurm", "slurm", "environment", "environment"]
    assert held[uuids[0]].holder.job == "slurm:812"
    assert held[uuids[1]].holder.framework == "NCCL"
    assert held[uuids[2]].holder == held[uuids[3]].holder
    assert held[uuids[2]].holder.framework == "PyTorch"
    assert {key.pid: job for key, job in found.owners.items()} == {
        given: held[uuids[2]].holder.job,
        stray: "slurm:9",
    }
    assert (found.orphans, found.unknown) == (frozenset(), frozenset())


def _job(number: int, index: str) -> Job:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    return Job(id=number, user=user, nodes=(NODE,), gres=(f"gpu:1(IDX:{index})",))


def _slurm(jobs: list[Job]) -> ManagerSource:
    world = World(jobs=jobs, nodes=[SlurmNode(name=NODE, used=f"gpu:{len(jobs)}")])
    return ManagerSource(SlurmManager(run=world.run))


LIAR = """
import ctypes, os, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
ctypes.CDLL(None).prctl(15, b"Xorg", 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""
"""Another account's process under a display server's name: PR_SET_NAME, prctl(2)."""
EVE = 4_666


@contextmanager
def lying(**environ: str) -> Iterator[int]:
    """A real process of Eve's that says of itself what she likes; its pid."""
    child = subprocess.Popen(
        [sys.executable, "-c", LIAR, str(EVE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **environ},
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "\n"
        yield child.pid
    finally:
        child.communicate("")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to play another account")
def test_another_account_s_words_put_nothing_on_its_victim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        try:
            driver = stack.enter_context(Driver(tmp_path, gpus=4))
        except CompilerMissing as missing:
            pytest.skip(str(missing))
        for name, value in driver.variables().items():
            monkeypatch.setenv(name, value)
        driver.clock_us = NOW_MS * 1000
        words = {"SLURM_JOB_ID": "812", "FALLOW_JOB": "slurm:812", "JUPYTERHUB_USER": "root"}
        intruding, hiding = stack.enter_context(lying(**words)), stack.enter_context(lying(**words))
        driver.gpu(0).process(intruding, 8 * GIB)
        driver.gpu(1).process(hiding, 8 * GIB, GRAPHICS)
        options = NvmlOptions(processes_every=1, host_pids=True)
        nvml = Described(NvmlSource(node=NODE, options=options), NODE)
        stack.callback(nvml.close)
        queue = _slurm([_job(812, "0"), _job(9, "3")])
        readings = [reading for each in (nvml, queue) if isinstance(reading := each.read(NOW_MS), Reading)]
        uuids = [driver.gpu(slot).uuid for slot in range(4)]

    found = effective(readings, NOW_MS)
    assert found is not None
    assert [(each.key.pid, each.uuid) for each in found.intrusions] == [(intruding, uuids[0])]
    users = {each.uuid: each.holder.user for each in found.allocations}
    me = users[uuids[0]]
    assert users == {uuids[0]: me, uuids[1]: f"uid-{EVE}", uuids[3]: me}
    assert (found.bystanders, {key.pid for key in found.owners}) == (frozenset(), {hiding})
