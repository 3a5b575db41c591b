"""Which processes are a job's by the kernel's word, over /proc trees that the test writes itself."""

import socket
from pathlib import Path

import pytest

from advisor.jobs.model import Launcher
from collector.model import JobId, NodeName, ProcessKey
from service.control.launched_processes import LaunchedProcesses
from tests.collector.procfs.proc_tree import ProcTree, started_ms

NODE = NodeName(socket.gethostname())
JOB, INNER = JobId("fallow:1"), JobId("fallow:2")
DOCKER = f"0::/docker/{'c0de' * 16}\n"


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


def add(tree: ProcTree, pid: int, parent: int, *, cgroup: str = DOCKER, ticks: int | None = None) -> None:
    folder = tree.add(pid, parent=parent, cgroup=cgroup, started_ticks=pid * 100 if ticks is None else ticks)
    (folder / "task" / str(pid)).mkdir(parents=True)
    (folder / "task" / str(pid) / "children").write_text("")
    children = tree.root / str(parent) / "task" / str(parent) / "children"
    if children.exists():
        children.write_text(f"{children.read_text()}{pid} ")


def key(pid: int) -> ProcessKey:
    return ProcessKey(node=NODE, pid=pid, started_ms=started_ms(pid * 100))


def launcher(pid: int, node: NodeName = NODE) -> Launcher:
    return Launcher(node=node, pid=pid, started_ms=started_ms(pid * 100))


def test_a_launcher_and_all_that_it_started_are_the_job_s_and_no_other(tree: ProcTree) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1)):
        add(tree, pid, parent)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    assert found.of([JOB, INNER]) == {JOB: (key(10), key(11), key(12))}
    assert found.of([INNER]) == {}


def test_what_was_started_stays_the_job_s_when_its_parents_end(tree: ProcTree) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11)):
        add(tree, pid, parent)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    found.of([JOB])
    for pid in (10, 11):
        (tree.root / str(pid)).rename(tree.root.parent / f"ended-{pid}")
    add(tree, 13, 12)
    assert found.of([JOB]) == {JOB: (key(12), key(13))}
    add(tree, 12, 1, ticks=999_999)
    (tree.root / "13").rename(tree.root.parent / "ended-13")
    assert found.of([JOB]) == {}, "a pid that somebody else has got by now"


def test_a_job_within_a_job_has_its_own(tree: ProcTree) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11)):
        add(tree, pid, parent)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    found.note(INNER, launcher(11))
    assert found.of([JOB, INNER]) == {JOB: (key(10),), INNER: (key(11), key(12))}


def test_a_launcher_noted_late_takes_its_own_back(tree: ProcTree) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11)):
        add(tree, pid, parent)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    assert found.of([JOB]) == {JOB: (key(10), key(11), key(12))}
    found.note(INNER, launcher(11))
    assert found.of([JOB, INNER]) == {JOB: (key(10),), INNER: (key(11), key(12))}


@pytest.mark.parametrize(
    "told", [launcher(10, NodeName("elsewhere")), Launcher(node=NODE, pid=10, started_ms=7), launcher(77)]
)
def test_what_is_not_that_launcher_here_is_none(tree: ProcTree, told: Launcher) -> None:
    add(tree, 10, 1)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, told)
    assert found.of([JOB]) == {}


def test_outside_of_containers_who_runs_a_process_says_whose_it_is(tree: ProcTree) -> None:
    add(tree, 10, 1, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    assert found.of([JOB]) == {}


def test_a_child_that_has_another_parent_by_now_is_none(tree: ProcTree) -> None:
    add(tree, 10, 1)
    add(tree, 11, 10)
    add(tree, 11, 1)
    found = LaunchedProcesses(tree.root)
    found.note(JOB, launcher(10))
    assert found.of([JOB]) == {JOB: (key(10),)}
