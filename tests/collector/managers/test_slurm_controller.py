"""What Slurm's controller says of itself, and on whose jobs this account may act."""

from pathlib import Path

import pytest

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.slurm.controller import Controller, Reach, controller_of, reach_of
from collector.managers.slurm.one_job import one_job
from collector.managers.slurm.queue_text import NotQueue
from tests.collector.managers.slurm_world import Job, World

RECORDED = Path(__file__).parent / "recorded" / "slurm_22.05_config.txt"


def test_a_real_configuration_is_read() -> None:
    assert controller_of(RECORDED.read_text()) == Controller(
        cluster="fake",
        began_ms=1_795_660_906_000,
        next_number=11,
        slurm_uid=0,
        kill_wait_s=3,
        requeue_rest_s=6,
        holds_saved=True,
    )


@pytest.mark.parametrize(
    ("setting", "holds"),
    [("75", True), ("70-80", True), ("1,75-76", True), ("7,5", False), ("(null)", False)],
)
def test_whether_a_job_that_saved_itself_is_held_stands_in_its_configuration(
    setting: str, holds: bool
) -> None:
    assert controller_of(f"BOOT_TIME = 1\nRequeueExitHold = {setting}\n").holds_saved is holds


@pytest.mark.parametrize(("auth", "rest_s"), [("socket=/x,cred_expire=5", 6), ("(null)", 121)])
def test_when_a_requeued_job_may_start_again_is_known(auth: str, rest_s: int) -> None:
    assert controller_of(f"BOOT_TIME = 1\nAuthInfo = {auth}\n").requeue_rest_s == rest_s


def test_without_a_boot_time_a_restart_could_not_be_seen() -> None:
    for config in ("ClusterName = lab\n", "ClusterName = lab\nBOOT_TIME = 2026-11-26T12:00:00\n"):
        with pytest.raises(NoAnswer, match="BOOT_TIME"):
            controller_of(config)


@pytest.mark.parametrize(
    ("uid", "level", "reach"),
    [
        (0, "", Reach.ALL),
        (64030, "", Reach.ALL),
        (1000, "None", Reach.OWN),
        (1000, "Operator", Reach.ALL),
        (1000, "Administrator", Reach.ALL),
        (1000, None, Reach.OWN),
    ],
)
def test_an_account_acts_on_all_jobs_as_slurm_user_or_operator_and_else_on_its_own(
    uid: int, level: str | None, reach: Reach
) -> None:
    def ask(command: object) -> str:
        if level is None:
            raise NoAnswer("no accounting")
        return f"{level}\n"

    assert reach_of(Controller(cluster="lab", began_ms=1, slurm_uid=64030), ask, uid) is reach


def test_one_job_is_asked_by_its_number_and_a_task_is_told_from_its_array() -> None:
    world = World(
        jobs=(Job(id=812, comment="fallow:pause"), Job(id=9, array=(4, 1)), Job(id=4, array=(4, 2)))
    )
    ask = world.asking()
    found = one_job(ask, "812", "lab")
    assert found is not None and found.job.word is not None and found.job.word.pause
    assert (found.target, found.may_requeue, found.is_part) == ("812", True, False)
    task = one_job(ask, "4", "lab")
    assert task is not None and task.target == "4_2", "4 alone means the whole array to scontrol"
    assert one_job(ask, "813", "lab") is None
    world.failing["squeue"] = "squeue ended with 1: Unable to contact slurm controller"
    with pytest.raises(NoAnswer):
        one_job(ask, "812", "lab")
    world.failing.clear()
    world.jobs = (*world.jobs, Job(id=812, user="bob"))
    with pytest.raises(NotQueue, match="2 jobs"):
        one_job(ask, "812", "lab")
