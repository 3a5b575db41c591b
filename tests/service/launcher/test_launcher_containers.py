"""A job that is launched inside a container of root's: its processes are its own by the kernel's word.

A real service over the stand-in driver, real control groups as a container engine makes them. In a container
no uid is anybody's, and an environment may name any job.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.client import connect
from tests.collector.procfs.test_procfs_group_folders import mounted
from tests.conftest import program
from tests.driver.driver import GIB, CompilerMissing, Driver, build
from tests.service.launcher.conftest import until
from tests.service.launcher.site import LIMIT_S, Site
from tests.service.launcher.test_launcher_real import waits

pytestmark = pytest.mark.process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("only root can make control groups")
    try:
        build()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    place = Path(tempfile.mkdtemp(prefix="fallow-site-"))
    with Driver(tmp_path, gpus=2) as driver:
        made = Site(tmp_path, driver, place)
        made.serve()
        try:
            yield made
        finally:
            made.close()
            shutil.rmtree(place)


@pytest.fixture
def container() -> Iterator[Path]:
    """A control group as an engine that root runs makes it."""
    above = mounted() / "docker"
    made = above / (f"{os.getpid():x}".rjust(8, "0") * 8)
    is_new = not above.exists()
    made.mkdir(parents=True)
    try:
        yield made
    finally:
        until(lambda: not (made / "cgroup.procs").read_text(), "what ran in it is gone", LIMIT_S)
        made.rmdir()
        if is_new:
            above.rmdir()


def inside(container: Path, *, pids: bool) -> tuple[str, ...]:
    """Runs what follows in the container, with a pid namespace of its own or the host's pids."""
    unshare = f"{program('unshare', 'util-linux')} --pid --fork --mount-proc --kill-child" if pids else ""
    return ("sh", "-c", f'echo $$ > {container}/cgroup.procs && exec {unshare} "$@"', "-")


def said_runs(site: Site, job: str) -> set[str]:
    """The ids of runs that the processes say which are known to be this job's."""
    rows = connect(site.data).rows("run_ids", job=job)
    return {str(row["value"]) for row in rows}


def on_gpu(site: Site, job: str, *pids: int) -> None:
    (uuid,) = site.stands(job, "running")["gpus"]
    gpu = site.driver.gpu(site.gpus.index(uuid))
    for pid in pids:
        gpu.process(pid, memory=GIB)
    gpu.memory_used = 2 * GIB


def worker_of(row: dict[str, Any]) -> int:
    (pid,) = row["report"]["pids"]
    return int(pid)


@pytest.mark.parametrize("pids", [True, False], ids=["own pids", "the host's pids"])
def test_processes_of_a_job_in_a_container_are_the_job_s(
    site: Site, container: Path, tmp_path: Path, pids: bool
) -> None:
    words = ("env", "WANDB_RUN_ID=mine", *waits(tmp_path / "go"))
    job = site.run("inside", "--gpus", "1", "--", *words, before=inside(container, pids=pids))
    row = site.stands(job, "running")
    assert str(row["launcher"]["pid"]) in (container / "cgroup.procs").read_text().split()
    env = {**os.environ, "WANDB_RUN_ID": "not-mine", "FALLOW_JOB": job}
    liar = subprocess.Popen([*inside(container, pids=False), "sleep", "600"], env=env)
    try:
        on_gpu(site, job, worker_of(row), liar.pid)
        until(lambda: said_runs(site, job) == {"mine"}, "its worker is known to be its", LIMIT_S)
        (uuid,) = row["gpus"]
        seen = lambda: {each["pid"] for each in connect(site.data).rows("processes_now", uuid=uuid)}  # noqa: E731
        until(lambda: liar.pid in seen(), "the other one is seen", LIMIT_S)
        assert said_runs(site, job) == {"mine"}, "what another one in the container says counts for nothing"
    finally:
        liar.kill()
        liar.wait()
    (tmp_path / "go").touch()
    assert site.stands(job, "ended")["exit_reason"] == "done"


def test_a_job_in_a_container_is_known_again_after_a_restart(
    site: Site, container: Path, tmp_path: Path
) -> None:
    words = ("env", "WANDB_RUN_ID=mine", *waits(tmp_path / "go"))
    job = site.run("inside", "--gpus", "1", "--", *words, before=inside(container, pids=True))
    row = site.stands(job, "running")
    site.restart()
    on_gpu(site, job, worker_of(row))
    until(lambda: said_runs(site, job) == {"mine"}, "its worker is known to be its", LIMIT_S)
    (tmp_path / "go").touch()
    assert site.stands(job, "ended")["exit_reason"] == "done"
