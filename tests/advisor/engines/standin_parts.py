"""The stand-in libcuda, compiled and loaded by the child that asks the driver, beside the stand-in NVML.

Where this machine has no compiler, that is said.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpoint import Deed
from advisor.engines.cuda_checkpointer import LocalCheckpointer
from advisor.engines.memory_transfers import Ongoing
from collector.model import GpuUuid
from tests.conftest import program
from tests.driver.driver import GIB, Driver

SOURCE = Path(__file__).with_name("standin_cuda.c")


@dataclass(frozen=True)
class Cuda:
    """The stand-in's folder."""

    folder: Path

    def put(self, pid: int, state: int) -> None:
        (self.folder / str(pid)).write_text(f"{state}\n")

    def state(self, pid: int) -> int:
        return int((self.folder / str(pid)).read_text())

    def mark(self, name: str) -> None:
        """A file that the stand-in looks for: ``full``, ``uvm.PID``, ``ipc.PID``."""
        (self.folder / name).write_text("1\n")

    def refuse(self, call: str, pid: int, code: int) -> None:
        (self.folder / f"refuse.{call}.{pid}").write_text(f"{code}\n")

    def calls(self) -> list[str]:
        log = self.folder / "calls.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = program("cc", "gcc")
    folder = tmp_path_factory.mktemp("libcuda")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / "libcuda.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """NVML's stand-in: one GPU of 80 GiB."""
    with Driver(tmp_path) as made:
        for name, value in made.variables().items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def cuda(library: Path, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{library}{os.pathsep}{driver.library}")
    monkeypatch.setenv("STANDIN_CUDA", str(tmp_path))
    return Cuda(tmp_path)


def held(driver: Driver, *pids: int, gib: int = 1) -> dict[int, dict[GpuUuid, int]]:
    """So much on the one GPU, each."""
    return {pid: {GpuUuid(driver.gpu(0).uuid): gib * GIB} for pid in pids}


def local(version: str | None = "570.86.15") -> LocalCheckpointer:
    return LocalCheckpointer(lambda: version, lock_timeout_s=7.5)


def over(ongoing: Ongoing) -> Deed:
    deed = ongoing.ended(60)
    assert deed is not None, "it is over within a minute"
    return deed
