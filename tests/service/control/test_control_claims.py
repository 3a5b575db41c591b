"""Claims without proof, and leases that an operator ends by force: told, written down, nobody else's gain."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.actions import Pause
from advisor.engines.launched import MOST_WAIT_S, LocalEngine
from advisor.jobs.gpu_sharing import Terms
from advisor.jobs.model import JobState, Launcher, Report, Sharing, StartCommand
from advisor.outcomes import Late
from collector.model import JobId
from service.control.errors import JobEnded, NotAllowed, UnknownJob
from tests.advisor.jobs.job_store_world import HandClock, acknowledge, opened, submission
from tests.service.control.control_world import (
    ANNA,
    BO,
    GPUS,
    GUEST,
    NODE,
    ROOT,
    Stage,
    StandIn,
    stage,
    until,
    wanted,
)

WORD = Report(at_ms=1_000, launcher=Launcher(node=NODE, pid=2**22 - 1, started_ms=1), state=JobState.RUNNING)
LIE = replace(WORD, acknowledged=500, gpus=GPUS[:2])


def submitted(there: Stage, **asked: object) -> JobId:
    return JobId(there.desk.submit(ANNA, wanted(**asked))[0]["job"])


def rows(there: Stage) -> list[tuple[str, str, str]]:
    with there.store.reader() as reader:
        return reader.execute("SELECT job, gpu_uuid, user_name FROM unproven_claims ORDER BY ALL").fetchall()


def test_a_claim_is_kept_logged_and_told_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submitted(there, max_gpus=4)
        for _ in range(5):
            there.desk.report(ANNA, job, LIE)
        assert rows(there) == [(job, GPUS[0], "anna"), (job, GPUS[1], "anna")]
        row = there.desk.job(BO, job)
        assert (row["state"], row["gpus"], there.leases()) == ("pending", [], {})
        assert [line for line in row["explain"] if "not believed" in line] == [
            "Its launcher is not believed: it says that it carried out order 500 and runs on GPU-0, GPU-1, "
            "and cannot show that order."
        ]
    lines = [each for each in caplog.records if each.getMessage() == "report-not-believed"]
    assert len(lines) == 1 and lines[0].levelno == logging.WARNING


def test_a_job_that_cannot_be_told_anything_holds_up_nobody(tmp_path: Path) -> None:
    """Its launcher says that it knows every number: it is passed over, and others are started."""
    with stage(tmp_path) as there:
        deaf = submitted(there, nonce="deaf")
        there.desk.pause(ANNA, deaf, "")
        there.desk.report(ANNA, deaf, replace(WORD, state=JobState.PENDING, acknowledged=2**63 - 1))
        there.desk.resume(ANNA, deaf, "")
        other = submitted(there, nonce="other", min_gpus=4, max_gpus=4)
        StandIn(there.desk, ANNA, other)
        until("the other runs", lambda: there.state(other) == "running")
        assert there.state(deaf) == "pending" and there.troubles == []
        refused = there.desk.cancel(ROOT, deaf, "", force=True)
        assert refused["outcome"] == "done"


def test_an_operator_ends_what_nobody_else_can(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submitted(there, min_gpus=3, max_gpus=3)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        launcher.deaf = True
        there.desk.cancel(ANNA, job, "please")
        assert there.state(job) == "running" and len(there.leases()) == 3, "it does not obey"
        for caller in (ANNA, BO, GUEST):
            with pytest.raises(NotAllowed):
                there.desk.cancel(caller, job, "", force=True)
        row = there.desk.cancel(ROOT, job, "it does not obey", force=True)
        assert (row["outcome"], there.state(job), there.leases()) == ("done", "ended", {})
        (action, *_) = there.desk.actions(ROOT, since_ms=None, job=job)
        assert (action["action"], action["actor"], action["outcome"]) == (row["action"], "user root", "done")
        assert action["reason"] == "it does not obey" and "GPU-0" in action["found"]
        with pytest.raises(JobEnded):
            there.desk.cancel(ROOT, job, "", force=True)
        with pytest.raises(JobEnded):
            there.desk.report(ANNA, job, replace(WORD, gpus=launcher.gpus))
        with pytest.raises(UnknownJob):
            there.desk.cancel(ROOT, JobId("fallow:77"), "", force=True)


def test_what_was_ended_by_force_is_given_to_nobody_before_it_was_measured(tmp_path: Path) -> None:
    """The only tick is from before: what runs there now nobody has seen."""
    with stage(tmp_path) as there:
        job = submitted(there, nonce="one", min_gpus=3, max_gpus=3)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        held = set(launcher.gpus)
        there.desk.cancel(ROOT, job, "", force=True)
        other = submitted(there, nonce="two", min_gpus=1, max_gpus=1)
        second = StandIn(there.desk, ANNA, other)
        until("it runs", lambda: there.state(other) == "running")
        assert not set(second.gpus) & held
        third = submitted(there, nonce="three", min_gpus=1, max_gpus=1)
        waiting = StandIn(there.desk, ANNA, third)
        until("it waits", lambda: waiting.places)
        assert there.state(third) == "pending"


def test_what_is_let_go_by_its_launchers_word_is_given_on_at_once(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submitted(there, nonce="one", min_gpus=4, max_gpus=4)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        other = submitted(there, nonce="two", min_gpus=4, max_gpus=4)
        StandIn(there.desk, ANNA, other)
        launcher.finish()
        until("the next one runs", lambda: there.state(other) == "running")


def test_a_job_without_gpus_leaves_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submitted(there)
        row = there.desk.cancel(ROOT, job, "", force=True)
        assert row["message"] == f"{job} is ended, and held no GPU"


def test_nobody_waits_longer_than_is_usual_for_a_grace_of_a_jobs_own_choosing(tmp_path: Path) -> None:
    """The next approved step would wait as long."""
    clock = Hurrying()
    store, register = opened(tmp_path, clock)
    with store:
        entry, _ = register.submit(submission(grace_s=86_400.0))
        acknowledge(register, register.give(entry.id, StartCommand(number=1, gpus=GPUS[:1])))
        engine = LocalEngine(register, clock, lambda *_: Terms(sharing=Sharing.WHOLE))
        begun_ms = clock.monotonic_ms()
        assert isinstance(engine.do(Pause(job=entry.id), 2), Late)
        assert clock.monotonic_ms() - begun_ms < (MOST_WAIT_S + 10 * Hurrying.EACH_S) * 1000


class Hurrying(HandClock):
    """Time passes whenever somebody looks."""

    EACH_S = 200

    def monotonic_ms(self) -> int:
        self.pass_s(self.EACH_S)
        return super().monotonic_ms()
