"""Slurm's queue as ``squeue --Format`` prints it: every job with its reason, partition, QOS and times. Pure.

Text and not ``--json``: 3,000 jobs are 0.28 MB and 0.05 s against 9.4 MB and 1.2 s, because squeue 22.05
prints the whole queue as JSON whatever it is asked for; and with the controller away text ends with 1, JSON
with 0 (22.05.8, 25 and 26 November 2026).

A job's name and comment are its owner's and may hold any character, line ends too: fields are told apart by a
mark that is drawn anew for each call, so nobody can write a field or a job of others into a name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.inventory.hostlist import expand
from collector.managers.model import Ask, JobKey, JobState, ManagedJob
from collector.managers.owner_word import word_of
from collector.managers.slurm.gres import entries
from collector.managers.slurm.reasons import cause_of
from collector.model import Holder, JobId, JobKind, NodeName
from collector.procfs.accounts import nameless
from collector.procfs.job_root import bounded

FIELDS = (
    "JobID", "JobArrayID", "ArrayJobID", "ArrayTaskID", "State", "Reason", "UserName", "UserID", "Account",
    "QOS", "Partition", "Reservation", "tres-per-job", "tres-per-node", "tres-per-task", "tres-alloc",
    "NumNodes", "NodeList", "PriorityLong", "StartTime", "SubmitTime", "EligibleTime", "EndTime", "TimeLimit",
    "RestartCnt", "BatchFlag", "Comment", "Name",
)  # fmt: skip
"""squeue(1), "--Format"; the comment and the name last, as the ones that a person writes."""

TEXT_CHARS = 256
"""Ours: names and reasons are shown on other people's screens."""

MOST_TASKS = 4_000_001
"""Slurm's largest MaxArraySize (slurm.conf(5)): a bound against a misread range."""

NUMBER_DIGITS = 18
"""Slurm's numbers have 64 bits at most; ``int`` refuses a text of over 4,300 digits."""

ABSENT = frozenset({"", "(null)", "N/A", "None", "Unknown", "NOT_SET", "NULL"})
"""How Slurm writes that there is nothing."""

_STATES = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
        JobState.PENDING,
    ),
    **dict.fromkeys(
        ("RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"),
        JobState.RUNNING,
    ),
    **dict.fromkeys(("SUSPENDED", "STOPPED"), JobState.PAUSED),
    "COMPLETING": JobState.ENDING,
}
"""squeue(1), "JOB STATE CODES"; a suspended job keeps its GPUs (gres.html, "Running jobs"). Others ended."""

_LIMIT = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<clock>\d{1,6}(?::\d{1,2}){0,2})")


class NotQueue(ValueError):
    """The text is not what squeue prints when it is asked for FIELDS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A job, and its name as it is, every character of it."""

    job: ManagedJob
    name: str


def format_of(mark: str, fields: Sequence[str] = FIELDS) -> str:
    """The value of ``--Format`` that ends each field with ``mark``, in which no comma may be."""
    return ",".join(f"{name}:{mark}" for name in fields)


def jobs_of(text: str, mark: str, cluster: str) -> tuple[Listed, ...]:
    """The jobs in what squeue printed; what each was given is not in it. Raises NotQueue."""
    rows = records(text, mark, FIELDS)
    return tuple(Listed(job=job_of(row, cluster), name=row["Name"]) for row in rows)


def records(text: str, mark: str, fields: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """Each record by the names of its fields. Raises NotQueue for text that doesn't end with one."""
    *parts, end = text.split(mark)
    if end.strip() or len(parts) % len(fields):
        raise NotQueue(f"{len(parts)} fields and {end.strip()[:80]!r} behind them")
    for at in range(0, len(parts), len(fields)):
        row = dict(zip(fields, parts[at : at + len(fields)], strict=True))
        yield row | {fields[0]: row[fields[0]].lstrip("\n")}


def job_of(row: Mapping[str, str], cluster: str) -> ManagedJob:
    """The job of a record; what it was given is not in it. Raises NotQueue."""
    number = _number(row["JobID"])
    if number is None:
        raise NotQueue(f"a job without a number: {row['JobID'][:80]!r}")
    state = _STATES.get(row["State"], JobState.ENDED)
    waits = state is JobState.PENDING
    submitted_ms = _ms(row["SubmitTime"])
    if submitted_ms is None:
        raise NotQueue(f"job {number} without a time of submission: {row['SubmitTime'][:80]!r}")
    reason = _told(row["Reason"]) if waits or state is JobState.ENDED else ""
    return ManagedJob(
        key=JobKey(
            cluster=cluster,
            id=str(number),
            submitted_ms=submitted_ms,
            restarts=_number(row["RestartCnt"]) or 0,
        ),
        holder=_holder(row, number),
        state=state,
        ask=_ask(row),
        shown_id=row["JobArrayID"],
        state_name=row["State"],
        nodes=tuple(map(NodeName, expand(row["NodeList"]))),
        reason=reason,
        cause=cause_of(reason) if waits else None,
        partition=_told(row["Partition"]),
        qos=_told(row["QOS"]),
        reservation=_told(row["Reservation"]),
        tasks=_tasks(row["ArrayTaskID"]) if waits else 1,
        priority=_number(row["PriorityLong"]),
        limit_s=length_s(row["TimeLimit"]),
        eligible_ms=_ms(row["EligibleTime"]),
        started_ms=None if waits else _ms(row["StartTime"]),
        expected_ms=_ms(row["StartTime"]) if waits else None,
        ended_ms=_ms(row["EndTime"]) if state is JobState.ENDED else None,
        word=word_of(row["Comment"]),
        uid=_number(row["UserID"]),
    )


def length_s(text: str) -> int | None:
    """``1-02:03:04``, ``2:03:04`` or ``3:04`` in seconds; ``None`` when there is no limit."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    seconds = 0
    for part in match["clock"].split(":"):
        seconds = seconds * 60 + int(part)
    return seconds + int(match["days"] or 0) * 86_400


def _holder(row: Mapping[str, str], number: int) -> Holder:
    name, task = bounded(row["Name"], TEXT_CHARS), row["ArrayTaskID"]
    if task.isdecimal():
        name = f"{name} [{row['ArrayJobID']}_{task}]"
    user = _told(row["UserName"])
    return Holder(
        job=JobId(f"slurm:{number}"),
        user=user or (nameless(int(row["UserID"])) if _number(row["UserID"]) is not None else None),
        project=_told(row["Account"]) or None,
        name=name or None,
        kind={"1": JobKind.BATCH, "0": JobKind.INTERACTIVE}.get(row["BatchFlag"]),
    )


def _ask(row: Mapping[str, str]) -> Ask:
    """What was asked for, by the first of Slurm's ways to say it that says anything of GPUs."""
    nodes = max(1, _number(row["NumNodes"]) or 1)
    for field, times in (("tres-per-job", 1), ("tres-per-node", nodes), ("tres-alloc", 1)):
        found = _counted(row[field])
        if found is not None:
            return Ask(
                nodes=nodes,
                gpus=found[0] * times,
                shards=found[1] * times,
                gpu_type=",".join(
                    dict.fromkeys(
                        each.type for each in entries(row[field]) if each.type and not each.is_shared
                    )
                ),
            )
    return Ask(nodes=nodes, gpus=None if list(entries(row["tres-per-task"])) else 0)


def _counted(text: str) -> tuple[int, int] | None:
    """Whole GPUs and shards; ``gres/gpu=2,gres/gpu:h200=2`` names the same two twice."""
    whole: dict[bool, list[int]] = {False: [], True: []}
    for each in entries(text):
        whole[each.is_shared].append(1 if each.count is None else each.count)
    if not whole[False] and not whole[True]:
        return None
    add = max if "=" in text else sum
    return (add(whole[False]) if whole[False] else 0, add(whole[True]) if whole[True] else 0)


def _tasks(text: str) -> int:
    """How many tasks ``2-3,7%2`` names; one where it names none. A step (``0-9:3``) is understood."""
    count = 0
    for part in text.partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if first.isdecimal() and len(first) <= NUMBER_DIGITS:
            end = int(last) if last.isdecimal() and len(last) <= NUMBER_DIGITS else int(first)
            count += len(range(int(first), end + 1, max(1, int(step) if step.isdecimal() else 1)))
    return min(max(count, 1), MOST_TASKS)


def _ms(text: str) -> int | None:
    """Seconds since the epoch, as SLURM_TIME_FORMAT=%s makes Slurm write times, in milliseconds."""
    seconds = _number(text)
    return None if not seconds else seconds * 1000


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= NUMBER_DIGITS else None


def _told(text: str) -> str:
    return "" if text in ABSENT else bounded(text, TEXT_CHARS)
