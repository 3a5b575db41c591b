"""The life of an entry under whatever comes, in whatever order: properties, and the turns that matter."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.jobs import lifecycle
from advisor.jobs.lifecycle import Refused, Unable, attained_gpu_s, in_flight, lapsing, leased
from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    ExitReason,
    JobRecord,
    JobState,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    Report,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from collector.model import GpuUuid, JobId
from tests.advisor.jobs.job_store_world import GPUS, LAUNCHER, submission, word

JOB = JobId("fallow:1")


def fresh(**changes: object) -> JobRecord:
    return lifecycle.submitted(JOB, submission(**changes), 1_000)


def told(number: int, verb: int, count: int) -> Command:
    gpus = GPUS[:count]
    kinds: tuple[Command, ...] = (
        StartCommand(number=number, gpus=gpus),
        PauseCommand(number=number),
        ResumeCommand(number=number, gpus=gpus),
        ReallocateCommand(number=number, gpus=tuple(reversed(GPUS))[:count]),
        ReleaseMemoryCommand(number=number),
        RequeueCommand(number=number),
        NotifyCommand(number=number, message="hello"),
        CancelCommand(number=number),
    )
    return kinds[verb]


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["give", "answer", "fail", "late", "end", "silent", "vacated", "hold", "let go"]),
        st.integers(0, 7),
        st.integers(1, 4),
    ),
    max_size=30,
)


def turned(entry: JobRecord, move: tuple[str, int, int], number: int, now_ms: int) -> JobRecord:
    what, verb, count = move
    newest = 0 if entry.directive is None else entry.directive.number
    match what:
        case "give":
            return lifecycle.with_command(entry, told(number, verb, count), now_ms)
        case "answer":
            return lifecycle.with_report(entry, word(JobState.RUNNING, newest), now_ms)
        case "fail":
            return lifecycle.with_report(entry, word(JobState.RUNNING, newest, failed="it broke"), now_ms)
        case "late":
            return lifecycle.with_report(entry, word(JobState.RUNNING, max(0, newest - 1)), now_ms)
        case "end":
            return lifecycle.with_report(
                entry, word(JobState.ENDED, newest, exit_reason=ExitReason.DONE, exit_code=0), now_ms
            )
        case "silent":
            return lifecycle.silent(entry, now_ms, "its launcher is gone")
        case "vacated":
            return lifecycle.vacated(entry, now_ms)
        case "hold":
            return lifecycle.on_hold(entry)
        case _:
            return lifecycle.let_go(entry)


@settings(max_examples=400, deadline=None)
@given(moves=MOVES)
def test_whatever_comes_an_entry_stays_one_that_can_be(moves: list[tuple[str, int, int]]) -> None:
    entry, now_ms = fresh(), 1_000
    for number, move in enumerate(moves, start=1):
        now_ms += 500
        before = entry
        try:
            entry = turned(entry, move, number, now_ms)
        except Refused:
            entry = before
        may_hold = entry.state in (JobState.STARTING, JobState.RUNNING) or lapsing(entry)
        assert bool(leased(entry)) == may_hold, (move, entry)
        assert len(set(leased(entry))) == len(leased(entry))
        assert entry.acknowledged <= (0 if entry.directive is None else entry.directive.number)
        assert attained_gpu_s(entry, now_ms) >= attained_gpu_s(before, now_ms) - 1e-9
        assert (entry.counted_ms is not None) == bool(entry.gpus)
        assert (entry.ended_ms is not None) == (entry.state is JobState.ENDED)
        if before.state is JobState.ENDED:
            assert entry == before, "nothing comes after the end"
        lost = set(leased(before)) - set(leased(entry))
        if lost:
            assert move[0] in ("answer", "fail", "end", "vacated"), "a GPU is let go by a word, or by an end"


def test_a_number_is_given_once() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=5, gpus=GPUS[:1]), 2_000)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 5), 3_000)
    for number in (4, 5):
        with pytest.raises(Refused, match="not above 5"):
            lifecycle.with_command(entry, PauseCommand(number=number), 4_000)


def test_a_rigid_job_is_only_started_and_stopped() -> None:
    entry = lifecycle.with_command(
        fresh(mobility=Elasticity.RIGID), StartCommand(number=1, gpus=GPUS[:1]), 2_000
    )
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 3_000)
    for directive in (
        PauseCommand(number=2),
        RequeueCommand(number=2),
        ReallocateCommand(number=2, gpus=GPUS[:2]),
    ):
        with pytest.raises(Unable, match="runs to its end"):
            lifecycle.with_command(entry, directive, 4_000)
    assert lifecycle.with_command(entry, CancelCommand(number=2), 4_000).state is JobState.RUNNING


def test_a_waiting_job_is_cancelled_at_once() -> None:
    entry = lifecycle.with_command(fresh(), CancelCommand(number=1, reason="cancelled by anna"), 2_000)
    assert (entry.state, entry.exit_reason, entry.message) == (
        JobState.ENDED,
        ExitReason.CANCELLED,
        "cancelled by anna",
    )


def test_a_suspend_that_did_not_work_leaves_the_job_running_and_rested() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=1, gpus=GPUS[:2]), 2_000)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 3_000)
    entry = lifecycle.with_command(entry, PauseCommand(number=2), 4_000)
    entry = lifecycle.with_report(
        entry, word(JobState.RUNNING, 2, failed="no checkpoint within its grace"), 5_000
    )
    assert (entry.state, entry.gpus, entry.acted_ms) == (JobState.RUNNING, GPUS[:2], 5_000)
    assert "no checkpoint" in entry.message


def test_a_lost_launcher_keeps_its_gpus_until_its_workers_are_gone_and_may_come_back() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=1, gpus=GPUS[:2]), 2_000)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 3_000)
    lost = lifecycle.silent(entry, 4_000, "its launcher is silent")
    assert lapsing(lost) and leased(lost) == GPUS[:2]
    back = lifecycle.with_report(lost, word(JobState.RUNNING, 1), 5_000)
    assert not lapsing(back) and back.gpus == GPUS[:2] and back.message == ""
    gone = lifecycle.vacated(lost, 6_000)
    assert (gone.state, gone.exit_reason, gone.gpus) == (JobState.ENDED, ExitReason.LOST, ())


def test_gpu_time_counts_every_world_that_it_had() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=1, gpus=GPUS[:1]), 0)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 0)
    entry = lifecycle.with_command(entry, ReallocateCommand(number=2, gpus=GPUS[:3]), 10_000)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 2), 10_000)
    entry = lifecycle.with_command(entry, PauseCommand(number=3), 20_000)
    entry = lifecycle.with_report(entry, word(JobState.PAUSED, 3), 20_000)
    assert attained_gpu_s(entry, 99_000) == 10 + 30


def test_stop_follows_a_directive_in_flight_and_frees_all_of_it() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=1, gpus=GPUS[:1]), 0)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 0)
    entry = lifecycle.with_command(entry, ReallocateCommand(number=2, gpus=GPUS[:3]), 0)
    entry = lifecycle.with_command(entry, CancelCommand(number=3), 0)
    assert set(leased(entry)) == set(GPUS[:3]) and in_flight(entry)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 2), 0)
    assert set(leased(entry)) == set(GPUS[:3]) and in_flight(entry)
    ended = lifecycle.with_report(entry, word(JobState.ENDED, 3, exit_reason=ExitReason.CANCELLED), 0)
    assert leased(ended) == () and ended.exit_reason is ExitReason.CANCELLED


def test_a_report_that_names_foreign_gpus_is_not_believed() -> None:
    entry = lifecycle.with_command(fresh(), StartCommand(number=1, gpus=GPUS[:1]), 0)
    entry = lifecycle.with_report(entry, word(JobState.RUNNING, 1), 0)
    entry = lifecycle.with_command(entry, ReallocateCommand(number=2, gpus=GPUS[:2]), 0)
    lying = Report(
        at_ms=0,
        launcher=LAUNCHER,
        state=JobState.RUNNING,
        acknowledged=2,
        failed="x",
        gpus=(GpuUuid("GPU-9"),),
    )
    assert lifecycle.with_report(entry, lying, 0).gpus == GPUS[:1]
    assert replace(entry).gpus == GPUS[:1]
