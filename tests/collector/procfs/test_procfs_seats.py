"""Who sits at the machine, and a real process that borrows a name."""

import subprocess
import sys
from pathlib import Path

import pytest

from collector.attribution import attribute
from collector.model import Gpu, GpuUuid, Holder, JobId, NodeClaim, NodeName, ProcessSample, ProcessType
from collector.procfs.process_table import ProcessTable
from collector.procfs.seats import seated
from tests.collector.procfs.observers import needs_root
from tests.collector.procfs.proc_tree import ProcTree

NODE = NodeName("node-a")
EVE = 4_666
RENAMED = """
import ctypes, os, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""
"""PR_SET_NAME (prctl(2)): the name that /proc/PID/comm has."""


def seat(folder: Path, name: str, *uids: int) -> None:
    folder.mkdir(exist_ok=True)
    head = "# This is private data. Do not parse.\nIS_SEAT0=1\nACTIVE=2\nACTIVE_UID=7\n"
    (folder / name).write_text(f"{head}UIDS={' '.join(map(str, uids))}\n")


def test_those_with_a_session_at_a_seat_are_known(tmp_path: Path) -> None:
    assert seated(tmp_path / "none") is None
    (tmp_path / "empty").mkdir()
    assert seated(tmp_path / "empty") is None
    seat(tmp_path / "seats", "seat0", 1000, 116)
    seat(tmp_path / "seats", "seat1", 1001)
    assert seated(tmp_path / "seats") == {1000, 116, 1001}
    seat(tmp_path / "none-there", "seat0")
    assert seated(tmp_path / "none-there") == frozenset()


@pytest.mark.parametrize(
    ("uid", "cgroup", "there"),
    [
        (1000, "0::/user.slice/user-1000.slice/session-2.scope\n", True),
        (1001, "0::/user.slice/user-1001.slice/session-3.scope\n", False),
        (1000, f"0::/system.slice/docker-{'4f1c' * 16}.scope\n", False),
        (1000, f"0::/user.slice/user-1000.slice/user@1000.service/libpod-{'4f1c' * 16}.scope\n", True),
    ],
)
def test_a_process_is_at_a_seat_by_its_owner(tmp_path: Path, uid: int, cgroup: str, there: bool) -> None:
    tree = ProcTree(tmp_path)
    tree.add(70, uid=0, name="nvidia-cuda-mps")
    tree.add(71, uid=uid, cgroup=cgroup, parent=70)
    table = ProcessTable(NODE, tree.root, user_name={}.get, seated=lambda: frozenset({1000}))
    found = table.look([71], 1)[71]
    table.close()
    assert (found.at_seat, found.parent_of_root) == (there, "nvidia-cuda-mps")


@pytest.mark.process
@pytest.mark.parametrize("kind", [ProcessType.COMPUTE, ProcessType.BOTH])
def test_a_stranger_s_process_that_calls_itself_xorg_is_an_intruder(kind: ProcessType) -> None:
    needs_root()
    with subprocess.Popen(
        [sys.executable, "-c", RENAMED, "Xorg", str(EVE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        table = ProcessTable(NODE, seated=lambda: frozenset({1000}))
        process = table.look([child.pid], 1)[child.pid]
        table.close()
        child.kill()
    assert (process.name, process.uid) == ("Xorg", EVE)
    gpu = Gpu(uuid=GpuUuid("GPU-0"), node=NODE, index=0)
    sample = ProcessSample(uuid=gpu.uuid, key=process.key, at_ms=1, width_ms=1, type=kind)
    claim = NodeClaim(node=NODE, holder=Holder(job=JobId("slurm:812"), user="ann"), index=0)
    found = attribute([gpu], [], [process], [sample], 1, node_claims=[claim])
    assert [each.key for each in found.intrusions] == [process.key]
    free = attribute([gpu], [], [process], [sample], 1)
    assert [each.holder.user for each in free.allocations] == [f"uid-{EVE}"]
