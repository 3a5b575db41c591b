"""Words about jobs that wait at a workload manager: for what, beside whose idle GPUs. Pure.

Slurm's words for a limit are made of parts (QOSMaxGRESPerUser), and told by them; one that nobody has words
for stays as Slurm has it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from analytics import text
from analytics.vocabulary.states import GpuState
from service.energy import WASTED

if TYPE_CHECKING:
    from service.schemas.rows import (
        GpusNowRecord,
        GpusNowRow,
        ManagerNodesRecord,
        ManagerNodesRow,
        ManagerQueueRecord,
        ManagerQueueRow,
        ManagerRunsRow,
        UnheldRow,
        WaitedCausesRow,
        WaitedHoldersRow,
    )

    Queued = ManagerQueueRow | ManagerQueueRecord
    Gpu = GpusNowRow | GpusNowRecord


MOST_NAMED = 4
"""In one sentence; tables have all."""
AWAY = "ReqNodeNotAvail"
PARTITION = "PartitionTimeLimit"
PROSE = "Nodes required for job are DOWN, DRAINED or reserved"
"""As in ``collector.managers.slurm.reasons``."""

CAUSES: Mapping[str, str] = {
    "resources": "GPUs, or what else they asked for",
    "limit": "a limit of their account or QOS",
    "reservation": "a reservation",
    "nodes": "nodes that are away",
    "held": "somebody to release them",
    "dependency": "another job",
    "time": "a time of their own",
    "own": "their own limit of tasks at once",
    "never": "a change of what they ask for",
    "other": "something else",
    "unsaid": "nothing that was said yet",
}
"""What jobs wait for, by the causes that the store has (``collector.managers.model.WaitCause``)."""

_PLAIN = {
    "": "not said yet",
    "Resources": "not enough is free of what it asks for",
    "Priority": "jobs of a higher priority are before it",
    "JobHeldUser": "held by its owner",
    "JobHeldAdmin": "held by an administrator",
    "JobHoldMaxRequeue": "held: it was put back too often",
    "job requeued in held state": "held since it was put back into the queue, until somebody releases it",
    "job requeued in special exit state": "held since it saved itself, until somebody releases it",
    "Dependency": "another job has to end first",
    "DependencyNeverSatisfied": "it waits for an end of another job that won't come",
    "BeginTime": "not to begin before a time of its own",
    "JobArrayTaskLimit": "as many of its tasks run as its owner allows at once",
    "PartitionNodeLimit": "partition {partition} allows no job of so many nodes",
    PARTITION: "partition {partition} allows no job of so long a time limit",
    "PartitionDown": "partition {partition} is down",
    "PartitionInactive": "partition {partition} is closed",
    "NodeDown": "a node that it needs is down",
    "BadConstraints": "no node has what it asks for",
    "InvalidAccount": "its account is none any more",
    "InvalidQOS": "its QOS is none any more",
    "QOSNotAllowed": "QOS {qos} may not be used in partition {partition}",
    "AccountNotAllowed": "account {account} may not use partition {partition}",
    "QOSUsageThreshold": "account {account} used too much lately for QOS {qos}",
    "AssociationJobLimit": "account {account} has as many jobs as it may",
    "AssociationResourceLimit": "account {account} has as much as it may",
    "AssociationTimeLimit": "account {account} has used up its time",
    "MaxMemPerLimit": "it asks for more memory than one job may have",
    "QOSJobLimit": "QOS {qos} has as many jobs as it may",
    "QOSResourceLimit": "QOS {qos} has as much as it may",
    "QOSTimeLimit": "QOS {qos} has used up its time",
    "Licenses": "a licence is not free",
    "ReservationDeleted": "its reservation was deleted",
    "WaitingForScheduling": "Slurm has not looked at it yet",
    "NO_RESOURCES": "not enough is free of what its placement group asks for",
    "FAILED_TO_COMMIT_RESOURCES": "what its placement group was to have was taken meanwhile",
    "INFEASIBLE": "no node that is there could take it; it begins if one is added",
    "PENDING": "Ray has not looked at its placement group yet",
    "PENDING_CREATION": "its actors are not placed: not enough is free of what they ask for",
    "RESTARTING": "its actors are not placed again: not enough is free of what they ask for",
    "DEPENDENCIES_UNREADY": "its actors wait for what is given to them",
    "PENDING_NODE_ASSIGNMENT": "its tasks are not placed: not enough is free of what they ask for",
}
_WHAT = {
    "GRES": "GPUs",
    "Cpu": "CPUs",
    "CPU": "CPUs",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "Jobs": "running jobs",
    "SubmitJob": "submitted jobs",
    "SubmitJobs": "submitted jobs",
    "Wall": "time",
    "License": "licences",
    "BB": "burst buffer",
    "Energy": "energy",
    "Billing": "billed resources",
    "Unknown": "of something",
}
_LIMIT = re.compile(
    rf"(?P<scope>QOS|Assoc)?(?P<kind>Grp|Max|Min)(?P<what>{'|'.join(sorted(_WHAT, key=len, reverse=True))})"
    r"(?:Duration)?(?P<minutes>Minutes|RunMinutes)?(?P<per>Per(?:User|Account|Job|Node))?(?:Limit|NotSatisfied)?"
)
_PER = {
    "PerUser": "one person",
    "PerAccount": "one account",
    "PerJob": "one job",
    "PerNode": "one job on a node",
}


def why(
    reason: str,
    *,
    qos: str = "",
    account: str | None = None,
    partition: str = "",
    reservation: str = "",
    person: str = "",
) -> str:
    """Why a job waits, in plain words; where there are none, in Slurm's own.

    ``person``: whose in the account a limit of it is.
    """
    fields = {"qos": qos or "(none)", "account": account or "(none)", "partition": partition or "(none)"}
    fields["person"] = person
    if reason in _PLAIN:
        return _PLAIN[reason].format(**fields)
    if reason == "Reservation":
        return (
            f"reservation {reservation} is not there for it yet"
            if reservation
            else "a reservation is before it"
        )
    if reason.startswith(AWAY):
        rest = reason.removeprefix(AWAY).removeprefix(",").strip()
        if "reserved" in rest.lower():
            return f"nodes that it needs are reserved ({rest})"
        return f"nodes that it needs are away ({rest.removeprefix('UnavailableNodes:') or 'not said which'})"
    if reason.startswith(PROSE):
        return "nodes that it needs are down, drained or kept for jobs of other partitions"
    return _limit(reason, fields) or reason


def why_of(row: "Queued | ManagerRunsRow") -> str:
    """The same of a row of the query ``manager_queue`` or ``manager_runs``, with the number of a limit."""
    return _why(row, met(row.get("limit_met")))


def why_of_past(row: "WaitedCausesRow") -> str:
    """The same of a row of the query ``waited_causes``; of a cause that has no word, what it is."""
    if not row["reason"]:
        return CAUSES.get(row["cause"] or "", row["cause"] or "")
    limit = met(row["limit_met"])
    named = {"qos": row["qos"], "project": row["account"], "partition": None, "reservation": None}
    return _why({"reason": row["reason"], **named}, limit)


class Met(TypedDict):
    """The limit that a job waits for (the column ``limit_met``; ``collector.managers.model.Limit``)."""

    name: str
    user: str
    what: str
    most: int | None
    used: int | None
    unseen: str


def met(limit: str | None) -> Met | None:
    """What the column says; ``None``: of no limit, or an older service doesn't."""
    document: Met | None = json.loads(limit) if limit else None
    return document


def _why(row: Mapping[str, object], limit: "Met | None") -> str:
    reason, name = str(row["reason"] or ""), limit["name"] if limit else ""
    is_account = reason.startswith("Assoc")
    sentence = why(
        reason,
        qos=(not is_account and name) or str(row["qos"] or ""),
        account=(is_account and name) or str(row["project"] or ""),
        partition=(reason == PARTITION and name) or str(row["partition"] or ""),
        reservation=str(row["reservation"] or ""),
        person=limit["user"] if limit else "",
    )
    return f"{sentence}{_number(reason, limit)}" if limit else sentence


def _number(reason: str, limit: Met) -> str:
    """Behind the words for the reason: how much at most, and in use."""
    if limit["most"] is None:
        return f" (how much isn't known: {limit['unseen']})"
    if limit["what"] == "wall":
        used = "" if limit["used"] is None else f", {text.length(limit['used'] * 60)} used"
        return f": {text.length(limit['most'] * 60)} at most{used}"
    kind = limit["what"].partition(":")[2]
    of = f" of {kind}" if kind else " MB" if limit["what"] == "mem" else ""
    bound = "at least" if "Min" in reason and "Minutes" not in reason else "at most"
    used = (
        ""
        if limit["used"] is None
        else f", {text.count(limit['used'])} {'used' if 'Minutes' in reason else 'in use'}"
    )
    return f": {text.count(limit['most'])}{of} {bound}{used}"


def manager_of(job: str) -> str:
    """The name of the workload manager that a job's id is of."""
    if job.startswith("ray:"):
        return "Ray"
    return "Kubernetes" if job.startswith(("pod:", "workload:")) else "Slurm"


def shown(row: "Queued") -> str:
    """A job of ``manager_queue`` as people call it, with what it is of: ``slurm:4_2``, ``pod:ns/a``."""
    return f"{row['job'].partition(':')[0]}:{row['shown_id']}"


def counted(rows: "Sequence[Queued]") -> str:
    """How many jobs wait for how many GPUs, of rows of ``manager_queue``; how many until GPUs are free."""
    jobs, gpus = _jobs(rows), sum((row["gpus"] or 0) * row["tasks"] for row in rows)
    free = _jobs([row for row in rows if row["cause"] == "resources"])
    waits = "waits" if jobs == 1 else "wait"
    sentence = f"{text.many(jobs, 'job')} {waits} for {text.many(gpus, 'GPU')}"
    if all(row["cause"] is None for row in rows) or free == jobs:
        return sentence
    if not free:
        return f"{sentence}, none of them for want of free GPUs"
    return f"{sentence}; {text.count(free)} of them until GPUs are free, the others for something else"


def unused(gpus: "Sequence[Gpu]") -> str | None:
    """Who has GPUs now and uses none of them, of rows of ``gpus_now``; ``None`` where nobody does."""
    counts = Counter(
        (row["job"], row["user_name"])
        for row in gpus
        if row["state"] in WASTED and row["job"] and text.missing(row.get("rhythm"))
    )
    if not counts:
        return None
    named = ", ".join(
        f"{job}{f' of {user}' if user else ''} ({count})"
        for (job, user), count in counts.most_common(MOST_NAMED)
    )
    more = len(counts) - MOST_NAMED
    others = f" and {text.many(more, 'other job')}" if more > 0 else ""
    total = counts.total()
    are = "is" if total == 1 else "are"
    return f"Meanwhile {text.many(total, 'GPU')} {are} held and unused: {named}{others}."


def kept(
    rows: "Sequence[Queued]",
    gpus: "Sequence[Gpu]",
    nodes: "Sequence[ManagerNodesRow | ManagerNodesRecord]",
) -> tuple[str, ...]:
    """What keeps those of the manager's GPUs that nobody holds now: who gets them not, and why. Sentences.

    A free GPU is kept by a limit where nobody waits until GPUs are free.
    """
    own = {_short(row["node"]) for row in nodes}
    mine = [row for row in gpus if _short(row["node"]) in own]
    sentences = []
    reserved = Counter(row["state_reason"] or "a reservation" for row in mine if row["state"] == "reserved")
    for reason, count in reserved.most_common(MOST_NAMED):
        are = "is" if count == 1 else "are"
        sentences.append(f"{text.many(count, 'GPU')} {are} free and kept: {reason}.")
    free = sum(row["state"] == GpuState.FREE for row in mine)
    limited = [row for row in rows if row["cause"] == "limit"]
    if free and limited and not any(row["cause"] == "resources" for row in rows):
        limits, jobs = list(dict.fromkeys(why_of(row) for row in limited)), _jobs(limited)
        others = len(limits) - MOST_NAMED
        more = f", and {text.many(others, 'other limit')}" if others > 0 else ""
        are, waits = ("is" if free == 1 else "are"), ("waits" if jobs == 1 else "wait")
        sentences.append(
            f"{text.many(free, 'GPU')} {are} free, and {text.many(jobs, 'job')} {waits} all the same: "
            f"{'; '.join(limits[:MOST_NAMED])}{more}."
        )
    return tuple(sentences)


def _jobs(rows: "Sequence[Queued]") -> int:
    return sum(row["tasks"] for row in rows)


def _short(node: str) -> str:
    return node.partition(".")[0]


def _limit(reason: str, fields: Mapping[str, str]) -> str | None:
    match = _LIMIT.fullmatch(reason)
    what = None if match is None else _WHAT.get(match["what"])
    if match is None or what is None:
        return None
    whose = f"account {fields['account']}" if match["scope"] == "Assoc" else f"QOS {fields['qos']}"
    if match["kind"] == "Min":
        return f"it asks for fewer {what} than {whose} allows"
    if match["what"] == "Wall" and match["kind"] == "Max":
        return f"its time limit is longer than {whose} allows {fields['person']}".rstrip()
    if match["what"] == "Wall":
        return f"the time that {whose} allows its jobs together is used up"
    if match["minutes"]:
        return f"the {what.removesuffix('s')}-minutes that {whose} allows are used up"
    per = _PER.get(match["per"] or "")
    if fields["person"]:
        at = "at once" if per is None else f"in {per}"
        return f"{whose} allows {fields['person']} no more {what} {at}"
    if per is None:
        return f"{whose} may have no more {what} at once"
    return f"{whose} allows {per} no more {what}"


def headline(rows: Sequence[Mapping[str, object]]) -> str:
    """What the rows (query ``waited``) say together, in a sentence."""
    waited, idle, free = (
        sum(text.known(row[name]) or 0.0 for row in rows)
        for name in ("waited_gpu_hours", "beside_idle_gpu_hours", "beside_free_gpu_hours")
    )
    if not waited:
        return "No job waited for GPUs in this time."
    sentence = f"Jobs waited {text.gpu_hours(waited)} for GPUs."
    if idle:
        sentence += f" For {text.gpu_hours(idle)} of them others held GPUs of that kind and left them idle."
    if free:
        sentence += f" For {text.gpu_hours(free)} GPUs of that kind were held by nobody."
    return sentence if idle or free else f"{sentence} No GPU of that kind was idle meanwhile."


def held_idle(rows: "Sequence[WaitedHoldersRow]", most: int = 3) -> str | None:
    """Who held them, of rows of the query ``waited_holders``; ``None`` where nobody did."""
    if not rows:
        return None
    named = [
        f"{row['key'] or 'somebody unknown'} ({text.gpu_hours(row['beside_gpu_hours'])})"
        for row in rows[:most]
    ]
    more = len(rows) - most
    others = f" and {text.many(more, 'other')}" if more > 0 else ""
    return f"The idle ones were held by {', '.join(named)}{others}."


def kept_by(row: "UnheldRow") -> str:
    """What kept GPUs from whoever waited, of a row of the query ``unheld``."""
    detail = row["detail"] or ""
    match row["why"]:
        case "limit":
            return f"a limit: {why(detail, qos=row['qos'] or '', account=row['account'])}"
        case "resources":
            return "too few at one place for the jobs that waited, or their turn hadn't come"
        case "reserved":
            return detail or "a reservation"
        case "drained" | "down":
            return f"the node was {row['why']}{f': {detail}' if detail else ''}"
        case "nobody":
            return "nothing: no job waited for them"
        case _:
            return f"nobody knows whether they were free{f': {detail}' if detail else ''}"
