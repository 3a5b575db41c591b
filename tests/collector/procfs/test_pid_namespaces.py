"""What a process of another pid namespace means by its numbers, and that it can mean nobody else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.procfs.pid_namespaces import ids_of, translated
from tests.conftest import program

STAT = "{pid} (sh) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n"


class Table:
    """A /proc with a few processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, ids: tuple[int, ...], parent: int, namespace: str | None = None) -> None:
        folder = self.path / str(ids[0])
        (folder / "ns").mkdir(parents=True)
        (folder / "status").write_text("Name:\tsh\nNSpid:\t" + "\t".join(map(str, ids)) + "\n")
        (folder / "stat").write_text(STAT.format(pid=ids[0], parent=parent))
        if namespace is not None:
            (folder / "ns" / "pid").symlink_to(f"pid:[{namespace}]")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.add((1,), 0, "1")
    made.add((7,), 2, "1")
    made.add((500, 1), 1, "9")
    made.add((510, 7), 500, "9")
    made.add((511, 8), 510, "9")
    made.add((512, 9, 1), 511, "99")
    made.add((600, 1), 1, "6")
    made.add((607, 7), 600, "6")
    return made


def test_numbers_of_the_same_namespace_are_as_they_are(table: Table) -> None:
    assert translated((7, 500), 1, table.path) == (7, 500)
    assert translated((7,), 4242, table.path) == (), "nobody says anything any more"


def test_numbers_of_another_one_are_found_there_and_nowhere_else(table: Table) -> None:
    assert ids_of(510, table.path) == (510, 7)
    assert translated((8, 7, 8), 500, table.path) == (511, 510), "not 7, a kernel's thread, nor 607"
    assert translated((7,), 600, table.path) == (607,)
    assert translated((12, 607), 500, table.path) == ()


def test_what_lives_further_in_is_meant_by_its_number_in_the_tellers_own(table: Table) -> None:
    assert translated((9,), 500, table.path) == (512,)
    assert translated((1,), 500, table.path) == (500,)


def test_where_namespaces_may_not_be_read_only_descendants_are_meant(table: Table) -> None:
    for pid in ("500", "510", "511", "512", "600", "607"):
        (table.path / pid / "ns" / "pid").unlink()
    assert translated((7, 8, 9), 500, table.path) == (510, 511, 512)
    assert translated((8,), 600, table.path) == ()


def test_a_real_namespace() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a pid namespace")
    unshare = program("unshare", "util-linux")
    script = (
        "import os, subprocess, sys\n"
        "worker = subprocess.Popen(['sleep', '600'])\n"
        "print(os.getpid(), worker.pid, flush=True)\n"
        "input()\n"
        "worker.kill()\n"
    )
    command = [unshare, "--pid", "--fork", "--mount-proc", sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdin is not None and made.stdout is not None
        inner = [int(word) for word in made.stdout.readline().split()]
        if not inner:
            pytest.skip("this machine lets nobody make a pid namespace")
        (launcher,) = children(made.pid)
        assert inner[0] == 1 and ids_of(launcher)[-1] == 1
        assert translated(inner, launcher) == (launcher, *children(launcher))
        made.stdin.write("\n")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
