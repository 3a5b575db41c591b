"""Bare pids get their user and framework; known ones are asked again only now and then."""

import getpass
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.model import (
    NodeName,
    Process,
    ProcessKey,
)
from collector.procfs.process_table import ProcessTable
from collector.reading import Reading
from service.sources.described import LOOK_MS, SETTLED_LOOK_MS, Described
from service.sources.making import SourceRefused, hub_accounts

NODE = NodeName("node-a")
T0_MS = 1_800_000_000_000
SLEEPER = "import sys; print(flush=True); sys.stdin.readline()"
MAPPER = """
import mmap, sys
print(flush=True)
file = open(sys.stdin.readline().strip(), "rb")
kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print(flush=True)
sys.stdin.readline()
"""


class Listed:
    """A source that hands out the processes it was given, the same objects each time."""

    name = "listed"

    def __init__(self, *processes: Process) -> None:
        self.processes = processes

    def read(self, now_ms: int) -> Reading:
        return Reading(source=self.name, at_ms=now_ms, gpus=(), samples=(), processes=self.processes)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def running(script: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def bare(pid: int) -> Process:
    """As the driver's side has it: a pid and its start, nothing else."""
    found = ProcessTable(NODE).look([pid], T0_MS)[pid]
    return Process(key=ProcessKey(node=NODE, pid=pid, started_ms=found.key.started_ms))


def described(source: Described, now_ms: int) -> list[Process]:
    reading = source.read(now_ms)
    assert isinstance(reading, Reading)
    return list(reading.processes or ())


def test_a_new_process_is_described_at_once_beside_a_known_one() -> None:
    with running(SLEEPER) as first, running(SLEEPER) as second:
        listed = Listed(bare(first.pid))
        source = Described(listed, NODE)
        (before,) = described(source, T0_MS)
        listed.processes = (*listed.processes, bare(second.pid))
        found = described(source, T0_MS + 10_000)
        source.close()
    assert before.user == getpass.getuser()
    assert [process.key.pid for process in found] == [first.pid, second.pid]
    assert [process.user for process in found] == [getpass.getuser()] * 2


def test_a_pid_that_now_is_another_process_is_not_taken_for_the_first() -> None:
    with running(SLEEPER) as child:
        known = bare(child.pid)
        listed = Listed(known)
        source = Described(listed, NODE)
        described(source, T0_MS)
        later = ProcessKey(node=NODE, pid=child.pid, started_ms=known.key.started_ms + 60_000)
        listed.processes = (Process(key=later),)
        (found,) = described(source, T0_MS + 10_000)
        source.close()
    assert found.key == later
    assert found.user is None


def test_a_framework_loaded_later_is_seen_at_the_next_look(tmp_path: Path) -> None:
    library = tmp_path / "libtorch_cuda.so"
    library.write_bytes(bytes(4096))
    with running(MAPPER) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        source = Described(Listed(bare(child.pid)), NODE)
        (before,) = described(source, T0_MS)
        print(library, file=child.stdin, flush=True)
        child.stdout.readline()
        (meanwhile,) = described(source, T0_MS + LOOK_MS - 1)
        (after,) = described(source, T0_MS + LOOK_MS)
        source.close()
    assert not before.frameworks
    assert not meanwhile.frameworks
    assert after.frameworks


def test_what_has_settled_is_asked_of_proc_again_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    look = ProcessTable.look

    def counted(table: ProcessTable, pids: Iterable[int], now_ms: int) -> dict[int, Process]:
        asked.append(now_ms - T0_MS)
        return look(table, pids, now_ms)

    with running(SLEEPER) as child, running(SLEEPER) as late:
        listed = Listed(bare(child.pid))
        newcomer = bare(late.pid)
        source = Described(listed, NODE)
        monkeypatch.setattr(ProcessTable, "look", counted)
        for at_ms in range(0, LOOK_MS + SETTLED_LOOK_MS + 1, LOOK_MS):
            described(source, T0_MS + at_ms)
        listed.processes = (*listed.processes, newcomer)
        described(source, T0_MS + LOOK_MS + SETTLED_LOOK_MS + 1)
        described(source, T0_MS + 2 * LOOK_MS + SETTLED_LOOK_MS + 1)
        source.close()
    last = LOOK_MS + SETTLED_LOOK_MS
    assert asked == [0, LOOK_MS, last, last + 1, last + 1 + LOOK_MS]


def test_a_hub_s_account_is_one_of_this_machine_or_a_number() -> None:
    found = hub_accounts(["root", "4666"])
    assert (found.uids, found.names) == ({0, 4666}, {"root", "uid-4666"})
    with pytest.raises(SourceRefused, match=r"hub_accounts names 'nobody-of-that-name'"):
        hub_accounts(["nobody-of-that-name"])
