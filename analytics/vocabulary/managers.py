"""The workload managers whose past runs can be imported, and what they are read from. Pure.

The command line reads this file at each start, so it loads nothing else of ours.
"""

from collections.abc import Mapping

SLURM = "slurm"
MANAGERS: Mapping[str, str] = {
    SLURM: "Slurm's accounting",
    "pbs": "the accounting of PBS",
    "lsf": "the accounting of LSF",
    "kueue": "Kueue's list of workloads",
    "ray": "Ray's list of jobs",
    "table": "an imported table",
}
"""A file in the Standard Workload Format is not among them: it counts processors, which are no GPUs."""


def is_imported(job: str) -> bool:
    """Whether a job's id may be of an imported run: a manager and its number."""
    return job.partition(":")[0] in MANAGERS


def source_of(job: str) -> str:
    """What a run was read from, by its job's id."""
    return MANAGERS.get(job.partition(":")[0], "imported accounting")
