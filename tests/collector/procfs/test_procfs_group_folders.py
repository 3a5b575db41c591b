"""Whose the folders of a control group are: real cgroup file systems, and a folder that was given away."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.model import NodeName, Process
from collector.procfs.cgroup_folders import Folders, GroupFolders
from collector.procfs.process_table import PROC, ProcessTable
from tests.collector.procfs.observers import in_fork, needs_root
from tests.conftest import program

EVE = 4_666
POD = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"


def mounted() -> Path:
    """A cgroup file system in which root may make folders; skips where there is none."""
    needs_root()
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind = after.split()[0]
        at = Path(before.split()[4])
        if kind in ("cgroup", "cgroup2") and before.split()[3] == "/" and not (at / "cpuset.cpus").exists():
            trial = at / f"fallow-trial-{os.getpid()}"
            try:
                trial.mkdir()
            except OSError:
                continue
            trial.rmdir()
            return at
    pytest.skip("needs a cgroup file system that root may write to")


@contextmanager
def group(path: str, given_away: str | None = None) -> Iterator[Process]:
    """A real process in the group ``path``, whose folder ``given_away`` and all below it Eve made herself."""
    top = mounted()
    parts = Path(path).parts
    made = [top.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    child = subprocess.Popen([program("sleep", "coreutils"), "600"])
    try:
        for folder in made:
            below = given_away is not None and folder.is_relative_to(top / given_away)
            if below and folder != top / str(given_away):
                in_fork(lambda folder=folder: (os.setuid(EVE), folder.mkdir())[1])  # type: ignore[misc]
            else:
                folder.mkdir()
                os.chown(folder, EVE if below else 0, 0)
        (made[-1] / "cgroup.procs").write_text(str(child.pid), encoding="ascii")
        yield ProcessTable(NodeName("node-a")).look([child.pid], 1)[child.pid]
    finally:
        child.kill()
        child.wait()
        for folder in reversed(made):
            if folder.exists():
                folder.rmdir()


@pytest.mark.process
@pytest.mark.parametrize(
    ("path", "given_away", "job", "pod"),
    [
        ("slurm_fallow/uid_4666/job_7/step_0", None, "7", None),
        ("slurm_fallow/uid_4666/job_7/step_0", "slurm_fallow/uid_4666/job_7/step_0", "7", None),
        ("slurm_fallow/uid_4666/job_7/step_0", "slurm_fallow", None, None),
        (f"fallow-kubelet/kubepods/pod{POD}", None, None, POD),
        (f"fallow-kubelet/kubepods/pod{POD}", "fallow-kubelet", None, None),
    ],
    ids=["slurm's", "a step of the user's", "eve's job", "a kubelet's", "eve's pod"],
)
def test_a_folder_below_one_that_was_given_away_is_nobody_s_word(
    path: str, given_away: str | None, job: str | None, pod: str | None
) -> None:
    with group(path, given_away) as process:
        assert (process.slurm_job, process.pod) == (job, pod)


@pytest.mark.process
def test_a_container_in_a_folder_of_one_s_own_is_one_s_own() -> None:
    name = f"docker-{'4f1c' * 16}.scope"
    with group(f"fallow-own/{name}", "fallow-own") as process:
        assert (process.container, process.user) == ("4f1c" * 16, f"uid-{EVE}")


def test_what_cannot_be_looked_at_is_not_known(tmp_path: Path) -> None:
    folders = GroupFolders(tmp_path)
    assert folders.look("", "/slurm/uid_1/job_7") is None
    real = GroupFolders(PROC)
    assert real.look("", "/is/not/there") is None
    assert real.look("no-such-controller", "/") is None


def test_a_mount_of_the_host_s_tree_is_read_from_where_it_begins(tmp_path: Path) -> None:
    needs_root()
    (tmp_path / "self").mkdir()
    at = tmp_path / "host cgroup"
    for name in ("system.slice/slurmstepd.scope", "user.slice"):
        (at / name).mkdir(parents=True)
    os.chown(at / "user.slice", EVE, 0)
    line = rf"36 25 0:30 /../.. {tmp_path}/host\040cgroup ro - cgroup2 cgroup2 rw,nsdelegate"
    (tmp_path / "self" / "mountinfo").write_text(line + "\n", encoding="utf-8")
    folders = GroupFolders(tmp_path)
    assert folders.look("", "/../../system.slice/slurmstepd.scope") == Folders(by_root=2)
    assert folders.look("", "/../../user.slice") == Folders(by_root=1, beneath=EVE)
    assert folders.look("", "/../own.scope") is None
    assert folders.look("memory", "/../../user.slice") is None
