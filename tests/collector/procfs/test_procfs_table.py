"""From pids to processes over /proc trees that the test writes itself."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.model import JobKind, NodeName, ProcessKey
from collector.procfs.proc_files import MOST_COMMAND_BYTES, Folder, open_folder
from collector.procfs.process_table import SECOND_LOOK_MS, ProcessTable
from tests.collector.procfs.proc_tree import BOOT_S, ProcTree, started_ms

NODE = NodeName("gpu1")
NAMES = {0: "root", 1000: "ann", 1001: "bob"}
CONTAINER = "c0de" * 16
TORCH = "/env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so"
NOW = 1_800_000_000_000


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


def table(
    tree: ProcTree,
    *,
    exists: Callable[[int], bool | None] = lambda pid: False,
    host_pids: bool | None = None,
) -> ProcessTable:
    return ProcessTable(NODE, tree.root, user_name=NAMES.get, exists=exists, host_pids=host_pids)


def test_a_process_is_described_as_far_as_its_files_go(tree: ProcTree) -> None:
    tree.add(
        71,
        name="python",
        argv=("python", "train.py", "--token", "abc"),
        cgroup="0::/system.slice/slurmstepd.scope/job_812/step_0/user/task_0\n",
        maps=(TORCH, "/usr/lib/libcuda.so.550.54"),
        environ={"CUDA_VISIBLE_DEVICES": "0", "HOME": "/home/ann"},
        opens=("/dev/null", "/dev/nvidia0"),
        started_ticks=4_200,
    )
    found = table(tree).look([71], NOW)[71]
    assert found.key == ProcessKey(node=NODE, pid=71, started_ms=started_ms(4_200))
    assert found.key.started_ms == BOOT_S * 1000 + 42_000
    assert (found.user, found.uid, found.name) == ("ann", 1000, "python")
    assert found.command == "python train.py --token ***"
    assert found.frameworks == ("PyTorch",)
    assert (found.slurm_job, found.slurm_step) == ("812", "0")
    assert found.environment == (("CUDA_VISIBLE_DEVICES", "0"),)
    assert (found.cuda_mapped, found.device_open) == (True, True)
    assert found.unreadable == ()
    assert found.tree == found.key
    assert found.kind is JobKind.BATCH


def test_a_name_may_hold_brackets_and_spaces(tree: ProcTree) -> None:
    tree.add(71, name="evil) R 1 (x", started_ticks=99)
    found = table(tree).look([71], NOW)[71]
    assert found.name == "evil) R 1 (x"
    assert found.key.started_ms == started_ms(99)


def test_cuda_mapped_is_not_a_gpu_used(tree: ProcTree) -> None:
    tree.add(71, maps=("/usr/lib/libcuda.so.1",), opens=("/dev/nvidiactl", "/dev/nvidia-uvm"))
    found = table(tree).look([71], NOW)[71]
    assert (found.cuda_mapped, found.device_open) == (True, False)


def test_nothing_is_read_again_while_the_process_lives(tree: ProcTree) -> None:
    tree.add(71)
    processes = table(tree)
    first = processes.look([71], NOW)[71]
    tree.map(71, (TORCH,))
    assert processes.look([71], NOW + SECOND_LOOK_MS - 1)[71] is first


def test_late_imports_are_seen_in_one_second_look(tree: ProcTree) -> None:
    tree.add(71)
    processes = table(tree)
    assert processes.look([71], NOW)[71].frameworks == ()
    tree.map(71, (TORCH,))
    second = processes.look([71], NOW + SECOND_LOOK_MS)[71]
    assert second.frameworks == ("PyTorch",)
    tree.map(71, ("/usr/lib/libnvinfer.so.10",))
    assert processes.look([71], NOW + 10 * SECOND_LOOK_MS)[71] is second


def test_a_reused_pid_is_another_process(tree: ProcTree) -> None:
    tree.add(71, uid=1000, started_ticks=100)
    processes = table(tree)
    first = processes.look([71], NOW)[71]
    tree.add(71, uid=1001, started_ticks=900)
    second = processes.look([71], NOW + 1)[71]
    assert (first.user, second.user) == ("ann", "bob")
    assert first.key != second.key


def test_a_process_that_ended_is_left_out(tree: ProcTree) -> None:
    tree.add(71)
    processes = table(tree)
    processes.look([71], NOW)
    tree.remove(71)
    assert processes.look([71, 4_000_000], NOW + 1) == {}


def test_a_hidden_process_is_hidden_and_not_gone(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", mount_options="rw,hidepid=invisible")
    processes = ProcessTable(NODE, tree.root, user_name=NAMES.get)
    (note,) = processes.look([71], NOW)[71].unreadable
    assert note.startswith("hidden: /proc is mounted with hidepid")


def test_a_hidden_process_keeps_the_key_it_was_first_seen_with(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", mount_options="rw,hidepid=2")
    processes = table(tree)
    first = processes.look([71], NOW)[71]
    assert first.key.started_ms == NOW
    assert processes.look([71], NOW + 60_000)[71].key == first.key


def test_another_mount_s_hidepid_hides_nothing_here(tree: ProcTree) -> None:
    other = "40 27 0:9 / /srv/other rw - proc proc rw,hidepid=2\n"
    (tree.root / "self" / "mountinfo").write_text(other)
    assert table(tree).look([71], NOW) == {}


def test_a_pid_of_another_namespace_is_named_as_that(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", namespace="pid:[4026532555]")
    (note,) = table(tree).look([71], NOW)[71].unreadable
    assert note.startswith("pid namespace: the driver's pid is not in this container")


def test_the_same_pid_in_a_container_is_not_taken_for_the_driver_s(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", namespace="pid:[4026532555]")
    tree.add(71, argv=("nginx",))
    tree.add(72, argv=("python", "train.py"), maps=(TORCH, "/usr/lib/libcuda.so.1"))
    found = table(tree).look([71, 72], NOW)
    assert (found[71].user, found[71].command, found[71].tree) == (None, None, None)
    assert found[71].unreadable[0].startswith("pid namespace: not the host's")
    assert found[72].user == "ann"


def test_who_knows_that_the_pids_fit_may_say_so(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", namespace="pid:[4026532555]")
    tree.add(71)
    assert table(tree, host_pids=True).look([71], NOW)[71].user == "ann"


def test_a_host_s_proc_mounted_into_a_container_shows_the_host_s_pids(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc", namespace="pid:[4026532555]")
    tree.add(2, name="kthreadd", parent=0, argv=())
    tree.add(71)
    assert table(tree).look([71], NOW)[71].user == "ann"


def test_the_tree_first_seen_stays_when_the_launcher_ends(tree: ProcTree) -> None:
    tree.add(70, name="torchrun", argv=("python", "/env/bin/torchrun", "t.py"), started_ticks=50)
    tree.add(71, parent=70)
    processes = table(tree)
    first = processes.look([71], NOW)[71]
    assert first.tree == ProcessKey(node=NODE, pid=70, started_ms=started_ms(50))
    assert first.launcher == "torchrun"
    stat = (tree.root / "71" / "stat").read_text()
    (tree.root / "71" / "stat").write_text(stat.replace("S 70", "S 1"))
    tree.remove(70)
    second = processes.look([71], NOW + SECOND_LOOK_MS)[71]
    assert (second.tree, second.launcher, second.parent_pid) == (first.tree, "torchrun", 1)


def test_a_foreground_process_on_a_terminal_is_interactive_and_a_background_one_is_not(
    tree: ProcTree,
) -> None:
    tree.add(71, tty=34816, group=71, foreground_group=71)
    tree.add(72, tty=34816, group=72, foreground_group=71)
    found = table(tree).look([71, 72], NOW)
    assert (found[71].kind, found[72].kind) == (JobKind.INTERACTIVE, JobKind.BATCH)


def test_root_after_sudo_is_the_person_who_logged_in(tree: ProcTree) -> None:
    tree.add(71, uid=0, login_uid=1001)
    tree.add(72, uid=0)
    tree.add(73, uid=0, login_uid=1001, cgroup=f"0::/system.slice/docker-{CONTAINER}.scope\n")
    found = table(tree).look([71, 72, 73], NOW)
    assert [found[pid].user for pid in (71, 72, 73)] == ["bob", "root", None]
    assert [found[pid].uid for pid in (71, 72, 73)] == [0, 0, 0]


def test_a_uid_in_a_container_is_not_the_account_of_that_number(tree: ProcTree) -> None:
    tree.add(71, uid=1000, cgroup=f"0::/system.slice/docker-{CONTAINER}.scope\n")
    rootless = f"0::/user.slice/user-1001.slice/user@1001.service/libpod-{CONTAINER}.scope\n"
    tree.add(72, uid=1000, cgroup=rootless)
    found = table(tree).look([71, 72], NOW)
    assert [found[pid].user for pid in (71, 72)] == [None, "bob"]
    assert found[71].container == CONTAINER


def test_many_open_files_are_looked_at_up_to_a_bound(tree: ProcTree) -> None:
    tree.add(71, opens=("/dev/null",) * 4097)
    found = table(tree).look([71], NOW)[71]
    assert found.device_open is None
    assert found.unreadable == ("fd: more open files than the 4096 that are looked at",)


def test_a_variable_beyond_a_megabyte_of_others_is_unknown_and_said_to_be(tree: ProcTree) -> None:
    filling = {f"V{number}": "v" * 1000 for number in range(1100)}
    tree.add(71, environ={"RANK": "0", **filling, "WORLD_SIZE": "8"})
    found = table(tree).look([71], NOW)[71]
    assert found.environment == (("RANK", "0"),)
    assert found.unreadable == ("environ: more variables than are looked at",)


def test_of_a_command_line_its_start_is_read_whoever_is_near(tree: ProcTree) -> None:
    """A line of parents may share six megabytes, of which each look would make a million arguments."""
    for pid in (70, 71):
        tree.add(pid, parent=pid - 1, argv=("python", "train.py", *["x"] * 1_000_000))
    folder = open_folder(tree.root, 71)
    assert isinstance(folder, Folder)
    assert folder.command() == b"python\0train.py\0" + b"x\0" * ((MOST_COMMAND_BYTES - 16) // 2)
    folder.close()
    assert str(table(tree).look([71], NOW)[71].command).startswith("python train.py x x")


def test_a_process_not_asked_for_in_ten_minutes_is_forgotten_with_its_descriptor(tree: ProcTree) -> None:
    tree.add(71)
    tree.add(72)
    processes = table(tree)
    first = processes.look([71, 72], NOW)[71]
    processes.look([72], NOW + 700_000)
    again = processes.look([71], NOW + 700_001)[71]
    assert again is not first
    assert replace(again) == first


def test_close_gives_descriptors_back(tree: ProcTree) -> None:
    for pid in range(100, 120):
        tree.add(pid)
    before = len(list(Path("/proc/self/fd").iterdir()))
    processes = table(tree)
    processes.look(range(100, 120), NOW)
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 20
    processes.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_stat_line_cut_short_is_no_process(tree: ProcTree) -> None:
    tree.add(71)
    (tree.root / "71" / "stat").write_text("71 (python) S 1")
    assert table(tree).look([71], NOW) == {}


class Tripping:
    """A directory that fails on one uid in a way that nobody foresaw, until it is mended."""

    def __init__(self, uid: int) -> None:
        self.uid: int | None = uid

    def __call__(self, uid: int) -> str | None:
        if uid == self.uid:
            raise OverflowError("no such number")
        return NAMES.get(uid)


def test_a_process_over_which_fallow_trips_costs_itself_alone(
    tree: ProcTree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.add(71, uid=1000)
    tree.add(72, uid=4000, started_ticks=99)
    looked = ProcessTable(NODE, tree.root, user_name=Tripping(4000), exists=lambda pid: False)
    found = looked.look([72, 71], NOW)
    assert looked.look([71, 72], NOW + 1) == found
    assert (found[71].user, found[71].unreadable) == ("ann", ())
    assert found[72].key == ProcessKey(node=NODE, pid=72, started_ms=started_ms(99))
    assert found[72].unreadable == ("description: a fault in Fallow: OverflowError('no such number')",)
    assert found[72].user is None
    (line,) = caplog.records
    assert "process 72 could not be described" in line.getMessage() and line.exc_info
    looked.close()


def test_a_fault_at_a_later_look_leaves_what_was_seen(tree: ProcTree) -> None:
    tree.add(71, uid=1000)
    faults = iter([None, OSError("logind answers with nonsense")])

    def seated() -> None:
        if (fault := next(faults)) is not None:
            raise fault

    looked = ProcessTable(NODE, tree.root, user_name=NAMES.get, exists=lambda pid: False, seated=seated)
    found = looked.look([71], NOW)
    assert looked.look([71], NOW + SECOND_LOOK_MS) == found and found[71].user == "ann"
    looked.close()


def test_a_fault_before_anything_was_read_costs_that_pid_alone(tree: ProcTree) -> None:
    tree.add(71)
    own = tree.root / str(os.getpid())
    (tree.root / "self").rename(own)
    (tree.root / "self").symlink_to(str(os.getpid()))
    found = table(tree, exists=Tripping(72)).look([72, 71], NOW)  # type: ignore[arg-type]
    assert found[71].user == "ann"
    assert found[72].unreadable == ("description: a fault in Fallow: OverflowError('no such number')",)
