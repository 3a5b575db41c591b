"""What ties a process to others, as /proc shows it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.procfs import checkpoint_blockers
from collector.procfs.checkpoint_blockers import Looking, available_bytes, entanglement, mps_pids, owner
from tests.collector.procfs.proc_tree import ProcTree

UVM = "/dev/nvidia-uvm"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    root = tmp_path / "proc"
    root.mkdir()
    return ProcTree(root)


def maps(folder: Path, *lines: str) -> None:
    (folder / "maps").write_text("".join(f"{line}\n" for line in lines))


def test_this_very_process_is_tied_to_nobody() -> None:
    found = entanglement(os.getpid())
    assert found is not None
    assert (found.uid, found.traced, found.nccl, found.shared_tensors) == (os.getuid(), False, False, False)
    assert found.managed_bytes == 0
    assert (available_bytes() or 0) > 0


def test_process_that_is_gone_is_none() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert entanglement(done.pid) is None


@pytest.mark.parametrize(
    ("line", "nccl", "tensors", "managed"),
    [
        ("7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/nccl-a1b2c3", True, False, 0),
        ("7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/torch_9_456_0", False, True, 0),
        ("7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/torch_unknown", False, True, 0),
        ("7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/torch_9_456_0 (deleted)", False, False, 0),
        ("7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/cuda.shm.0.1a.1", False, True, 0),
        (f"10000000-50000000 rw-s 00000000 00:06 9  {UVM}", False, False, 1 << 30),
        ("7f00-7f10 r-xp 00000000 08:01 5  /usr/lib/libnccl.so.2", False, False, 0),
        ("7f00-7f10 rw-p 00000000 00:00 0 ", False, False, 0),
    ],
)
def test_signs_in_the_memory_map(tree: ProcTree, line: str, nccl: bool, tensors: bool, managed: int) -> None:
    maps(tree.add(9), "5500-5600 r-xp 00000000 08:01 5  /usr/bin/python3", line)
    found = entanglement(9, tree.root)
    assert found is not None
    assert (found.nccl, found.shared_tensors, found.managed_bytes) == (nccl, tensors, managed)


@pytest.mark.parametrize(
    ("maker_opens", "maker_maps", "shared"),
    [
        ((), None, False),  # a loader's worker
        (("/dev/nvidia0",), "7f20-7f30 rw-s 00000000 00:06 9  /dev/nvidia0", False),  # by its fork alone
        (("/dev/nvidia0",), "7f40-7f50 rw-s 00000000 00:06 9  /dev/nvidia0", True),  # a context of its own
    ],
)
def test_a_named_segment_of_torch_is_of_gpu_memory_where_its_maker_uses_a_gpu(
    tree: ProcTree, maker_opens: tuple[str, ...], maker_maps: str | None, shared: bool
) -> None:
    """``torch.multiprocessing``'s strategy file_system keeps the names of CPU batches too."""
    segment = "7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/torch_10_456_0"
    maps(tree.add(9), "7f20-7f30 rw-s 00000000 00:06 9  /dev/nvidia0", segment)
    maps(tree.add(10, parent=9, opens=maker_opens), *([] if maker_maps is None else [maker_maps]))
    found = entanglement(9, tree.root)
    assert found is not None and found.shared_tensors is shared


def test_a_segment_whose_maker_is_gone_shares_no_gpu_memory(tree: ProcTree) -> None:
    maps(tree.add(9), "7f00-7f10 rw-s 00000000 00:01 5  /dev/shm/torch_10_456_0")
    found = entanglement(9, tree.root)
    assert found is not None and found.shared_tensors is False


LOADER = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset
from collector.procfs.checkpoint_blockers import entanglement
torch.multiprocessing.set_sharing_strategy(sys.argv[1])
batches = iter(DataLoader(TensorDataset(torch.randn(4096, 64)), batch_size=32, num_workers=1))
seen = 0
for _ in range(5):
    batch, found = next(batches), entanglement(os.getpid())
    assert found is not None and found.shared_tensors is False, "a batch is no GPU memory"
    seen += b"/dev/shm/torch_" in open("/proc/self/maps", "rb").read()
assert seen, "no batch lay in shared memory: nothing was tried"
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_the_batches_of_a_real_loader_are_no_shared_gpu_memory(strategy: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADER, strategy],
        cwd=Path(__file__).parents[3],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/usr/lib/libnccl.so.2", True),
        ("/env/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", True),
        ("/usr/lib/libnccl-net.so", True),
        ("/usr/lib/libtorch_cuda.so", False),
        ("/dev/shm/nccl-a1", False),
    ],
)
def test_the_library_of_nccl_is_seen_where_no_segment_is(tree: ProcTree, path: str, there: bool) -> None:
    maps(tree.add(9), f"7f00-7f10 r-xp 00000000 08:01 5  {path}")
    found = entanglement(9, tree.root)
    assert found is not None and found.nccl_library is there


def test_map_that_may_not_be_read_is_no_all_clear(tree: ProcTree) -> None:
    folder = tree.add(9)
    (folder / "maps").unlink()
    (folder / "maps").mkdir()
    found = entanglement(9, tree.root)
    assert found is not None
    assert (found.nccl, found.shared_tensors, found.managed_bytes) == (None, None, None)


def test_descendants_with_a_gpu_open_are_named_and_others_are_not(tree: ProcTree) -> None:
    tree.add(9)
    tree.add(10, parent=9, opens=("/dev/null",))
    tree.add(11, parent=10, opens=("/dev/nvidia0",))
    tree.add(12, parent=1, opens=("/dev/nvidia0",))
    tree.add(13, parent=9, opens=("/dev/nvidiactl", UVM))
    maps(tree.root / "11", "7f20-7f30 rw-s 00000000 00:06 9  /dev/nvidia0")
    found = entanglement(9, tree.root)
    assert found is not None and (found.others, found.inherited) == ((11,), ())


def test_loader_workers_have_the_gpu_open_by_inheritance_alone(tree: ProcTree) -> None:
    """Files that are open stay so over a fork; a mapping that is copied lies at its parent's address."""
    opens = ("/dev/nvidiactl", "/dev/nvidia0")
    context = "7f20-7f30 rw-s 00000000 00:06 9  /dev/nvidia0"
    maps(tree.add(9, opens=opens), context)
    maps(tree.add(10, parent=9, opens=opens), "5500-5600 r-xp 00000000 08:01 5  /usr/bin/python3")
    maps(tree.add(11, parent=9, opens=opens), context)
    maps(tree.add(12, parent=9, opens=opens), "7f40-7f50 rw-s 00000000 00:06 9  /dev/nvidiactl")
    maps(tree.add(13, parent=12, opens=opens), "7f40-7f50 rw-s 00000000 00:06 9  /dev/nvidiactl")
    (tree.add(14, parent=9, opens=opens) / "maps").unlink()
    (tree.root / "14" / "maps").mkdir()
    found = entanglement(9, tree.root)
    assert found is not None
    assert found.inherited == (10, 11, 13), "no context of their own"
    assert found.others == (12, 14), "a context of its own, and one whose maps cannot be read"


def test_descendants_beyond_the_bound_of_one_question_are_said_to_be_unread(tree: ProcTree) -> None:
    tree.add(9)
    tree.add(8)
    for pid in range(10, 20):
        tree.add(pid, parent=9)
    tree.add(20, parent=8)
    looking = Looking(tree.root, most=10)
    first, second = (entanglement(pid, tree.root, looking=looking) for pid in (9, 8))
    assert first is not None and first.descendants_read
    assert second is not None and not second.descendants_read, "the bound is of all that are asked for"


def test_where_the_time_of_one_question_is_over_nothing_is_an_all_clear(tree: ProcTree) -> None:
    tree.add(9)
    tree.add(10, parent=9)
    now_s = iter(range(100))
    found = entanglement(9, tree.root, looking=Looking(tree.root, limit_s=2, now_s=lambda: next(now_s)))
    assert found is not None and (found.uid, found.descendants_read) == (1000, False)
    over = entanglement(9, tree.root, looking=Looking(tree.root, limit_s=0, now_s=lambda: next(now_s)))
    assert over is not None and (over.nccl, over.managed_bytes) == (None, None)


def test_the_memory_map_of_a_parent_is_read_once_for_all_its_children(tree: ProcTree) -> None:
    """Else a thousand children of one with a large map cost a thousand times its reading."""
    opens = ("/dev/nvidia0",)
    maps(tree.add(9, opens=opens), "7f20-7f30 rw-s 00000000 00:06 9  /dev/nvidia0")
    looking = Looking(tree.root)
    assert looking.gpu_addresses(9) == {b"7f20"}
    (tree.root / "9" / "maps").write_text("")
    assert looking.gpu_addresses(9) == {b"7f20"}


def test_a_memory_map_that_was_not_read_to_its_end_is_no_all_clear(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_blockers, "MOST_MAP_BYTES", 100)
    maps(tree.add(9), *["5500-5600 r-xp 00000000 08:01 5  /usr/bin/python3"] * 3)
    found = entanglement(9, tree.root)
    assert found is not None and found.nccl is None


def test_whose_process_it_is_is_known_without_its_descendants(tree: ProcTree) -> None:
    tree.add(9, uid=4001)
    found, whole = owner(9, tree.root), entanglement(9, tree.root)
    assert found is not None and whole is not None
    assert (found.uid, found.started_ms) == (4001, whole.started_ms)
    assert owner(10, tree.root) is None


def test_debugger_is_seen(tree: ProcTree) -> None:
    folder = tree.add(9)
    with (folder / "status").open("a") as status:
        status.write("TracerPid:\t77\n")
    found = entanglement(9, tree.root)
    assert found is not None and found.traced is True


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({}, None),
        ({"a/b": (100, 30)}, 70),
        ({"a": (100, 90), "a/b": (100, 30)}, 10),
        ({"a/b": ("max", 5)}, None),
    ],
)
def test_the_tightest_control_group_bounds_what_may_move(
    tree: ProcTree, tmp_path: Path, limits: dict[str, tuple[object, int]], left: int | None
) -> None:
    groups = tmp_path / "cgroup"
    (groups / "a" / "b").mkdir(parents=True)
    for name, (most, now) in limits.items():
        (groups / name / "memory.max").write_text(f"{most}\n")
        (groups / name / "memory.current").write_text(f"{now}\n")
    tree.add(9, cgroup="0::/a/b\n")
    found = entanglement(9, tree.root, groups)
    assert found is not None
    assert (found.cgroup_left_bytes, found.cgroup_read) == (left, True)


def test_mps_is_known_by_its_cut_name_and_its_real_user(tree: ProcTree) -> None:
    for pid, name, uids in (
        (20, "nvidia-cuda-mps", "0 0"),
        (21, "python", "0 0"),
        (22, "nvidia-cuda-mps", "7 0"),
    ):
        (tree.add(pid) / "comm").write_text(f"{name}\n")
        (tree.root / str(pid) / "status").write_text(f"Uid:\t{uids} 0 0\n")
    assert mps_pids(tree.root) == {0: (20,), 7: (22,)}
