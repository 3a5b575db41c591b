"""A Slurm number that is used again names, in a process, the job that has it now. Pure.

A process knows its job by the bare number. Where the inventory tells two jobs of that number apart
(``slurm:812@1795660771``, see ``collector.managers.slurm.reuse``), a process that began after the second was
submitted is of the second; one that began before is left over from the first.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from collector.model import JobId, Process

_REUSED = re.compile(r"slurm:(?P<number>\d+)@(?P<submitted_s>\d{1,12})")

CLOCK_MS = 2_000
"""Between a node's clock and the controller's; a job's first process begins 60 ms after it or later."""


def with_job_of_now(processes: Sequence[Process], jobs: Iterable[JobId]) -> tuple[Process, ...]:
    """The processes, each with the job that its number means now; as they are where no number came again."""
    again = {match["number"]: int(match["submitted_s"]) for job in jobs if (match := _REUSED.fullmatch(job))}
    return tuple(_renamed(process, again) for process in processes) if again else tuple(processes)


def _renamed(process: Process, again: Mapping[str, int]) -> Process:
    named = {
        number: f"{number}@{submitted_s}"
        for number, submitted_s in again.items()
        if process.key.started_ms >= submitted_s * 1000 - CLOCK_MS
    }
    if not named:
        return process
    job = process.slurm_job
    environment = tuple(
        (name, named.get(value, value) if name == "SLURM_JOB_ID" else value)
        for name, value in process.environment
    )
    return replace(process, slurm_job=None if job is None else named.get(job, job), environment=environment)
