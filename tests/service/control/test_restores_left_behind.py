"""A service is killed while a job's memory comes back: its GPUs stay the job's until it runs again.

The service is a process that is really killed, the locks and the store are real, and so is the process that
asks the driver; only the driver itself is the stand-in, whose restore does not begin before the test lets it.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.actions import Resume
from advisor.engines.external import BEGUN_BEFORE, ExternalEngine, ExternalEngineDependencies
from advisor.jobs.external_jobs import ExternalJobStore, Holder, Paused, Seen
from advisor.outcomes import Done, Late, Stale
from collector.model import GpuUuid, JobId
from collector.procfs.checkpoint_blockers import CheckpointBlocker
from service.control.gpu_locks import GpuLocks, RestoreLease
from service.privileged.client import HandCheckpointer
from service.privileged.hand import Hand
from service.privileged.journal import open_journal
from service.privileged.wire import serve, server
from tests.advisor.engines.external_parts import NODE, HandClock, opened
from tests.advisor.engines.standin_parts import Cuda, cuda, driver, library, local
from tests.driver.driver import GIB, Driver
from tests.service.privileged.test_hand import Ear, StandIn

__all__ = ("cuda", "driver", "library")

PID = 41
JOB = JobId(f"pid:{NODE}/{PID}@1")
OTHER = JobId("pid:n/8@1")
CHECKPOINTED, RUNNING = 2, 0
SERVICE = """
import sys
from pathlib import Path
from advisor.engines.cuda_checkpointer import LocalCheckpointer
from service.control.gpu_locks import GpuLocks, RestoreLease
folder, job, uuid = sys.argv[1:]
lease = RestoreLease(GpuLocks(Path(folder), "process 7, /one"), dict)
assert lease.reserve(job, [uuid]) is None
LocalCheckpointer(lambda: "580.1", 5.0).resume([41], {41: {uuid: 1 << 30}}, lease.descriptors(job))
print("begun", flush=True)
sys.stdin.readline()
"""


def until(what: str, holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until_s, what
        time.sleep(0.05)


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's process runs, for /proc; no process has to have this pid here."""
    now = CheckpointBlocker(pid=PID, started_ms=1, uid=1000)
    monkeypatch.setattr("advisor.engines.cuda_checkpointer.entanglement", lambda pid, looking: now)


@pytest.fixture
def killed(living: None, cuda: Cuda, driver: Driver, tmp_path: Path) -> Path:
    """The folder of the locks of a service that was killed: its restore was given and has not begun."""
    cuda.put(PID, CHECKPOINTED)
    cuda.mark("wait")
    folder = tmp_path / "locks"
    folder.mkdir()
    command = [sys.executable, "-c", SERVICE, str(folder), JOB, driver.gpu(0).uuid]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None and service.stdout.readline() == "begun\n"
        os.kill(service.pid, signal.SIGKILL)
    assert cuda.state(PID) == CHECKPOINTED, "its child has not come to the restore"
    return folder


def next_service(folder: Path, book: ExternalJobStore, uuid: GpuUuid) -> tuple[ExternalEngine, GpuLocks]:
    locks = GpuLocks(folder, "process 8, /one")
    seen = Seen(node=NODE, pid=PID, started_ms=1, uuids=(uuid,), memory_bytes=GIB, held={uuid: GIB})
    book.begin(Paused(job=JOB, holder=Holder(), processes=(seen,), gpus=(uuid,)), 5)
    parts = ExternalEngineDependencies(
        book=book,
        sightings=lambda job: (),
        ways=(),
        checkpointer=local("580.1"),
        node=NODE,
        account_uid=lambda name: None,
        lease=RestoreLease(locks, dict),
    )
    return ExternalEngine(parts), locks


@pytest.mark.process
def test_its_gpus_are_nobodys_else_from_the_kill_on(
    killed: Path, cuda: Cuda, driver: Driver, tmp_path: Path
) -> None:
    uuid = GpuUuid(driver.gpu(0).uuid)
    with opened(tmp_path, HandClock()) as (_, book):
        neighbour = GpuLocks(killed, "process 9, /two")
        refused = neighbour.take([uuid])
        assert refused is not None and f"the return of {JOB}; process 7, /one" in refused
        engine, locks = next_service(killed, book, uuid)
        refused = locks.take([uuid])
        assert refused is not None and JOB in refused, "before its first settling"
        resume = Resume(job=JOB, gpus=(uuid,))
        assert isinstance(engine.settle(resume), Late), "its child is alive: it is not `still paused`"
        refused = locks.take([uuid])
        assert refused is not None and f"kept for {JOB}" in refused
        (cuda.folder / "wait").unlink()
        until("the child restores it and ends", lambda: isinstance(engine.settle(resume), Done))
        assert cuda.state(PID) == RUNNING
        assert neighbour.take([uuid]) is None, "the lease ends with the restore"


@pytest.mark.process
def test_it_is_not_brought_back_a_second_time_meanwhile(
    killed: Path, cuda: Cuda, driver: Driver, tmp_path: Path
) -> None:
    uuid = GpuUuid(driver.gpu(0).uuid)
    with opened(tmp_path, HandClock()) as (_, book):
        engine, _ = next_service(killed, book, uuid)
        lease = RestoreLease(GpuLocks(killed, "process 8, /one"), dict)
        assert not lease.under_way(OTHER, [uuid]), "another job's return"
        assert lease.under_way(JOB, [uuid])
        resume = Resume(job=JOB, gpus=(uuid,))
        assert engine.do(resume, 6) == Stale(found=BEGUN_BEFORE)
        (cuda.folder / "wait").unlink()
        until("the child ends", lambda: not lease.locks.under_way(JOB, [uuid]))
        assert cuda.calls().count(f"restore {PID} 0") == 1


def test_the_hand_holds_the_locks_while_it_restores(tmp_path: Path) -> None:
    began = 1_000_000
    checkpointer = StandIn()
    journal = open_journal(tmp_path / "journal.jsonl")
    hand = Hand(
        checkpointer,
        Ear(),
        journal,
        (),
        look=lambda pid: CheckpointBlocker(pid=pid, started_ms=began, uid=1000),
        measure=lambda pids: {pid: {GpuUuid("GPU-a"): GIB} for pid in pids},
    )
    listener = server(tmp_path / "socket")
    threading.Thread(target=serve, args=(listener, {os.geteuid()}, hand.handle), daemon=True).start()
    client = HandCheckpointer(tmp_path / "socket", lambda: "580.1", (os.geteuid(),))
    client.targets([Seen(node=NODE, pid=PID, started_ms=began)])
    uuid = GpuUuid("GPU-a")
    mine, other = (GpuLocks(tmp_path, f"process {n}") for n in (1, 2))
    assert mine.reserve(JOB, [uuid], ()) is None
    for begin in (
        lambda: client.pause([PID], {}),
        lambda: client.resume([PID], {PID: {uuid: GIB}}, mine.descriptors(JOB)),
    ):  # one after the other: the hand restores what it has paused
        deed = begin().ended(30)
        assert deed is not None and deed.ok, deed
    (kept,) = checkpointer.locks
    mine.close()
    assert other.take([uuid]) is not None, "whoever restores has it open"
    os.close(kept)
    until("the hand has let go of what it was passed", lambda: other.take([uuid]) is None)
    listener.close()
