"""One lock a GPU: what two services do to each other, and what an account without rights is told."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.actions import Start
from advisor.engines.launched import LocalEngine
from advisor.jobs.gpu_sharing import Terms
from advisor.jobs.model import ExitReason, JobState, Sharing
from advisor.outcomes import Stale
from advisor.state.model import ClusterState, Gpu
from collector.model import GpuUuid, JobId, NodeName
from service.control.gpu_locks import JUST_TAKEN_S, GpuLocks, RestoreLease, hold_leased, lock_folder
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, opened, submission, word

A, B, C = GPUS[:3]
JOB = JobId("pid:n/7@1")
ALONE = Terms(sharing=Sharing.WHOLE)
HOLDS = """
import sys, time
from pathlib import Path
from service.control.gpu_locks import GpuLocks
locks = GpuLocks(Path(sys.argv[1]), "process 7, /other", lambda: 0)
print(locks.take([sys.argv[2]]), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def locks_in(folder: Path, clock: HandClock, owner: str = "process 1, /data") -> GpuLocks:
    return GpuLocks(folder, owner, clock.monotonic_ms)


def test_a_gpu_that_another_service_leased_is_refused_by_its_name(tmp_path: Path, clock: HandClock) -> None:
    first, second = locks_in(tmp_path, clock, "process 1, /one"), locks_in(tmp_path, clock)
    assert first.take([A, B]) is None and first.take([A]) is None
    refused = second.take([C, A])
    assert refused is not None and A in refused and "process 1, /one" in refused
    assert first.take([C]) is None, "what was refused in part is held in no part"
    first.close()
    assert second.take([A]) is None


def test_gpus_of_a_job_that_comes_back_are_leased_to_nobody_meanwhile(
    tmp_path: Path, clock: HandClock
) -> None:
    mine, other = locks_in(tmp_path, clock), locks_in(tmp_path, clock, "process 2, /two")
    lease = RestoreLease(mine, lambda: {C: {}})
    assert lease.reserve(JOB, [A, B]) is None
    for locks in (mine, other):
        refused = locks.take([A])
        assert refused is not None and A in refused
    mine.keep(())
    clock.sleep(JUST_TAKEN_S + 1)
    mine.keep(())
    assert other.take([B]) is not None, "kept as long as it takes"
    lease.release(JOB)
    assert other.take([A, B]) is None
    assert lease.reserve(JOB, [A]) is not None, "another service's now"


def test_what_is_kept_for_a_job_is_kept_for_it_however_often_that_is_asked(
    tmp_path: Path, clock: HandClock
) -> None:
    """A service that meets a restore under way keeps its GPUs, and then is told to resume the job."""
    locks = locks_in(tmp_path, clock)
    assert locks.reserve(JOB, [A, B], ()) is None
    assert locks.reserve(JOB, [A, B], ()) is None
    refused = locks.reserve(JobId("pid:n/8@1"), [A], ())
    assert refused is not None and f"is kept for {JOB}" in refused
    locks.release(JOB)
    assert locks.take([A, B]) is None


def test_without_a_folder_a_gpu_is_kept_from_this_services_own_leases(clock: HandClock) -> None:
    locks = GpuLocks()
    assert locks.reserve(JOB, [A], ()) is None
    refused = locks.take([A])
    assert refused is not None and f"is kept for {JOB}" in refused
    locks.release(JOB)
    assert locks.take([A]) is None


def test_what_is_leased_or_just_being_leased_is_kept_for_nobody(tmp_path: Path, clock: HandClock) -> None:
    locks = locks_in(tmp_path, clock)
    assert locks.take([A]) is None, "its lease is not written down yet"
    assert locks.reserve(JOB, [A], ()) is not None
    clock.sleep(JUST_TAKEN_S + 1)
    assert locks.reserve(JOB, [A], {A: {}}) is not None
    assert locks.reserve(JOB, [A], ()) is None
    assert locks.reserve(JobId("pid:n/8@1"), [A], ()) is not None


def test_a_killed_service_lets_go(tmp_path: Path, clock: HandClock) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path), A]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "None\n"
        mine = locks_in(tmp_path, clock)
        refused = mine.take([A])
        assert refused is not None and "process 7, /other" in refused
        other.kill()
        other.wait()
    assert mine.take([A]) is None


def test_a_lock_goes_with_the_last_lease_and_not_while_one_is_being_written(
    tmp_path: Path, clock: HandClock
) -> None:
    mine, other = locks_in(tmp_path, clock), locks_in(tmp_path, clock)
    mine.take([A, B])
    mine.keep(())
    assert other.take([A]) is not None, "its lease may be on its way to the disk"
    clock.pass_s(61)
    mine.keep((B,))
    assert other.take([A]) is None and other.take([B]) is not None


def test_the_engine_gives_nothing_that_it_cannot_lock(tmp_path: Path, clock: HandClock) -> None:
    other, mine = locks_in(tmp_path / "l", clock, "process 9, /other"), locks_in(tmp_path / "l", clock)
    (tmp_path / "l").mkdir()
    other.take([A])
    store, register = opened(tmp_path, clock)
    with store:
        engine = LocalEngine(register, clock, lambda *_: ALONE, claim=mine.take)
        entry, _ = register.submit(submission())
        found = engine.give(Start(job=entry.id, gpus=(A,), reason="there is room"), 1)
        assert isinstance(found, Stale) and "process 9, /other" in found.found
        assert register.holders() == {} and register.entry(entry.id).state is JobState.PENDING


def test_after_a_restart_what_is_leased_is_locked_again_and_let_go_at_its_end(
    tmp_path: Path, clock: HandClock
) -> None:
    (tmp_path / "l").mkdir()
    store, register = opened(tmp_path, clock)
    with store:
        mine, other = locks_in(tmp_path / "l", clock), locks_in(tmp_path / "l", clock)
        entry, _ = register.submit(submission())
        engine = LocalEngine(register, clock, lambda *_: ALONE, claim=mine.take)
        engine.give(Start(job=entry.id, gpus=(A,), reason="room"), 1)
        acknowledge(register, register.entry(entry.id))
        mine.close()
        again = locks_in(tmp_path / "l", clock)
        hold_leased(again, register)
        assert other.take([A]) is not None
        clock.pass_s(61)
        register.report(entry.id, word(JobState.ENDED, 1, exit_reason=ExitReason.DONE))
        assert register.holders() == {}
        assert other.take([A]) is None


def test_a_gpu_that_another_service_holds_is_not_planned_with_for_a_while(
    tmp_path: Path, clock: HandClock
) -> None:
    other, mine = locks_in(tmp_path, clock), locks_in(tmp_path, clock)
    other.take([A])
    mine.take([A])
    gpus = {uuid: Gpu(uuid=uuid, node=NodeName("here")) for uuid in (A, B)}
    state = replace(ClusterState(as_of_ms=0), gpus=gpus)
    assert {uuid for uuid, gpu in mine.mark(state).gpus.items() if gpu.occupied} == {A}
    clock.pass_s(31)
    assert mine.mark(state) is state


def test_a_uuid_is_no_path(tmp_path: Path, clock: HandClock) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert locks_in(inside, clock).take([GpuUuid("../../GPU/../x")]) is None
    assert [path.parent for path in tmp_path.rglob("*.lock")] == [inside]


def test_an_account_without_the_machines_folder_has_its_own_and_is_told_what_that_means(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "run" / "fallow-gpus"
    if os.geteuid() == 0:
        found = lock_folder({}, shared)
        assert (found.path, found.remark) == (shared, None)
        shared.chmod(0o777)
        session = tmp_path / "session"
        session.mkdir(mode=0o700)
        fallen = lock_folder({"XDG_RUNTIME_DIR": str(session)}, shared)
    else:
        session = tmp_path / "session"
        session.mkdir(mode=0o700)
        fallen = lock_folder({"XDG_RUNTIME_DIR": str(session)}, shared)
    assert fallen.path == session / "fallow-gpus"
    assert fallen.remark is not None and "another account" in fallen.remark


def test_a_lease_that_a_launcher_proves_is_locked_as_well(tmp_path: Path, clock: HandClock) -> None:
    """After a restore nobody asked for it: the launcher showed the order by which it holds the GPU."""
    store, register = opened(tmp_path, clock)
    with store:
        mine, other = locks_in(tmp_path, clock), locks_in(tmp_path, clock, "process 2, /other")
        hold_leased(mine, register)
        job = register.submit(submission())[0].id
        register.change(job, lambda entry: replace(entry, state=JobState.RUNNING, gpus=(A,)))
        assert other.take([A]) is not None and other.take([B]) is None
        register.report(job, word(JobState.ENDED, 0, exit_reason=ExitReason.DONE))
        clock.pass_s(120)
        register.submit(submission(nonce="next"))
        assert other.take([A]) is None
