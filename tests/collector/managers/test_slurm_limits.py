"""Which limit a waiting job met, how much it is and how much of it is used, by a real Slurm's own words.

``recorded``: 22.05.8 with slurmdbd. ann (account vision, 8 GPUs) ran 2 in QOS normal and 2 in preemptible,
bob (speech, 4 GPUs, 1,000 GPU-minutes; 3 a job, 3 jobs) ran 2 in normal. QOS normal: 2 a person, 6 an
account; preemptible: 3 in all, 2 a job.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import Ask, JobKey, JobState, Limit, ManagedJob
from collector.managers.slurm.limits import (
    Shown,
    associations_of,
    kind_of,
    limit_of,
    partitions_of,
    qos_of,
    times_of,
)
from collector.managers.slurm.limits_reader import LIMITS_MS, LimitsReader
from collector.managers.slurm.reasons import cause_of
from collector.model import Holder, JobId

RECORDED = Path(__file__).parent / "recorded"
QOS = (RECORDED / "slurm_22.05_qos.txt").read_text()
ASSOCIATIONS = (RECORDED / "slurm_22.05_associations.txt").read_text()
NOTHING = "Current Association Manager state\n\nNo QOS currently cached in Slurm.\n\n"
PARTITIONS = (
    "PartitionName=main AllowGroups=ALL AllowQos=ALL Default=YES QoS=N/A Nodes=n[1-3] State=UP\n"
    "PartitionName=small AllowGroups=ALL AllowQos=ALL Default=NO QoS=preemptible Nodes=n1 State=UP\n"
)
SHOWN = Shown(
    qos=qos_of(QOS), associations=associations_of(ASSOCIATIONS), partitions=partitions_of(PARTITIONS)
)
UIDS = {"ann": 1001, "bob": 1002}


def job(
    reason: str, *, user: str = "ann", qos: str = "normal", gpus: int | None = 1, **more: object
) -> ManagedJob:
    account = {"ann": "vision", "bob": "speech"}[user]
    ask = Ask(nodes=1, gpus=gpus)
    made = ManagedJob(
        key=JobKey(cluster="fake", id="9", submitted_ms=1),
        holder=Holder(job=JobId("slurm:9"), user=user, project=account),
        state=JobState.PENDING,
        ask=ask,
        reason=reason,
        cause=cause_of(reason),
        partition="main",
        qos=qos,
        uid=UIDS[user],
    )
    return replace(made, **more)


def met(waiting: ManagedJob, shown: Shown = SHOWN) -> Limit | None:
    return limit_of(waiting, shown, "fake")


GPU = "gres/gpu"


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (job("QOSMaxGRESPerUser"), Limit(name="normal", what=GPU, most=2, used=2)),
        (job("QOSGrpGRES", qos="preemptible", gpus=2), Limit(name="preemptible", what=GPU, most=3, used=2)),
        (job("QOSGrpGRES", qos="preemptible", gpus=3), Limit(name="preemptible", what=GPU, most=3, used=2)),
        (job("AssocGrpGRES", user="bob", qos="free", gpus=3), Limit(name="speech", what=GPU, most=4, used=2)),
        (
            job("AssocMaxGRESPerJob", user="bob", qos="free", gpus=4),
            Limit(name="speech", user="bob", what=GPU, most=3),
        ),
        (job("AssocGrpGRES", qos="free", gpus=6), Limit(name="vision", what=GPU, most=8, used=4)),
        (job("QOSMaxGRESPerJob", qos="preemptible", gpus=3), Limit(name="preemptible", what=GPU, most=2)),
        (job("MaxGRESPerAccount", gpus=5), Limit(name="normal", what=GPU, most=6, used=2)),
        (job("AssocMaxJobsLimit", user="bob", qos="free"), None),
        (job("QOSMaxGRESPerJob", partition="small", gpus=3), Limit(name="preemptible", what=GPU, most=2)),
    ],
    ids=[
        "a person's of a QOS",
        "a QOS's",
        "a QOS's, of a job that is too large for another one too",
        "an account's",
        "a job's of one person in an account",
        "an account's, of all nodes together",
        "a job's of a QOS",
        "an account's of a QOS",
        "of jobs, of which one more would be allowed: not this one",
        "of the partition's QOS",
    ],
)
def test_the_limit_is_the_one_that_would_be_passed(waiting: ManagedJob, expected: Limit | None) -> None:
    found = met(waiting)
    if expected is None:
        assert found is not None and found.most is None and "none would be passed" in found.unseen
    else:
        assert found == expected


def test_gpu_minutes_and_jobs_are_counted_as_slurm_counts_them() -> None:
    used_up = ASSOCIATIONS.replace("gres/gpu=1000(4)", "gres/gpu=1000(1003)")
    shown = replace(SHOWN, associations=associations_of(used_up))
    minutes = job("AssocGrpGRESMinutes", user="bob", qos="free")
    assert met(minutes, shown) == Limit(name="speech", what=GPU, most=1000, used=1003)
    full = replace(SHOWN, associations=associations_of(ASSOCIATIONS.replace("MaxJobs=3(1)", "MaxJobs=3(3)")))
    jobs = job("AssocMaxJobsLimit", user="bob", qos="free")
    assert met(jobs, full) == Limit(name="speech", user="bob", what="jobs", most=3, used=3)


MOST_WALL = "MaxWallPJ=90\n"
"""As 22.05.8 prints `sacctmgr modify qos set MaxWall=01:30:00`; and GrpWall=10:00:00 is GrpWall=600(0.00)."""
TIMES = "PartitionName=short MaxTime=1-00:00:00 QoS=N/A\nPartitionName=main MaxTime=UNLIMITED QoS=N/A\n"


def test_limits_of_time_are_minutes_that_a_job_or_all_may_have() -> None:
    walls = replace(SHOWN, qos=qos_of(QOS.replace("MaxWallPJ=\n", MOST_WALL)), times=times_of(TIMES))
    hours = [replace(job("QOSMaxWallDurationPerJobLimit"), limit_s=each) for each in (5460, 5400, None)]
    assert met(hours[0], walls) == Limit(name="normal", what="wall", most=90)
    assert [met(each, walls).most for each in hours[1:]] == [None, None], "90 min pass no limit of 90"
    used_up = replace(SHOWN, qos=qos_of(re.sub(r"GrpWall=N\(\S+\)", "GrpWall=600(600.25)", QOS)))
    assert met(job("QOSGrpWallLimit"), used_up) == Limit(name="normal", what="wall", most=600, used=600)
    assert times_of(TIMES) == {"short": 1440}
    long = replace(job("PartitionTimeLimit", partition="main,short"), limit_s=90_000)
    assert met(long, walls) == Limit(name="short", what="wall", most=1440)


@pytest.mark.parametrize("reason", ["Resources", "Licenses", "AssocGrpLicense", "NextYearsWord", ""])
def test_a_reason_without_a_number_to_look_for_has_no_limit(reason: str) -> None:
    assert kind_of(reason) is None and met(job(reason)) is None


@pytest.mark.parametrize(
    ("waiting", "shown", "said"),
    [
        (job("QOSGrpGRES"), Shown(qos=qos_of(NOTHING)), "shows no QOS normal to this account"),
        (job("AssocGrpGRES", gpus=6), Shown(), "the limits of account vision"),
        (
            job("AssocGrpGRES", gpus=6),
            Shown(associations=tuple(row for row in SHOWN.associations if "ann" in row["UserName"])),
            "the limits of account vision",
        ),
        (job("QOSGrpGRES", gpus=None), SHOWN, "none would be passed"),
    ],
    ids=["no QOS", "nothing at all", "the own association alone, as with PrivateData", "without a limit"],
)
def test_what_is_not_shown_is_no_missing_limit(waiting: ManagedJob, shown: Shown, said: str) -> None:
    found = met(waiting, shown)
    assert found is not None and found.most is None and said in found.unseen


def test_another_clusters_accounts_say_nothing() -> None:
    found = limit_of(job("AssocGrpGRES", gpus=6), SHOWN, "other")
    assert found is not None and found.most is None


def test_a_limit_of_each_person_is_the_owners_by_number() -> None:
    for uid in (None, 1003):
        found = met(job("QOSMaxGRESPerUser", uid=uid))
        assert found is not None and found.most is None


class Slurm:
    """Answers what was recorded, and notes what it was asked."""

    def __init__(self, answers: Callable[[Sequence[str]], str]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def __call__(self, command: Sequence[str]) -> str:
        self.asked.append(" ".join(command))
        return self._answers(command)


def recorded(command: Sequence[str]) -> str:
    if "partition" in command:
        return PARTITIONS
    return ASSOCIATIONS if "flags=assoc" in command else QOS


def test_slurm_is_asked_while_somebody_waits_for_a_limit_once_a_minute() -> None:
    slurm, reader = Slurm(recorded), LimitsReader()
    resources = (job("Resources"), job("QOSMaxGRESPerUser", state=JobState.RUNNING))
    assert reader.told(slurm, resources, "fake", 0) == resources and slurm.asked == []
    waiting = (
        job("AssocGrpGRES", user="bob", gpus=3),
        job("Resources", key=JobKey(cluster="fake", id="10", submitted_ms=1)),
    )
    for at_ms in (0, LIMITS_MS - 1):
        told, other = reader.told(slurm, waiting, "fake", at_ms)
        assert told.limit == Limit(name="speech", what=GPU, most=4, used=2) and other.limit is None
    assert slurm.asked == ["scontrol --oneliner show assoc_mgr flags=assoc"]
    reader.told(slurm, waiting, "fake", LIMITS_MS)
    assert len(slurm.asked) == 2
    reader.told(slurm, (job("QOSGrpGRES", qos="preemptible", gpus=2),), "fake", LIMITS_MS)
    assert slurm.asked[2:] == [
        "scontrol --oneliner show partition",
        "scontrol show assoc_mgr flags=qos qos=preemptible",
    ]


def test_an_answer_that_fails_or_is_none_is_an_unknown_number() -> None:
    def fails(command: Sequence[str]) -> str:
        raise NoAnswer("scontrol ended with 1: slurm_load_assoc_mgr_info error: Unspecified error")

    for answers, said in ((fails, "Unspecified error"), (lambda _: "", "printed ''")):
        (told,) = LimitsReader().told(Slurm(answers), (job("AssocGrpGRES", gpus=6),), "fake", 0)
        assert told.limit is not None and told.limit.most is None and said in told.limit.unseen
