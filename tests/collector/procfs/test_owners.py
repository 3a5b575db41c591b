"""Whose a process is: of one's own uid, or of one that is mapped to it, and nobody else's."""

import os
import subprocess
from pathlib import Path

import pytest

from collector.model import NodeName
from collector.procfs.owners import belongs_to, lender_of, lent_uids
from collector.procfs.process_table import ProcessTable
from tests.collector.procfs.proc_tree import ProcTree
from tests.conftest import program

ANN, BEN, LENT = 4001, 4002, 200_000
WHOLE = "0 0 4294967295\n"


def process(proc: Path, pid: int, uid: int, uid_map: str = WHOLE) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\ttrain\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "uid_map").write_text(uid_map)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path / "proc", 7, 0)
    (tmp_path / "proc" / "self").symlink_to("7")
    return tmp_path / "proc"


def subuid(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "subuid"
    path.write_text(text)
    return path


def test_a_process_of_ones_own_uid_is_ones_own(proc: Path, tmp_path: Path) -> None:
    none = tmp_path / "missing"
    process(proc, 10, ANN)
    assert belongs_to(10, ANN, proc, none)
    assert not belongs_to(10, BEN, proc, none)
    assert not belongs_to(11, ANN, proc, none), "nobody's: it is not there"
    assert not belongs_to(7, ANN, proc, none)


def test_what_a_rootless_container_runs_is_of_whom_its_uids_were_lent_to(proc: Path, tmp_path: Path) -> None:
    lent = subuid(tmp_path, f"ann:1:2\n{ANN}:{LENT}:65536\n{BEN}:300000:65536\nbroken\n:x:y\n")
    process(proc, 10, LENT + 1000)
    assert belongs_to(10, ANN, proc, lent)
    assert not belongs_to(10, BEN, proc, lent)
    assert not belongs_to(10, 0, proc, lent)
    assert lent_uids(ANN, lent) == (range(LENT, LENT + 65536),)


def test_where_nobody_knows_the_ranges_the_namespace_says_whose_it_is(proc: Path, tmp_path: Path) -> None:
    none = tmp_path / "missing"
    process(proc, 10, LENT + 1000, f"0 {ANN} 1\n1 {LENT} 65536\n")
    process(proc, 11, BEN, f"0 {ANN} 1\n1 {LENT} 65536\n")
    process(proc, 12, LENT + 1000, f"0 {LENT} 65536\n")
    assert belongs_to(10, ANN, proc, none)
    assert not belongs_to(10, BEN, proc, none)
    assert not belongs_to(11, ANN, proc, none), "its uid is not of that map: it only entered"
    assert not belongs_to(12, ANN, proc, none), "a map of the machine's own making is nobody's in particular"


def test_a_namespace_that_everybody_is_in_makes_nobody_anybodys(proc: Path, tmp_path: Path) -> None:
    """As where the service itself runs in a container whose map holds all that it sees."""
    none = tmp_path / "missing"
    (proc / "7" / "uid_map").write_text("0 0 65536\n")
    process(proc, 10, BEN, "0 0 65536\n")
    process(proc, 11, BEN)
    assert not belongs_to(10, ANN, proc, none)
    assert not belongs_to(11, ANN, proc, none)


def test_a_process_in_a_user_namespace_of_an_account_is_that_accounts() -> None:
    """A real one: root of its own namespace, and outside still who made it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    unshare = program("unshare", "util-linux")
    command = [unshare, "--user", "--map-root-user", "sh", "-c", "echo; exec cat"]
    made = subprocess.Popen(
        command, user=ANN, group=ANN, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with made:
        assert made.stdin is not None and made.stdout is not None
        if not made.stdout.readline():
            pytest.skip("this machine lets no user make a namespace")
        assert belongs_to(made.pid, ANN)
        assert not belongs_to(made.pid, BEN)
        assert not belongs_to(made.pid, 0)
        made.stdin.close()


def test_a_uid_that_was_lent_is_of_whom_it_was_lent_to(tmp_path: Path) -> None:
    lent = subuid(tmp_path, f"root:100000:65536\nann:{LENT}:65536\n0:300000:10\nbroken\n:x:y\n")
    assert lender_of(LENT + 1000, lent) == "ann"
    assert lender_of(LENT - 1, lent) is None
    assert lender_of(100_001, lent) is None, "root's are its containers' users"
    assert lender_of(300_001, lent) is None
    assert lender_of(LENT, tmp_path / "missing") is None


def test_a_process_in_a_namespace_of_ones_own_is_ones_own(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path / "proc")
    tree.add(71, uid=LENT + 1000)
    lent = subuid(tmp_path, f"ann:{LENT}:65536\n")
    table = ProcessTable(NodeName("a"), tree.root, user_name={}.get, lender=lambda uid: lender_of(uid, lent))
    assert table.look([71], 1)[71].user == "ann"
    table.close()
