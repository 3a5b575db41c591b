"""Intents whose end nobody saw: each is settled by what the store and the launcher say, and once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.actions import Action, Cancel, HoldForJob, Notify, Pause, SetEnvAtRestart, Start
from advisor.jobs.command_outcomes import outcome
from advisor.jobs.model import (
    CancelCommand,
    ExitReason,
    JobRecord,
    JobState,
    PauseCommand,
    StartCommand,
    Submission,
)
from advisor.journal.journal import Order, StoreJournal
from advisor.journal.records import ActionRecord, Moment, Result
from advisor.journal.recovery import PATIENCE_MS, Directed, Facts, Recovering, settlement
from advisor.outcomes import Done
from advisor.serialize import to_text
from advisor.statements import statement
from analytics.vocabulary.jobs import is_submitted
from tests.advisor.journal.journal_parts import T0, Hands
from tests.stores import open_store

NOW = Moment(at_ms=T0 + 60_000)
WANTED = Submission(command=("train",), user="ann", project="guests")
SETTINGS = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"),)


def deed(step: Action | None, job: str = "fallow:1", **more: Any) -> ActionRecord:
    return ActionRecord(
        number=5,
        begun=Moment(at_ms=T0),
        plan=None,
        job=job,
        verb="x",
        actor="fallow",
        reason="",
        step=step,
        stood=None,
        **more,
    )


def entry(**changes: Any) -> JobRecord:
    return JobRecord(id="fallow:1", submission=WANTED, **changes)


GIVEN = Directed(handled=False)
IN_FLIGHT = entry(directive=PauseCommand(number=5), state=JobState.RUNNING, gpus=("g",))


def given_to(entry: JobRecord) -> Facts:
    """A directive on its way to that launcher, and what the engine makes of it."""
    return Facts(directed=GIVEN, entry=entry, seen=outcome(entry, 5))


@pytest.mark.parametrize(
    ("step", "facts", "result"),
    [
        (Pause(job="fallow:1"), Facts(entry=entry()), Result.UNDONE),
        (Pause(job="fallow:1"), Facts(directed=Directed(handled=True), entry=entry()), Result.DONE),
        (
            Pause(job="fallow:1"),
            Facts(directed=Directed(handled=True, failed="no"), entry=entry()),
            Result.FAILED,
        ),
        (Pause(job="fallow:1"), given_to(IN_FLIGHT), None),
        (Pause(job="fallow:1"), Facts(directed=GIVEN, entry=None), Result.UNKNOWN),
        (
            Pause(job="fallow:1"),
            given_to(entry(directive=PauseCommand(number=5), state=JobState.ENDED)),
            Result.FAILED,
        ),
        (
            Cancel(job="fallow:1"),
            given_to(entry(directive=CancelCommand(number=5), state=JobState.ENDED)),
            Result.DONE,
        ),
        (
            Start(job="fallow:1", gpus=("g",)),
            given_to(
                entry(directive=StartCommand(number=5, gpus=("g",)), gpus=("g",), exit_reason=ExitReason.LOST)
            ),
            Result.FAILED,
        ),
        (SetEnvAtRestart(job="fallow:1", settings=SETTINGS), Facts(entry=entry()), Result.UNDONE),
        (
            SetEnvAtRestart(job="fallow:1", settings=SETTINGS),
            Facts(entry=entry(next_launch=SETTINGS)),
            Result.DONE,
        ),
        (HoldForJob(job="fallow:1", start_ms=0, gpus=()), Facts(entry=entry()), Result.UNDONE),
        (Notify(job="fallow:1", message=""), Facts(entry=entry()), Result.UNDONE),
        (Notify(job="slurm:1", message=""), Facts(told=True), Result.DONE),
        (Notify(job="slurm:1", message=""), Facts(), Result.UNKNOWN),
        (Pause(job="slurm:1"), Facts(), Result.UNKNOWN),
        (SetEnvAtRestart(job="slurm:1", settings=SETTINGS), Facts(), Result.UNDONE),
        (None, Facts(entry=entry()), Result.UNKNOWN),
    ],
)
def test_each_way_to_be_interrupted_is_settled(
    step: Action | None, facts: Facts, result: Result | None
) -> None:
    about = deed(step, "fallow:1" if step is None else step.job)
    found = settlement(about, replace(facts, by_launcher=is_submitted(about.job)), NOW)
    assert (None if found is None else found.result) == result


def test_a_launcher_that_never_answers_is_handed_to_a_person() -> None:
    late = Moment(at_ms=T0 + PATIENCE_MS)
    found = settlement(deed(Pause(job="fallow:1")), Facts(directed=GIVEN, entry=IN_FLIGHT), late)
    assert found is not None
    assert found.result is Result.UNKNOWN
    assert "fallow jobs" in found.found


steps = st.from_type(Action)
entries = st.none() | st.from_type(JobRecord)
directed = st.none() | st.builds(Directed, handled=st.booleans(), failed=st.none() | st.text())
facts = st.builds(
    Facts, directed=directed, entry=entries, told=st.booleans(), by_launcher=st.just(value=True)
)


@given(steps, facts, st.integers(0, 10**8))
def test_what_was_never_given_is_never_called_done_and_what_was_is_never_called_undone(
    step: Action, found: Facts, age_ms: int
) -> None:
    job = "fallow:1"
    ruled = settlement(deed(step, job), found, Moment(at_ms=T0 + age_ms))
    if isinstance(step, Notify) and found.told:
        assert ruled is not None
        assert ruled.result is Result.DONE, "who was told was told, whatever the launcher says"
    elif found.directed is None:
        assert ruled is not None
        assert ruled.result is Result.UNDONE or isinstance(step, SetEnvAtRestart)
    elif found.directed.handled:
        assert ruled is not None
        assert ruled.result is (Result.DONE if found.directed.failed is None else Result.FAILED)
    else:
        assert ruled is None or ruled.result is not Result.UNDONE


@pytest.mark.slow
@given(steps, facts)
def test_nothing_stays_open_for_ever(step: Action, found: Facts) -> None:
    assert settlement(deed(step), found, Moment(at_ms=T0 + PATIENCE_MS)) is not None


def test_settling_reads_the_store_and_settles_once(tmp_path: Path) -> None:
    clock = Hands()
    with open_store(tmp_path / "s.duckdb") as store:
        journal = StoreJournal(store, clock)
        never = journal.intends(T0, Pause(job="fallow:1"))
        worked = journal.intends(T0, Pause(job="fallow:2"))
        failed = journal.intends(T0, Pause(job="fallow:3"))
        told = journal.intends(T0, Notify(job="slurm:4", message="hello"))
        kept = journal.ordered(T0, Order(job="slurm:4", verb="keep"), "user ann")
        with store.writing("playing a register") as connection:
            for number, job, why in ((worked, "fallow:2", None), (failed, "fallow:3", "no checkpoint")):
                body = to_text(PauseCommand(number=number))
                row = (number, job, body, why)
                connection.execute(
                    "INSERT INTO directives VALUES (?, ?, epoch_ms(0), ?, epoch_ms(1), ?)", row
                )
            connection.execute(
                "INSERT INTO tellings VALUES ('slurm:4', epoch_ms(CAST(? AS BIGINT)), 'tell', 'x', 'pts/1')",
                (T0 + 1,),
            )
    with open_store(tmp_path / "s.duckdb") as store:
        journal = StoreJournal(store, clock)
        settling = Recovering(store, journal, lambda job: None, by_launcher=is_submitted)
        results = {each.number: how.result for each, how in settling.settle()}
        assert results == {
            never: Result.UNDONE,
            worked: Result.DONE,
            failed: Result.FAILED,
            told: Result.DONE,
            kept: Result.UNKNOWN,
        }
        assert settling.settle() == ()
        assert journal.unsettled() == ()
        deed = journal.deed(failed)
        assert deed is not None
        assert deed.found == "no checkpoint"
    assert statement("settling_facts").startswith("--")


def test_what_is_being_done_right_now_is_left_alone(tmp_path: Path) -> None:
    clock = Hands()
    with open_store(tmp_path / "s.duckdb") as store:
        journal = StoreJournal(store, clock)
        settling = Recovering(store, journal, lambda job: None, by_launcher=is_submitted)
        number = journal.intends(T0, Pause(job="fallow:1"))
        assert settling.settle() == ()
        journal.came_of(T0, number, Done())
        stuck = journal.intends(T0, Pause(job="fallow:1"))
        clock.pass_ms(PATIENCE_MS)
        assert [each.number for each, _ in settling.settle()] == [stuck]
