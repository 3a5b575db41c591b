"""An owner's word at the desk: taken, shown, durable, and read again before a step that was planned.

Written by add_consent, read by the query consents.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from advisor.actions import Action, Pause
from advisor.jobs.consent_store import ConsentStore
from advisor.jobs.job_store import open_register
from advisor.outcomes import Done, Stale
from advisor.planner.consent import Kind
from analytics.vocabulary.jobs import is_submitted
from collector.clock import SystemClock
from collector.model import JobId
from service.config.deciding import ConsentConfig
from service.control.consent import ConsentDependencies, Consenting, Consents
from service.control.errors import BadOrder, NotAllowed, UnknownJob
from service.control.interface import OwnWord
from tests.service.control.control_world import (
    ANNA,
    BO,
    CONFIG,
    GUEST,
    ROOT,
    Stage,
    StandIn,
    stage,
    until,
    wanted,
)
from tests.stores import open_store


def running(there: Stage, **asked: object) -> str:
    job = str(there.desk.submit(ANNA, wanted(**asked))[0]["job"])
    StandIn(there.desk, ANNA, job)
    until("it runs", lambda: there.state(job) == "running")
    return job


def held(there: Stage, job: str) -> dict[str, tuple[bool, str]]:
    return {row["kind"]: (row["allowed"], row["origin"]) for row in there.desk.consents(ROOT, JobId(job))}


def test_an_owners_word_is_kept_shown_and_outlives_a_restart(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = running(there)
        assert held(there, job)["pause"] == (True, "submission")
        said = OwnWord(job=JobId(job), kinds={Kind.PAUSE: False, Kind.RESTART: False}, hold_s=3600)
        answer = there.desk.consent(ANNA, said)
        assert answer["outcome"] == "done" and "withdrawn: pause, restart" in answer["message"]
        assert held(there, job)["pause"] == (False, "owner")
        explained = " ".join(there.desk.job(ANNA, JobId(job))["explain"])
        assert "its owner withdrew pause, restart" in explained
    with stage(tmp_path) as again:
        assert held(again, job)["pause"] == (False, "owner")
        (row,) = [r for r in again.desk.consents(ANNA, JobId(job)) if r["kind"] == "pause"]
        assert row["until_ms"] - row["said_ms"] == 3_600_000
        again.desk.consent(ANNA, OwnWord(job=JobId(job), kinds={Kind.PAUSE: None}))
        assert held(again, job)["pause"] == (True, "submission")


class Passing(SystemClock):
    """A clock of which each look is a second after the last."""

    def __init__(self) -> None:
        self._looks = count(1_800_000_000_000, 1000)

    def now_ms(self) -> int:
        return next(self._looks)


def test_a_word_holds_as_long_as_was_said_however_slow_the_machine_is(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        book = ConsentStore(store, Passing())
        until_ms = book.say("anna", None, ((Kind.PAUSE, False), (Kind.RESTART, False)), 3_600_000)
        replies = book.words()
        assert {reply.kind for reply in replies} == {Kind.PAUSE, Kind.RESTART}
        assert {reply.until_ms for reply in replies} == {until_ms}
        assert {reply.until_ms - reply.at_ms for reply in replies if reply.until_ms} == {3_600_000}
        assert book.say("anna", None, ((Kind.PAUSE, True),), None) is None


def test_a_word_on_all_jobs_counts_for_later_ones_and_one_on_the_job_goes_first(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.desk.consent(ANNA, OwnWord(kinds=dict.fromkeys(Kind, False)))
        job = running(there)
        assert held(there, job)["restart"] == (False, "owner")
        there.desk.consent(ANNA, OwnWord(job=JobId(job), kinds={Kind.RESTART: True}))
        assert (held(there, job)["restart"], held(there, job)["pause"]) == ((True, "owner"), (False, "owner"))


def test_owners_speak_for_themselves_and_operators_see_all(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = JobId(running(there))
        for caller in (BO, ROOT, GUEST):
            with pytest.raises(NotAllowed, match="only its owner"):
                there.desk.consent(caller, OwnWord(job=job, kinds={Kind.PAUSE: True}))
        assert there.desk.consents(BO, None) == []
        assert {row["job"] for row in there.desk.consents(ROOT, None)} == {job}
        assert {row["job"] for row in there.desk.consents(ANNA, None)} == {job}
        with pytest.raises(UnknownJob):
            there.desk.consent(ANNA, OwnWord(job=JobId("fallow:99"), kinds={Kind.PAUSE: True}))
        with pytest.raises(BadOrder, match="say what"):
            there.desk.consent(ANNA, OwnWord(job=job, kinds={}))


def test_a_site_may_take_no_yes_from_owners_and_always_takes_their_no(tmp_path: Path) -> None:
    with stage(tmp_path, replace(CONFIG, consent=ConsentConfig(owners=False))) as there:
        job = JobId(running(there))
        with pytest.raises(BadOrder, match=r"consent\.owners"):
            there.desk.consent(ANNA, OwnWord(job=job, kinds={Kind.PAUSE: True}))
        assert there.desk.consent(ANNA, OwnWord(job=job, kinds={Kind.PAUSE: False}))["outcome"] == "done"


class Noting:
    """An engine that notes what it was asked to do."""

    def __init__(self) -> None:
        self.done: list[Action] = []

    def do(self, step: Action, intent: int = 0) -> Done:
        self.done.append(step)
        return Done()


def test_a_step_that_was_approved_is_not_done_once_its_owner_has_said_no(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = JobId(running(there))
        engine, step, clock = Noting(), Pause(job=job), SystemClock()
        book, register = ConsentStore(there.store, clock), open_register(there.store, clock)
        consents = Consents(
            ConsentDependencies(book=book, register=register, clock=clock, by_launcher=is_submitted)
        )
        consenting = Consenting(engine, consents.against)
        assert consenting.do(step) == Done()
        there.desk.consent(ANNA, OwnWord(kinds={Kind.PAUSE: False}))
        outcome = consenting.do(step)
        assert isinstance(outcome, Stale) and "anna does not allow it" in outcome.found
        assert engine.done == [step]
