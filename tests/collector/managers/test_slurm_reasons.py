"""Slurm's words for why a job waits: which of them are waits for GPUs."""

from pathlib import Path

import pytest

from collector.managers.model import WaitCause
from collector.managers.slurm.reasons import cause_of

PUBLISHED = (Path(__file__).parent / "recorded" / "slurm_22.05_reasons.txt").read_text().split()
OTHER = {
    *("Licenses", "Prolog", "Cleaning", "SchedDefer", "TimeLimit", "InactiveLimit", "SystemFailure"),
    *("JobLaunchFailure", "NonZeroExitCode", "WaitingForScheduling", "FedJobLock", "OutOfMemory"),
}
"""Neither GPUs nor a limit, or an end's."""


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Resources", WaitCause.RESOURCES),
        ("Priority", WaitCause.RESOURCES),
        ("", WaitCause.UNSAID),
        ("QOSMaxGRESPerUser", WaitCause.LIMIT),
        ("AssocGrpGRES", WaitCause.LIMIT),
        ("AssocGrpGRESRunMinutes", WaitCause.LIMIT),
        ("MaxGRESPerAccount", WaitCause.LIMIT),
        ("QOSGrpNodeLimit", WaitCause.LIMIT),
        ("QOSUsageThreshold", WaitCause.LIMIT),
        ("QOSNotAllowed", WaitCause.NEVER),
        ("Reservation", WaitCause.RESERVATION),
        ("ReqNodeNotAvail, Reserved for maintenance", WaitCause.RESERVATION),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", WaitCause.NODES),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            WaitCause.NODES,
        ),
        ("JobHeldUser", WaitCause.HELD),
        ("Dependency", WaitCause.DEPENDENCY),
        ("BeginTime", WaitCause.TIME),
        ("JobArrayTaskLimit", WaitCause.OWN),
        ("BadConstraints", WaitCause.NEVER),
        ("a word of next year", WaitCause.OTHER),
    ],
)
def test_a_reason_has_a_cause(reason: str, cause: WaitCause) -> None:
    assert cause_of(reason) is cause


def test_of_all_published_words_two_wait_for_resources_and_limits_are_known() -> None:
    assert len(PUBLISHED) > 180
    causes = {reason: cause_of(reason) for reason in PUBLISHED}
    assert {reason for reason, cause in causes.items() if cause is WaitCause.RESOURCES} == {
        "Resources",
        "Priority",
    }
    assert not {reason for reason in causes if "Grp" in reason and causes[reason] is not WaitCause.LIMIT}
    left = {reason for reason, cause in causes.items() if cause is WaitCause.OTHER}
    assert {reason for reason in left if not reason.startswith(("Block", "BurstBuffer"))} == OTHER
