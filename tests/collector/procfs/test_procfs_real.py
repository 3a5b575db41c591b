"""Real processes, really of another user, really hidden, really in another pid namespace."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.model import JobKind, NodeName, Process
from collector.procfs.process_table import SECOND_LOOK_MS, ProcessTable
from tests.collector.procfs.observers import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    become_nobody,
    in_fork,
    mounted_proc,
    needs_root,
    public_folder,
    unshare,
)

NODE = NodeName("here")

MAPPER = """
import mmap, os, sys
kept = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
print("mapped", flush=True)
for path in sys.stdin:
    with open(path.strip(), "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    print("mapped", flush=True)
"""


def library(folder: Path, name: str) -> str:
    path = folder / name
    path.write_bytes(b"\x7fELF" + bytes(4096))
    return str(path)


@contextmanager
def running(*libraries: str, environ: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A real process that has mapped these files, and maps more when their names are written to it."""
    child = subprocess.Popen(
        [sys.executable, "-c", MAPPER, *libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **(environ or {})},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "mapped\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_real_process_is_known_by_what_it_mapped(tmp_path: Path) -> None:
    before_ms = now_ms()
    torch, cuda = library(tmp_path, "libtorch_cuda.so"), library(tmp_path, "libcuda.so.1")
    with running(torch, cuda, environ={"CUDA_VISIBLE_DEVICES": "3", "API_KEY": "x"}) as child:
        found = ProcessTable(NODE).look([child.pid], now_ms())[child.pid]
    assert found.frameworks == ("PyTorch",)
    assert (found.cuda_mapped, found.device_open) == (True, False)
    assert found.environment == (("CUDA_VISIBLE_DEVICES", "3"),)
    assert (found.user, found.uid) == (getpass.getuser(), os.getuid())
    assert found.parent_pid == os.getpid()
    assert found.command is not None
    assert found.command.startswith(f"{sys.executable} -c ")
    assert found.unreadable == ()
    assert before_ms - 2_000 <= found.key.started_ms <= now_ms() + 2_000


def test_a_real_process_tells_its_run_and_keeps_its_keys() -> None:
    said = {
        "WANDB_RUN_ID": "3k2",
        "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
        "MLFLOW_TRACKING_URI": "https://ann:secret@mlflow.example.org/",
        "MLFLOW_TRACKING_TOKEN": "secret",
    }
    with running(environ=said) as child:
        found = ProcessTable(NODE).look([child.pid], now_ms())[child.pid]
    assert found.environment == (
        ("MLFLOW_TRACKING_URI", "https://mlflow.example.org/"),
        ("WANDB_RUN_ID", "3k2"),
    )
    assert "secret" not in repr(found) and said["WANDB_API_KEY"] not in repr(found)


LISTENER = """
import os, socket, sys, time
own = socket.socket(socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET)
own.bind(("::1" if sys.argv[1] == "6" else "127.0.0.1", int(sys.argv[2])))
own.listen()
child = os.fork()
if child == 0:
    own.close()
    time.sleep(60)
print(child, flush=True)
sys.stdin.read()
os.kill(child, 9)
"""


def free_port() -> int:
    """A port that nobody listens on, of those that the kernel gives to nobody."""
    for port in range(20_001, 21_000):
        with socket.socket() as own, contextlib.suppress(OSError):
            own.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")


@pytest.mark.parametrize("version", ["4", "6"])
def test_a_real_socket_makes_a_server_of_its_process_and_of_its_child(version: str) -> None:
    port = free_port()
    command = [sys.executable, "-c", LISTENER, version, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        child = int(parent.stdout.readline())
        table = ProcessTable(NODE)
        found = table.look([parent.pid, child], now_ms())
        table.close()
        parent.stdin.close()
    assert [found[pid].listens for pid in (parent.pid, child)] == [(port,), (port,)]
    assert {found[pid].kind for pid in (parent.pid, child)} == {JobKind.INFERENCE}


def test_a_real_late_import_is_seen_at_the_second_look(tmp_path: Path) -> None:
    table = ProcessTable(NODE)
    with running(library(tmp_path, "libc10.so")) as child:
        first = table.look([child.pid], 0)[child.pid]
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(library(tmp_path, "libtensorflow_framework.so.2") + "\n")
        child.stdin.flush()
        assert child.stdout.readline() == "mapped\n"
        assert table.look([child.pid], SECOND_LOOK_MS - 1)[child.pid] is first
        second = table.look([child.pid], SECOND_LOOK_MS)[child.pid]
    table.close()
    assert first.frameworks == ("PyTorch",)
    assert second.frameworks == ("TensorFlow", "PyTorch")


def test_a_real_environment_is_the_one_at_exec_not_what_was_set_later() -> None:
    later = (
        'import os,sys; os.environ["CUDA_VISIBLE_DEVICES"]="1"; print("set", flush=True); sys.stdin.read()'
    )
    child = subprocess.Popen(
        [sys.executable, "-c", later],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "0"},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "set\n"
        found = ProcessTable(NODE).look([child.pid], 0)[child.pid]
    finally:
        child.communicate("")
    assert found.environment == (("CUDA_VISIBLE_DEVICES", "0"),)


def test_a_real_end_is_seen_and_never_mistaken_for_another(tmp_path: Path) -> None:
    table = ProcessTable(NODE)
    with running() as child:
        assert child.pid in table.look([child.pid], 0)
    assert table.look([child.pid], 1) == {}
    table.close()


def test_processes_that_end_while_they_are_read_do_no_harm() -> None:
    table = ProcessTable(NODE)
    for round_ in range(40):
        children = [subprocess.Popen(["true"]) for _ in range(5)]
        for child in children:
            for process in table.look([child.pid], round_).values():
                assert process.key.pid == child.pid
        for child in children:
            child.wait()
    table.close()


def test_two_trainings_of_one_real_prompt_are_two_jobs_and_their_workers_are_not() -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed; on Debian: apt-get install bash")
    worker = "import os,time; os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    script = f'for i in 1 2; do "{sys.executable}" -c "{worker}" & done; wait\n'
    prompt = subprocess.Popen(
        ["-bash", "--noprofile", "--norc"],
        executable=shutil.which("bash"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert prompt.stdin is not None and prompt.stdout is not None
        prompt.stdin.write(script)
        prompt.stdin.flush()
        pids = [int(prompt.stdout.readline()) for _ in range(4)]
        found = ProcessTable(NODE).look(pids, now_ms())
    finally:
        os.killpg(prompt.pid, signal.SIGKILL)
        prompt.communicate()
    heads = {process.tree for process in found.values()}
    assert len(found) == 4
    assert len(heads) == 2
    assert {head.pid for head in heads if head} <= set(pids)
    assert {process.kind for process in found.values()} == {JobKind.BATCH}


def test_another_user_s_process_shows_less_and_says_what(tmp_path: Path) -> None:
    needs_root()
    with running(library(tmp_path, "libtorch_cuda.so"), environ={"RANK": "1"}) as child:

        def look() -> Process:
            become_nobody()
            return ProcessTable(NODE, user_name={0: "root"}.get).look([child.pid], 0)[child.pid]

        found = in_fork(look)
    assert found.unreadable == (
        "maps: permission denied",
        "environ: permission denied",
        "fd: permission denied",
    )
    assert (found.user, found.uid) == ("root", 0)
    assert found.name is not None
    assert found.name.startswith("python")
    assert found.command is not None
    assert found.command.startswith(sys.executable)
    assert (found.frameworks, found.environment) == ((), ())
    assert (found.cuda_mapped, found.device_open) == (None, None)
    assert found.tree is not None


@pytest.mark.parametrize("option", ["hidepid=1", "hidepid=2", "hidepid=4"])
def test_a_process_behind_a_real_hidepid_mount_is_hidden_not_gone(option: str) -> None:
    needs_root()
    with running() as child, running() as ended, public_folder() as folder:
        ended.kill()
        ended.wait()

        def look() -> dict[int, Process]:
            unshare(CLONE_NEWNS)
            with mounted_proc(folder, option):
                become_nobody()
                return ProcessTable(NODE, folder).look([child.pid, ended.pid], 7)

        found = in_fork(look)
    assert found.keys() == {child.pid}
    (note,) = found[child.pid].unreadable
    assert note.startswith("hidden: /proc is mounted with hidepid")
    assert found[child.pid].key.started_ms == 7


def test_the_driver_s_pid_means_nothing_in_a_real_pid_namespace(tmp_path: Path) -> None:
    needs_root()
    cuda = library(tmp_path, "libcuda.so.1")

    def inside(folder: Path) -> dict[int, Process]:
        with mounted_proc(folder, ""), running() as plain, running(cuda) as computing:
            found = ProcessTable(NODE, folder).look([plain.pid, computing.pid, 900_000], 7)
            return {0: found[plain.pid], 1: found[computing.pid], 2: found[900_000]}

    def look() -> dict[int, Process]:
        unshare(CLONE_NEWNS | CLONE_NEWPID)
        with public_folder() as folder:
            return in_fork(lambda: inside(folder))

    plain, computing, elsewhere = in_fork(look).values()
    assert elsewhere.unreadable[0].startswith("pid namespace: the driver's pid is not in this container")
    assert plain.unreadable[0].startswith("pid namespace: not the host's, and nothing shows")
    assert (plain.user, plain.command) == (None, None)
    assert computing.user is not None
    assert computing.cuda_mapped
