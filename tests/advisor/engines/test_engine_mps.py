"""Looking for an MPS control daemon: among the processes, in the directory that it sees and jobs see too."""

import os
import pwd
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from advisor.engines.mps import (
    DAEMON,
    DEFAULT_DIRECTORY,
    MOST_HUNG_OF_ONE,
    MOST_OF_ONE,
    PID_FILE,
    MpsSearch,
    find_mps,
    seldom,
)
from advisor.jobs.gpu_sharing import Mps
from collector.clock import SystemClock
from tests.hung_mount import hung_mount

VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"


@contextmanager
def daemon(folder: Path, name: str = DAEMON) -> Iterator[int]:
    """A real process of that name, which meets its clients in ``folder / "pipe"``."""
    pipe = folder / "pipe"
    pipe.mkdir()
    shutil.copy("/bin/sleep", folder / name)
    process = subprocess.Popen([folder / name, "60"], env={VARIABLE: str(pipe)})
    while Path(f"/proc/{process.pid}/comm").read_text().strip() != name[:15]:
        assert process.poll() is None  # the kernel names it a moment after it was started
    (pipe / PID_FILE).write_text(f"{process.pid}\n")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Proc:
    """A /proc with processes of our own; every one sees the whole machine unless it has a ``root``."""

    def __init__(self, folder: Path) -> None:
        self.path, self.machine = folder / "proc", folder / "machine"
        self.machine.mkdir()
        self.path.mkdir()
        self.add(1, "init")

    def add(
        self, pid: int, program: str, directory: str | None = None, root: Path | None = None, env: bytes = b""
    ) -> None:
        process = self.path / str(pid)
        process.mkdir()
        (process / "comm").write_text(f"{program[:15]}\n")
        (process / "cmdline").write_bytes(f"/usr/bin/{program}\0-d\0".encode())
        self.be(pid, os.geteuid())
        binary = self.machine / program
        binary.touch()
        (process / "exe").symlink_to(binary)
        (process / "environ").write_bytes(b"HOME=/root\0" + env)
        (process / "root").symlink_to(root or self.machine)
        if directory is not None:
            pipe = (root or self.machine) / directory.lstrip("/")
            pipe.mkdir(parents=True, exist_ok=True)
            (pipe / PID_FILE).write_text(f"{pid}\n")

    def be(self, pid: int, *uids: int) -> None:
        """Its real, effective, saved and file system uid; one for all."""
        four = uids if len(uids) == 4 else uids * 4
        (self.path / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{' '.join(map(str, four))}\n")

    def found(self, **environment: str) -> Mps:
        return find_mps(environment, self.path)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_daemon_that_runs_is_found_with_its_owner(tmp_path: Path) -> None:
    with daemon(tmp_path):
        found = find_mps({VARIABLE: str(tmp_path / "pipe")})
    assert found.pipe_directory == str(tmp_path / "pipe")
    mine = pwd.getpwuid(os.getuid()).pw_name
    assert found.owner == (None if os.getuid() == 0 else mine)
    assert found.users == frozenset()
    gone = find_mps({VARIABLE: str(tmp_path / "pipe")})
    assert (gone.pipe_directory, gone.why) == (
        None,
        f"no MPS control daemon was found at {tmp_path / 'pipe'}",
    )


def test_a_service_with_a_tmp_of_its_own_finds_the_daemon_outside(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can hide a folder from one process")
    with daemon(tmp_path):
        look = (
            "from advisor.engines.mps import find_mps; import os; print(find_mps(os.environ).pipe_directory)"
        )
        hides = 'mount -t tmpfs none "$1" && [ -z "$(ls "$1")" ] && exec "$2" -c "$3"'
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", hides, "sh", str(tmp_path / "pipe"), sys.executable, look],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, VARIABLE: str(tmp_path / "pipe")},
        )
    assert (done.stdout.strip(), done.returncode) == (str(tmp_path / "pipe"), 0), done.stderr


def test_a_daemon_is_found_where_it_was_told_to_meet_its_clients(proc: Proc) -> None:
    assert proc.found().why == "no MPS control daemon runs"
    proc.add(20, DAEMON, directory="/run/mps", env=f"{VARIABLE}=/run/mps\0".encode())
    assert proc.found().pipe_directory == "/run/mps"
    assert proc.found(CUDA_MPS_PIPE_DIRECTORY="/run/mps").pipe_directory == "/run/mps"
    other = proc.found(CUDA_MPS_PIPE_DIRECTORY="/run/other")
    assert (other.pipe_directory, other.why) == (None, "no MPS control daemon was found at /run/other")


def test_a_daemon_of_a_user_without_an_account_has_the_name_that_leases_know(proc: Proc) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    proc.add(20, DAEMON, directory="/tmp/nvidia-mps")
    proc.be(20, 54321)
    assert proc.found().owner == "uid-54321"


def test_the_server_and_somebody_who_talks_to_a_daemon_are_none(proc: Proc) -> None:
    proc.add(19, DAEMON)
    assert "process 19, an MPS control program, is no daemon" in proc.found().why
    proc.add(21, "nvidia-cuda-mps-server", directory=DEFAULT_DIRECTORY)
    assert proc.found().pipe_directory is None
    proc.add(20, DAEMON, directory=DEFAULT_DIRECTORY)
    assert proc.found().pipe_directory == DEFAULT_DIRECTORY


def test_a_daemon_whose_folder_jobs_cannot_see_is_not_theirs(proc: Proc, tmp_path: Path) -> None:
    proc.add(20, DAEMON, directory=DEFAULT_DIRECTORY, root=tmp_path / "apart")
    assert "that jobs do not see" in proc.found().why
    (proc.machine / "tmp").mkdir()
    shutil.copytree(tmp_path / "apart" / "tmp" / "nvidia-mps", proc.machine / "tmp" / "nvidia-mps")
    assert proc.found().pipe_directory is None, "another folder of the same name"


def test_where_nobody_can_tell_what_jobs_see_the_daemon_is_believed(proc: Proc, tmp_path: Path) -> None:
    proc.add(20, DAEMON, directory=DEFAULT_DIRECTORY, root=tmp_path / "apart")
    (proc.path / "1" / "root").unlink()
    assert proc.found().pipe_directory == DEFAULT_DIRECTORY


def test_who_may_not_read_a_daemons_environment_takes_it_at_the_default(proc: Proc) -> None:
    proc.add(20, DAEMON, directory=DEFAULT_DIRECTORY)
    (proc.path / "20" / "environ").unlink()
    assert proc.found().pipe_directory == DEFAULT_DIRECTORY


def test_a_folder_that_never_answers_holds_up_nobody_and_hides_nobodys_daemon(
    proc: Proc, tmp_path: Path
) -> None:
    """FUSE and a dead file server wait for ever; the number of looks that wait with them is bounded."""
    hung = proc.machine / "hung"
    hung.mkdir()
    proc.add(30, DAEMON, directory="/tmp/nvidia-mps")
    (proc.machine / "tmp" / "nvidia-mps" / "control").touch()
    for pid in range(20, 24):
        proc.add(pid, DAEMON, env=f"{VARIABLE}=/hung\0".encode())
        proc.be(pid, 4003)
    search = MpsSearch(proc.path, process_s=0.05)
    with hung_mount(hung):
        before = threading.active_count()
        for _ in range(5):
            assert search.find({}).pipe_directory == "/tmp/nvidia-mps"
        assert threading.active_count() == before + MOST_HUNG_OF_ONE
        shutil.rmtree(proc.path / "30")
        assert "the file system that its folder is on does not answer" in search.find({}).why
    while threading.active_count() > before:
        pass  # the threads come back with an error
    assert "does not answer" not in search.find({}).why, "and are let go of"


def test_it_is_looked_for_again_only_now_and_then() -> None:
    looks: list[Mps] = []

    def find() -> Mps:
        looks.append(Mps(why=f"look {len(looks)}"))
        return looks[-1]

    often, once = seldom(find, SystemClock(), every_s=0), seldom(find, SystemClock(), every_s=1000)
    assert often().why != often().why
    assert once() is once()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other accounts")
class TestNobodyIsBelieved:
    """What an account can make look like root's daemon: each by itself, and none is used."""

    EVE = 54_322

    @pytest.fixture
    def mps(self, proc: Proc) -> Path:
        """Root's daemon as it should be; its folder, as jobs see it."""
        proc.add(20, DAEMON, directory="/tmp/nvidia-mps")
        folder = proc.machine / "tmp" / "nvidia-mps"
        (folder / "control").touch()
        assert proc.found().pipe_directory == "/tmp/nvidia-mps"
        return folder

    def test_a_set_uid_program_that_waits_at_a_prompt(self, proc: Proc, mps: Path) -> None:
        proc.be(20, self.EVE, 0, 0, 0)
        assert proc.found() == Mps(
            why="process 20, an MPS control program, runs as root and uid-54322 at once, as programs do that "
            "root lets others start"
        )

    def test_another_program_under_its_name(self, proc: Proc, mps: Path) -> None:
        (proc.path / "20" / "exe").unlink()
        (proc.path / "20" / "exe").symlink_to("/usr/bin/su")
        assert "not used: its program is /usr/bin/su under another name" in proc.found().why

    def test_a_program_that_is_somebody_elses(self, proc: Proc, mps: Path) -> None:
        os.chown(proc.machine / DAEMON, self.EVE, 0)
        assert "is uid-54322's, or others may write it" in proc.found().why
        os.chown(proc.machine / DAEMON, 0, 0)
        (proc.machine / DAEMON).chmod(0o777)
        assert "or others may write it" in proc.found().why

    def test_a_folder_of_somebody_else(self, proc: Proc, mps: Path) -> None:
        os.chown(mps, self.EVE, self.EVE)
        assert "not used: the folder /tmp/nvidia-mps belongs to uid-54322" in proc.found().why

    def test_a_folder_below_somebody_elses(self, proc: Proc, mps: Path) -> None:
        os.chown(proc.machine / "tmp", self.EVE, self.EVE)
        assert "not used: the folder /tmp belongs to uid-54322" in proc.found().why

    def test_a_folder_in_which_anybody_may_exchange_a_pipe_and_the_command_that_mends_it(
        self, proc: Proc, mps: Path
    ) -> None:
        mps.chmod(0o777)
        assert proc.found().why.endswith(
            "the folder /tmp/nvidia-mps can be written by everybody (mode 0777), so others can put their own "
            "pipes there; as root: `chmod +t /tmp/nvidia-mps`"
        )
        mps.chmod(0o1777)
        assert proc.found().pipe_directory == "/tmp/nvidia-mps"
        (mps / "control").unlink()
        assert "there is no control in /tmp/nvidia-mps, and anybody could put one there" in proc.found().why

    @pytest.mark.parametrize("name", ["control", "control_privileged", "log", PID_FILE])
    def test_a_pipe_of_somebody_else(self, proc: Proc, mps: Path, name: str) -> None:
        (mps / name).touch()
        os.chown(mps / name, self.EVE, self.EVE)
        assert f"/tmp/nvidia-mps/{name} belongs to uid-54322" in proc.found().why

    @pytest.mark.parametrize("place", ["mps", "/run/m\nps"])
    def test_a_place_that_no_lease_can_name(self, proc: Proc, mps: Path, place: str) -> None:
        (proc.path / "20" / "environ").write_bytes(f"{VARIABLE}={place}\0".encode())
        assert "which is no absolute path" in proc.found().why

    def test_a_real_daemon_beside_an_impostor_is_found(self, proc: Proc, mps: Path) -> None:
        proc.add(19, DAEMON, directory="/home/eve/mps", env=f"{VARIABLE}=/home/eve/mps\0".encode())
        proc.be(19, self.EVE, 0, 0, 0)
        assert proc.found().pipe_directory == "/tmp/nvidia-mps"

    @pytest.mark.parametrize("what", ["fifo", "endless", "long"])
    def test_a_file_that_never_ends_does_not_hold_up_the_look(self, proc: Proc, mps: Path, what: str) -> None:
        (mps / PID_FILE).unlink()
        if what == "fifo":
            os.mkfifo(mps / PID_FILE)
        elif what == "endless":
            (mps / PID_FILE).symlink_to("/dev/zero")
        else:
            (mps / PID_FILE).write_bytes(b"20" + b" " * (1 << 20))
        found: list[Mps] = []
        looking = threading.Thread(target=lambda: found.append(proc.found()), daemon=True)
        looking.start()
        looking.join(20)
        assert found
        assert found[0].pipe_directory == ("/tmp/nvidia-mps" if what == "long" else None)

    def test_a_crowd_of_that_name_is_not_looked_at_one_by_one(self, proc: Proc, mps: Path) -> None:
        for pid in range(2, 2 + MOST_OF_ONE):
            proc.add(pid, DAEMON)
            proc.be(pid, self.EVE)
        proc.add(19, DAEMON, directory="/run/mps", env=f"{VARIABLE}=/run/mps\0".encode())
        assert proc.found(CUDA_MPS_PIPE_DIRECTORY="/run/mps").pipe_directory == "/run/mps"
        proc.be(19, self.EVE)
        assert proc.found(CUDA_MPS_PIPE_DIRECTORY="/run/mps").pipe_directory is None
        assert proc.found().pipe_directory == "/tmp/nvidia-mps"

    def test_somebodys_own_daemon_serves_that_account_alone(self, proc: Proc, mps: Path) -> None:
        proc.be(20, self.EVE)
        for path in (mps, mps / "control", mps / PID_FILE):
            os.chown(path, self.EVE, self.EVE)
        assert proc.found().owner == "uid-54322"
