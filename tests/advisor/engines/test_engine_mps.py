"""Looking for an MPS control daemon: a pid file, and a process that is what the file says."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from advisor.engines.mps import PID_FILE, find_mps


@contextmanager
def process_named(name: str, folder: Path) -> Iterator[int]:
    """A real process of that name, as its comm has it."""
    (folder / name).symlink_to("/bin/sleep")
    process = subprocess.Popen([folder / name, "60"])
    while Path(f"/proc/{process.pid}/comm").read_text().strip() != name[:15]:
        assert process.poll() is None  # the kernel names it a moment after it was started
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_daemon_that_runs_is_found_with_its_owner(tmp_path: Path) -> None:
    with process_named("nvidia-cuda-mps-control", tmp_path) as pid:
        (tmp_path / PID_FILE).write_text(f"{pid}\n")
        found = find_mps({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    assert found.pipe_directory == str(tmp_path)
    mine = pwd.getpwuid(os.getuid()).pw_name
    assert found.owner == (None if os.getuid() == 0 else mine)
    assert found.users == frozenset()


def test_no_pid_file_a_dead_daemon_and_somebody_elses_pid_are_told_apart(tmp_path: Path) -> None:
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert find_mps(environment).why == f"no MPS control daemon was found at {tmp_path}"
    (tmp_path / PID_FILE).write_text("nonsense")
    assert "no MPS control daemon was found" in find_mps(environment).why
    with process_named("sleeper", tmp_path) as pid:
        (tmp_path / PID_FILE).write_text(str(pid))
        assert "is sleeper and no MPS control daemon" in find_mps(environment).why
    assert "runs no more" in find_mps(environment).why
    assert find_mps(environment).pipe_directory is None
