"""A process of a made-up account, and the stand-in libcuda where that account may write what it is asked."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpointer import LocalCheckpointer
from service.systemd import beyond_account
from tests.advisor.engines.standin_parts import SOURCE, Cuda
from tests.conftest import program
from tests.driver.driver import Driver

OPEN_TO_ALL = Path(__file__).with_name("open_to_all.sh")
CHECKOUT = Path(__file__).parents[3]
ROOTS_HOME = Path("/root")
OWNER, OTHER, GROUP = 47001, 47002, 47100


class OwnedCuda(Cuda):
    """Refuses whoever is not of the account of the process, as driver 580.159 does."""

    def asked(self) -> list[tuple[int, int, int, bool]]:
        """Of each process that loaded it: uid, gid, capabilities, and whether it had a lock of a GPU open."""
        log = self.folder / "asked.log"
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        words = [line.split() for line in lines]
        return [(int(uid), int(gid), int(powers, 16), lock == "1") for uid, gid, powers, lock in words]


@pytest.fixture
def owned(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnedCuda]:
    """The stand-in in a folder of its own, found by its place: a child of another account has no variable."""
    if os.geteuid() != 0:
        pytest.skip("to be two accounts needs root")
    folder = Path(tempfile.mkdtemp(prefix="fallow-owned-"))
    folder.chmod(0o777)
    try:
        compiled(folder)
        monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}{os.pathsep}{driver.library}")
        monkeypatch.delenv("STANDIN_CUDA", raising=False)
        monkeypatch.setattr(sys, "executable", reachable(folder))
        cuda = OwnedCuda(folder)
        cuda.mark("owners")
        yield cuda
    finally:
        shutil.rmtree(folder)


def reachable(folder: Path) -> str:
    """An interpreter that every account can run: this one, or a script that makes it so."""
    closed = beyond_account(Path(sys.executable))
    if closed is None:
        return sys.executable
    unshare = [program("unshare", "util-linux"), "-m", "--propagation", "private"]
    if closed != ROOTS_HOME or subprocess.run([*unshare, "true"], check=False).returncode != 0:
        pytest.skip(f"other accounts cannot run {sys.executable}: {closed} is closed to them")
    (folder / "stage").mkdir()
    needed = dict.fromkeys(str(Path(each).resolve()) for each in (sys.base_prefix, sys.prefix, CHECKOUT))
    words = [*unshare, str(OPEN_TO_ALL), str(folder / "stage"), *needed, "--", sys.executable]
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)
    return str(script)


def compiled(folder: Path, was: str = "", now: str = "") -> None:
    """The stand-in, built into this folder; with a change, one that misbehaves."""
    text = SOURCE.read_text()
    assert was in text
    (folder / "cuda.c").write_text(text.replace(was, now, 1) if was else text)
    output = str(folder / "libcuda.so.1")
    subprocess.run(
        [program("cc", "gcc"), "-shared", "-fPIC", "-O1", "-o", output, "cuda.c"], cwd=folder, check=True
    )


@pytest.fixture
def job(owned: OwnedCuda) -> "Iterator[subprocess.Popen[bytes]]":
    """A process of the owner, which the stand-in knows as running."""
    process = subprocess.Popen(["sleep", "600"], user=OWNER, group=OWNER, extra_groups=[GROUP])
    owned.put(process.pid, 0)
    yield process
    process.kill()
    process.wait()


def as_owner() -> LocalCheckpointer:
    return LocalCheckpointer(lambda: "580.159", lock_timeout_s=7.5, as_owner=True)
