"""What the register keeps: every change is in the store before it is seen, leases with their entries.

Named here are the statements it uses: put_entries, put_directives, settle_directives, grant_leases,
release_leases, read_entries, read_entry, last_entry, read_directives, read_leases.
"""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.job_store import UnknownJob
from advisor.jobs.leased_gpus import Taken
from advisor.jobs.lifecycle import Refused, leased
from advisor.jobs.model import (
    CancelCommand,
    ExitReason,
    JobState,
    PauseCommand,
    ReallocateCommand,
    RequeueCommand,
    StartCommand,
)
from advisor.jobs.repository import read_directives, read_leases
from collector.model import JobId
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, opened, submission, word


def held(store: object) -> dict[str, set[str]]:
    rows = read_leases(store)  # type: ignore[arg-type]
    return {job: {row["gpu"] for row in rows if row["job"] == job} for job in {row["job"] for row in rows}}


def test_a_submitted_job_is_there_after_a_restart(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    entry, new = register.submit(submission(nonce="one"))
    assert (entry.id, entry.state, new) == ("fallow:1", JobState.PENDING, True)
    store.close()
    store, register = opened(tmp_path, HandClock())
    again = register.entry(JobId("fallow:1"))
    assert again == replace(entry, last_seen_ms=None)
    assert register.submit(submission(nonce="one")) == (again, False)
    assert register.submit(submission(nonce="two"))[0].id == "fallow:2"
    store.close()


def test_a_lease_comes_with_its_directive_and_goes_with_the_acknowledgement(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission())[0].id
    entry = register.give(job, StartCommand(number=1, gpus=GPUS[:2]))
    assert held(store) == {job: set(GPUS[:2])}
    acknowledge(register, entry)
    entry = register.give(job, ReallocateCommand(number=2, gpus=GPUS[1:4]))
    assert held(store) == {job: set(GPUS)}, "what it had and what it is to get"
    acknowledge(register, entry)
    assert held(store) == {job: set(GPUS[1:4])}
    entry = register.give(job, PauseCommand(number=3))
    assert held(store) == {job: set(GPUS[1:4])}, "nobody else's before its own word"
    acknowledge(register, entry)
    assert held(store) == {}
    assert register.entry(job).paused_on == GPUS[1:4]
    numbers = [(row["number"], row["acknowledged_ms"] is not None) for row in read_directives(store, job)]
    assert numbers == [(1, True), (2, True), (3, True)]
    store.close()


def test_a_failed_reshape_leaves_the_job_what_it_says_it_has(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission())[0].id
    acknowledge(register, register.give(job, StartCommand(number=1, gpus=GPUS[:2])))
    entry = register.give(job, ReallocateCommand(number=2, gpus=GPUS[:3]))
    after = acknowledge(register, entry, failed="a worker did not come up", gpus=GPUS[:2])
    assert after.gpus == GPUS[:2] and after.failed == "a worker did not come up"
    assert held(store) == {job: set(GPUS[:2])}
    (_, told) = read_directives(store, job)
    assert told["failed"] == "a worker did not come up"
    store.close()


def test_a_whole_gpu_never_has_two_holders(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    one, two = (register.submit(submission(nonce=n))[0].id for n in "ab")
    register.give(one, StartCommand(number=1, gpus=GPUS[:2]))
    with pytest.raises(Taken):
        register.give(two, StartCommand(number=2, gpus=GPUS[1:3]))
    assert register.entry(two).state is JobState.PENDING
    half = register.submit(submission(nonce="c", share=0.5))[0].id
    other = register.submit(submission(nonce="d", share=0.5))[0].id
    register.give(half, StartCommand(number=3, gpus=GPUS[3:], share=0.5))
    register.give(other, StartCommand(number=4, gpus=GPUS[3:], share=0.5))
    with pytest.raises(Taken):
        register.give(two, StartCommand(number=5, gpus=GPUS[3:], share=0.1))
    store.close()


def test_a_shrinking_job_keeps_its_gpu_from_others_until_it_has_let_go(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    one, two = (register.submit(submission(nonce=n))[0].id for n in "ab")
    acknowledge(register, register.give(one, StartCommand(number=1, gpus=GPUS[:2])))
    shrinking = register.give(one, ReallocateCommand(number=2, gpus=GPUS[:1]))
    with pytest.raises(Taken):
        register.give(two, StartCommand(number=3, gpus=GPUS[1:2]))
    acknowledge(register, shrinking)
    register.give(two, StartCommand(number=4, gpus=GPUS[1:2]))
    assert held(store) == {one: {GPUS[0]}, two: {GPUS[1]}}
    store.close()


def test_a_job_that_moves_onto_a_shared_gpu_holds_its_whole_old_one_until_it_has_left(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    with store:
        host, guest, third = (register.submit(submission(may_share=True))[0].id for _ in range(3))
        acknowledge(register, register.give(host, StartCommand(number=1, gpus=GPUS[:1])))
        acknowledge(register, register.give(guest, StartCommand(number=2, gpus=GPUS[1:2])), gpus=GPUS[1:2])
        shrunk = register.give(host, ReallocateCommand(number=3, gpus=GPUS[:1], share=0.5))
        with pytest.raises(Taken):
            register.give(guest, ReallocateCommand(number=4, gpus=GPUS[:1], share=0.5))
        acknowledge(register, shrunk, gpus=GPUS[:1])
        moving = register.give(guest, ReallocateCommand(number=5, gpus=GPUS[:1], share=0.5))
        with pytest.raises(Taken):
            register.give(third, StartCommand(number=6, gpus=GPUS[1:2], share=0.5))
        acknowledge(register, moving, gpus=GPUS[:1])
        register.give(third, StartCommand(number=7, gpus=GPUS[1:2]))


def test_no_directive_follows_one_in_flight_but_stop(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission())[0].id
    acknowledge(register, register.give(job, StartCommand(number=1, gpus=GPUS[:2])))
    register.give(job, ReallocateCommand(number=2, gpus=GPUS[:3]))
    with pytest.raises(Refused, match="not acknowledged reallocate"):
        register.give(job, RequeueCommand(number=3))
    entry = register.give(job, CancelCommand(number=4))
    assert set(leased(entry)) == set(GPUS[:3])
    register.report(job, word(JobState.RUNNING, 2))
    assert register.entry(job).state is JobState.RUNNING and set(register.entry(job).gpus) == set(GPUS[:3])
    acknowledge(register, entry)
    assert (register.entry(job).state, register.entry(job).exit_reason) == (
        JobState.ENDED,
        ExitReason.CANCELLED,
    )
    assert held(store) == {}
    store.close()


def test_two_hundred_at_once_are_all_kept(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    ids: list[str] = []

    def ask(n: int) -> None:
        ids.append(register.submit(submission(nonce=str(n)))[0].id)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids, key=lambda job: int(job[7:])) == [f"fallow:{n}" for n in range(1, 201)]
    store.close()
    store, register = opened(tmp_path, HandClock())
    assert len(register.entries()) == 200
    store.close()


def test_what_cannot_be_kept_did_not_happen(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission(nonce="one"))[0].id
    told: list[str] = []
    register.listen(lambda before, after: told.append(after.id))
    store.close()
    with pytest.raises(Exception, match=r"closed|entries"):
        register.give(job, StartCommand(number=1, gpus=GPUS[:1]))
    with pytest.raises(Exception, match=r"closed|entries"):
        register.submit(submission(nonce="two"))
    assert told == []
    assert register.entry(job).state is JobState.PENDING
    assert register.holders() == {}
    assert list(register.entries()) == [job]


def test_a_sign_of_life_costs_no_commit_and_an_unknown_job_is_said(tmp_path: Path) -> None:
    store, register = opened(tmp_path, HandClock())
    job = register.submit(submission())[0].id
    register.report(job, word(JobState.PENDING))
    told: list[str] = []
    register.listen(lambda before, after: told.append(after.id))
    after = register.report(job, word(JobState.PENDING, step=7))
    assert told == [] and after.report is not None and after.report.step == 7
    assert register.entry(job).report == after.report
    with pytest.raises(UnknownJob, match="fallow:9"):
        register.report(JobId("fallow:9"), word(JobState.PENDING))
    store.close()
