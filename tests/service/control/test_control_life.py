"""Submitted jobs from the desk to their end: the register, the loop, the engine and the journal together."""

from pathlib import Path

import pytest

from advisor.jobs.model import CancelCommand, Elasticity, JobState, PauseCommand, ResumeCommand, StartCommand
from collector.model import JobId
from service.control.errors import BadOrder, JobEnded, NotAllowed, UnknownJob, WrongState
from service.control.interface import Which
from tests.service.control.control_world import (
    ANNA,
    BO,
    GPUS,
    GUEST,
    ROOT,
    Stage,
    StandIn,
    stage,
    until,
    wanted,
)


def submit(there: Stage, caller: object = ANNA, **asked: object) -> str:
    return str(there.desk.submit(caller, wanted(**asked))[0]["job"])


def test_a_job_is_started_runs_and_ends_and_the_journal_has_it(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there, name="first")
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        (begin,) = launcher.told
        assert isinstance(begin, StartCommand) and ("TF_FORCE_GPU_ALLOW_GROWTH", "true") in begin.settings
        assert there.leases() == {begin.gpus[0]: [job]}
        (action,) = there.desk.actions(ROOT, since_ms=None, job=JobId(job))
        assert (action["action"], action["verb"], action["outcome"]) == (begin.number, "start", "done")
        launcher.finish()
        row = there.desk.job(ANNA, JobId(job))
        assert (row["state"], row["exit_reason"], row["exit_code"]) == ("ended", "done", 0)
        assert there.leases() == {} and there.troubles == []


@pytest.mark.slow
def test_five_jobs_on_four_gpus_never_share_one_and_the_fifth_starts_when_one_ends(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        jobs = [submit(there, name=str(n), nonce=str(n)) for n in range(5)]
        launchers = {job: StandIn(there.desk, ANNA, job) for job in jobs}
        until("four run", lambda: [there.state(job) for job in jobs].count("running") == 4)
        last = next(job for job in jobs if there.state(job) == "pending")
        place = until("it knows its place", lambda: launchers[last].places)[-1]
        assert (place["place"], place["of"]) == (1, 1) and place["waits_for"]
        (row,) = there.desk.queue(ROOT, 10).rows
        assert (row["job"], row["place"], row["gpus"]) == (last, 1, 1.0)
        assert all(len(holders) == 1 for holders in there.leases().values())
        first = next(job for job in jobs if job != last)
        launchers[first].finish()
        until("the fifth runs", lambda: there.state(last) == "running")
        assert all(len(holders) == 1 for holders in there.leases().values())


def test_nothing_is_given_away_while_nothing_is_measured(tmp_path: Path) -> None:
    with stage(tmp_path, age_s=None) as there:
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it was looked at", lambda: launcher.places)
        until("it says why", lambda: "no GPU is measured yet" in launcher.places[-1]["waits_for"])
        assert there.state(job) == "pending" and there.leases() == {}


def test_a_gpu_measured_long_ago_is_given_to_nobody(tmp_path: Path) -> None:
    with stage(tmp_path, age_s=120) as there:
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it says why", lambda: any("not measured" in each["waits_for"] for each in launcher.places))
        assert there.state(job) == "pending"


def test_pause_gives_the_gpus_back_and_resume_brings_the_job_back(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        row = there.desk.pause(ANNA, JobId(job), "lunch")
        assert row["outcome"] == "done" and isinstance(launcher.told[-1], PauseCommand)
        assert there.state(job) == "paused" and there.leases() == {}
        other = submit(there, nonce="other", min_gpus=4, max_gpus=4)
        second = StandIn(there.desk, ANNA, other)
        until("the other has its GPUs", lambda: there.state(other) == "running")
        assert there.desk.resume(ANNA, JobId(job), "")["outcome"] == "done"
        assert there.state(job) == "paused", "there is no room yet"
        second.finish()
        until("it runs again", lambda: there.state(job) == "running")
        assert isinstance(launcher.told[-1], ResumeCommand)


def test_a_paused_job_that_its_owner_holds_is_not_resumed_by_fallow(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there)
        StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        there.desk.pause(ANNA, JobId(job), "")
        for _ in range(3):
            there.acting.loop.cycle()
        assert there.state(job) == "paused"


def test_resize_grows_onto_free_gpus_and_shrinks_in_place(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there, min_gpus=1, max_gpus=4)
        other = submit(there, nonce="other")
        StandIn(there.desk, ANNA, job)
        StandIn(there.desk, ANNA, other)
        until("both run", lambda: there.state(job) == there.state(other) == "running")
        held = {row["gpu"] for row in there.desk.leases(ROOT) if row["job"] == job}
        wish = 3 if len(held) != 3 else 2
        assert there.desk.resize(ANNA, JobId(job), wish, "")["outcome"] == "done"
        assert len([g for g, who in there.leases().items() if who == [job]]) == wish
        with pytest.raises(WrongState, match="not free"):
            there.desk.resize(ANNA, JobId(job), 4, "")
        with pytest.raises(BadOrder, match="1 to 4"):
            there.desk.resize(ANNA, JobId(job), 5, "")
        assert there.desk.resize(ANNA, JobId(job), 1, "")["outcome"] == "done"
        assert sorted(len(who) for who in there.leases().values()) == [1, 1]


def test_cancel_ends_a_running_job_and_a_waiting_one(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job, waiting = submit(there, min_gpus=4, max_gpus=4), submit(there, nonce="w")
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        second = StandIn(there.desk, ANNA, waiting)
        assert there.desk.cancel(ANNA, JobId(waiting), "")["outcome"] == "done"
        until("its launcher hears of it", lambda: second.told and isinstance(second.told[-1], CancelCommand))
        assert there.desk.cancel(ANNA, JobId(job), "enough")["outcome"] == "done"
        assert isinstance(launcher.told[-1], CancelCommand)
        row = there.desk.job(ANNA, JobId(job))
        assert (row["exit_reason"], there.leases()) == ("cancelled", {})
        with pytest.raises(JobEnded):
            there.desk.cancel(ANNA, JobId(job), "")


def test_cancel_ends_at_once_what_no_launcher_ever_spoke_of(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there, min_gpus=4, max_gpus=4)
        until("it is given GPUs", lambda: there.state(job) == "starting" and there.leases())
        assert there.desk.cancel(ANNA, JobId(job), "never came")["outcome"] == "done"
        row = there.desk.job(ANNA, JobId(job))
        assert (row["state"], row["exit_reason"], row["message"]) == ("ended", "cancelled", "never came")
        assert there.leases() == {}
        with pytest.raises(JobEnded):
            StandIn(there.desk, ANNA, job, after=99).say()


def test_cancel_waits_for_a_launcher_that_listens_and_has_not_spoken_yet(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there, min_gpus=4, max_gpus=4)
        launcher = StandIn(there.desk, ANNA, job, deaf=True)
        until("it was told", lambda: launcher.told)
        assert there.desk.cancel(ANNA, JobId(job), "")["outcome"] == "under way"
        assert there.state(job) == "starting" and set(there.leases()) == set(GPUS)
        launcher.close()


def test_what_a_launcher_cannot_do_is_written_down_and_the_job_goes_on(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        launcher.failing = "no checkpoint within its grace"
        row = there.desk.pause(ANNA, JobId(job), "")
        assert (row["outcome"], row["message"]) == ("failed", "no checkpoint within its grace")
        assert there.state(job) == "running" and list(there.leases().values()) == [[job]]
        newest = there.desk.actions(ROOT, since_ms=None, job=JobId(job))[0]
        assert (newest["actor"], newest["outcome"]) == ("user anna", "failed")


def test_a_launcher_that_does_not_answer_is_told_once_and_its_gpu_is_nobody_elses(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = submit(there, min_gpus=4, max_gpus=4)
        launcher = StandIn(there.desk, ANNA, job, deaf=True)
        until("it was told", lambda: launcher.told)
        other = submit(there, nonce="other")
        second = StandIn(there.desk, ANNA, other)
        until(
            "it is looked at again",
            lambda: second.places and "next look" not in second.places[-1]["waits_for"],
        )
        for _ in range(3):
            there.acting.loop.cycle()
        assert len(launcher.told) == 1 and not second.told
        assert there.state(job) == "starting" and set(there.leases()) == set(GPUS)
        launcher.deaf, launcher.state, launcher.handled = False, JobState.RUNNING, launcher.told[0].number
        launcher.say()
        assert there.state(job) == "running"
        until(
            "the journal has the late answer",
            lambda: there.desk.actions(ROOT, since_ms=None, job=JobId(job))[0]["outcome"] == "done",
        )


def test_who_may_do_what(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = JobId(submit(there))
        StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        assert there.desk.job(BO, job)["user"] == "anna"
        for order in (
            lambda: there.desk.pause(BO, job, ""),
            lambda: there.desk.resume(BO, job, ""),
            lambda: there.desk.cancel(BO, job, ""),
            lambda: there.desk.resize(BO, job, 1, ""),
            lambda: there.desk.keep(BO, job, 4, ""),
            lambda: there.desk.directives(BO, job, 0),
            lambda: there.desk.submit(GUEST, wanted()),
        ):
            with pytest.raises(NotAllowed):
                order()
        with pytest.raises(UnknownJob):
            there.desk.pause(ROOT, JobId("fallow:99"), "")
        assert there.desk.pause(ROOT, job, "")["outcome"] == "done"


def test_a_rigid_job_cannot_be_paused_and_says_so(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = JobId(submit(there, mobility=Elasticity.RIGID))
        launcher = StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        with pytest.raises(BadOrder, match="runs to its end"):
            there.desk.pause(ANNA, job, "")
        assert len(launcher.told) == 1


def test_keeping_is_the_owners_three_times(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        job = JobId(submit(there))
        StandIn(there.desk, ANNA, job)
        until("it runs", lambda: there.state(job) == "running")
        for _ in range(3):
            assert there.desk.keep(ANNA, job, 4, "")["outcome"] == "done"
        with pytest.raises(WrongState, match="kept 3 times"):
            there.desk.keep(ANNA, job, 4, "")
        with pytest.raises(BadOrder, match="4, 8, 24"):
            there.desk.keep(ANNA, job, 5, "")
        assert there.desk.keep(ROOT, job, 24, "")["outcome"] == "done"


def test_the_switch_stops_starting_and_starting_again_goes_on(tmp_path: Path) -> None:
    with stage(tmp_path) as there:
        there.desk.stop_acting(ROOT, "maintenance")
        job = submit(there)
        launcher = StandIn(there.desk, ANNA, job)
        until("it says why", lambda: any("stopped" in each["waits_for"] for each in launcher.places))
        assert there.state(job) == "pending"
        there.desk.start_acting(ROOT)
        until("it runs", lambda: there.state(job) == "running")


def test_unfit_submissions_are_refused_with_what_would_be_right(tmp_path: Path) -> None:
    with stage(tmp_path, begin=False) as there:
        for changes, said in (
            ({"command": ()}, "needs a command"),
            ({"project": ""}, "needs a project"),
            ({"min_gpus": 3, "max_gpus": 2}, "smaller number first"),
            ({"share": 0.0}, "above 0"),
            ({"memory_bytes": 0}, "leave it out"),
            ({"mobility": Elasticity.CHECKPOINTS}, "--checkpoint-signal"),
        ):
            with pytest.raises(BadOrder, match=said):
                there.desk.submit(ANNA, wanted(**changes))
        assert there.desk.jobs(ROOT, Which(), 10).rows == []
