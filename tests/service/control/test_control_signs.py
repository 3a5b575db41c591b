"""A launcher's sign of life is taken at once where it says nothing new; all else goes the long way."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs.model import ExitReason, JobState, Launcher, Report
from collector.model import JobId
from service.control.errors import JobEnded, NotAllowed, UnknownJob
from tests.service.control.control_world import ANNA, BO, GUEST, NODE, ROOT, Stage, stage, wanted

WORD = Report(
    at_ms=1_000, launcher=Launcher(node=NODE, pid=os.getpid(), started_ms=1), state=JobState.PENDING
)


def submitted(there: Stage) -> JobId:
    return JobId(there.desk.submit(ANNA, wanted(min_gpus=9, max_gpus=9))[0]["job"])


def test_only_a_word_that_says_nothing_new_is_taken_at_once(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submitted(there)
        assert there.desk.sign_of_life(ANNA, job, WORD) is None, "its launcher is news"
        there.desk.report(ANNA, job, WORD)
        later = replace(WORD, at_ms=2_000, step=7)
        assert there.desk.sign_of_life(ANNA, job, later) == {"known": True}
        row = there.desk.job(ROOT, job)
        assert (row["report"]["at_ms"], row["report"]["step"]) == (2_000, 7)
        for news in (
            replace(later, pids=(1,)),
            replace(later, checkpoint_ms=5),
            replace(later, acknowledged=3),
            replace(later, exit_reason=ExitReason.DONE, state=JobState.ENDED),
        ):
            assert there.desk.sign_of_life(ANNA, job, news) is None
        assert there.desk.job(ROOT, job)["report"]["at_ms"] == 2_000, "what was not taken left nothing behind"
        there.desk.report(ANNA, job, replace(later, exit_reason=ExitReason.DONE, state=JobState.ENDED))
        assert there.desk.sign_of_life(ANNA, job, later) is None


def test_nobody_speaks_for_anothers_job_or_for_one_that_is_not_there(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submitted(there)
        there.desk.report(ANNA, job, WORD)
        for stranger in (BO, GUEST):
            assert there.desk.sign_of_life(stranger, job, replace(WORD, at_ms=9_000)) is None
            with pytest.raises(NotAllowed):
                there.desk.report(stranger, job, replace(WORD, at_ms=9_000))
        assert there.desk.job(ROOT, job)["report"]["at_ms"] == 1_000
        assert there.desk.sign_of_life(ROOT, JobId("fallow:77"), WORD) is None


def test_who_gives_signs_of_life_is_there(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        job = submitted(there)
        there.desk.report(ANNA, job, WORD)
    with stage(tmp_path, begin=False) as there:
        assert job in there.acting.loop.absent(), "after a restart nobody was heard yet"
        assert there.desk.sign_of_life(ANNA, job, replace(WORD, at_ms=2_000)) == {"known": True}
        assert job not in there.acting.loop.absent()


def test_a_launcher_whose_number_is_another_job_now_is_unknown_and_touches_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        row, _ = there.desk.submit(ANNA, wanted(nonce="new", min_gpus=9, max_gpus=9))
        job = JobId(row["job"])
        there.desk.report(ANNA, job, WORD, "new")
        stranger = replace(WORD, at_ms=9_000, pids=(7,), exit_reason=ExitReason.DONE, state=JobState.ENDED)
        for caller in (ANNA, BO):
            assert there.desk.sign_of_life(caller, job, replace(WORD, at_ms=9_000), "old") is None
            for order in (
                lambda caller=caller: there.desk.report(caller, job, stranger, "old"),
                lambda caller=caller: there.desk.directives(caller, job, 0, "old"),
                lambda caller=caller: there.desk.resume(caller, job, "touched", "old"),
            ):
                with pytest.raises(UnknownJob, match="another one now"):
                    order()
        found = there.desk.job(ROOT, job)
        assert (found["state"], found["report"]["at_ms"]) == ("pending", 1_000)
        there.desk.cancel(ANNA, job, "")
        with pytest.raises(UnknownJob):
            there.desk.report(ANNA, job, WORD, "old")
        with pytest.raises(JobEnded):
            there.desk.report(ANNA, job, WORD, "new")
        with pytest.raises(JobEnded):
            there.desk.report(ANNA, job, WORD)
