"""What Slurm's words for why a job waits mean: for GPUs, or for something else. Pure.

The words are those of squeue(1), "JOB REASON CODES", and of Slurm 22.05's own list of them; a new one is
OTHER, and so is never taken for a wait for GPUs.
"""

import re

from collector.managers.model import WaitCause

_CAUSES = {
    **dict.fromkeys(("Resources", "Priority"), WaitCause.RESOURCES),
    **dict.fromkeys(
        (
            "AssociationJobLimit",
            "AssociationResourceLimit",
            "AssociationTimeLimit",
            "AccountingPolicy",
            "MaxMemPerLimit",
            "PartitionNodeLimit",
            "PartitionTimeLimit",
        ),
        WaitCause.LIMIT,
    ),
    **dict.fromkeys(("Reservation", "ReservationDeleted", "PowerReserved"), WaitCause.RESERVATION),
    **dict.fromkeys(
        ("NodeDown", "FrontEndDown", "PartitionDown", "PartitionInactive", "PowerNotAvail"), WaitCause.NODES
    ),
    **dict.fromkeys(("JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue"), WaitCause.HELD),
    **dict.fromkeys(("Dependency", "DependencyNeverSatisfied"), WaitCause.DEPENDENCY),
    "BeginTime": WaitCause.TIME,
    "JobArrayTaskLimit": WaitCause.OWN,
    **dict.fromkeys(
        (
            "BadConstraints",
            "InvalidAccount",
            "InvalidQOS",
            "QOSNotAllowed",
            "AccountNotAllowed",
            "PartitionConfig",
            "DeadLine",
        ),
        WaitCause.NEVER,
    ),
    "": WaitCause.UNSAID,
}
_LIMIT = re.compile(r"(QOS|Assoc)(Grp|Max|Min|Usage|Job|Resource|Time)\w*|Max\w+PerAccount")
AWAY = "ReqNodeNotAvail"
"""Before a comma and what the nodes are: UnavailableNodes:n3, or reserved for maintenance."""
REQUEUED = ("job requeued in held state", "job requeued in special exit state")
"""slurmctld's sentences in place of a word, from `scontrol requeuehold` until somebody releases the job."""
PROSE = "Nodes required for job are DOWN, DRAINED or reserved"
"""slurmctld's own sentence in place of a word, where jobs of other partitions may have the nodes."""


def cause_of(reason: str) -> WaitCause:
    """What a job with this reason waits for."""
    if reason.startswith(AWAY):
        return WaitCause.RESERVATION if "reserved" in reason.lower() else WaitCause.NODES
    if reason in REQUEUED:
        return WaitCause.HELD
    if reason.startswith(PROSE):
        return WaitCause.NODES
    if _LIMIT.fullmatch(reason):
        return WaitCause.LIMIT
    return _CAUSES.get(reason, WaitCause.OTHER)
