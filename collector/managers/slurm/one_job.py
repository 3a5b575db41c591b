"""One job of Slurm's as it is this moment, asked by its number: for who is about to act on it.

A number is used again after a crash of the controller, so all that tells one job from another, its time of
submission, owner and name, comes in the same answer as its state.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import ManagedJob
from collector.managers.slurm.queue_text import ABSENT, FIELDS, NotQueue, format_of, job_of, records

MORE = ("Requeue", "HetJobID")
GONE = "Invalid job id"
"""What squeue and scontrol say of a number that they know no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJob:
    """``target``: what scontrol is told: the number of an array's last task means the whole array to it.

    ``may_requeue``: its owner did not say --no-requeue. ``is_part``: of a heterogeneous job.
    """

    job: ManagedJob
    target: str
    may_requeue: bool
    is_part: bool


def one_job(ask: Callable[[Sequence[str]], str], number: str, cluster: str) -> OneJob | None:
    """The job of this number now; ``None`` where Slurm knows none. Blocks. Raises NoAnswer, NotQueue."""
    mark, fields = f"\x1f{secrets.token_hex(8)}\x1f", (*FIELDS, *MORE)
    wanted = f"--Format={format_of(mark, fields)}"
    try:
        text = ask(("squeue", "--noheader", "--all", "--states=all", f"--jobs={number}", wanted))
    except NoAnswer as failure:
        if GONE in str(failure):
            return None
        raise
    rows = [row for row in records(text, mark, fields) if row["JobID"] == number]
    if len(rows) > 1:
        raise NotQueue(f"{len(rows)} jobs of the number {number}")
    return next((_one(row, cluster) for row in rows), None)


def _one(row: Mapping[str, str], cluster: str) -> OneJob:
    task = row["ArrayTaskID"]
    return OneJob(
        job=job_of(row, cluster),
        target=f"{row['ArrayJobID']}_{task}" if task.isdecimal() else row["JobID"],
        may_requeue=row["Requeue"] == "1",
        is_part=row["HetJobID"] not in ABSENT,
    )
