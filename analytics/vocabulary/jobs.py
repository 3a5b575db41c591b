"""How the ids of jobs that were submitted to Fallow are told from all others, and ids that came again. Pure.

Stored ids are made so, and so are those that people type; queries spell it as well.
"""

import re
from collections.abc import Collection

SUBMITTED = "fallow:"
"""What the ids of submitted jobs begin with."""
_AGAIN = re.compile(r"(?!pid:)(.+)@\d{9,10}")
"""An id that came again bears the second of its first hold (docs/decisions/0114): nine or ten digits from
1973 to 2286. A process's id ends with its start in milliseconds, and is no other's."""

_PREFIXES = ("slurm:", "pod:")
"""What the ids of jobs that labels name begin with: no Slurm number and no pod's name holds an @ itself."""


def is_submitted(job: str) -> bool:
    """Whether a job was submitted to Fallow, by its id."""
    return job.startswith(SUBMITTED)


def submitted_id(number: int | str) -> str:
    """The id of the submitted job of this number, as people type it for short."""
    return f"{SUBMITTED}{number}"


def told_id(job: str) -> str:
    """The id as its source tells it, without what tells it from an earlier person's job of the same id."""
    again = _AGAIN.fullmatch(job)
    return job if again is None else again[1]


def bare_id(job: str) -> str:
    """The id as people know it in its own cluster: without the cluster that a Prometheus of several names
    (``slurm:42@a``, ``pod:lab/train-0@a``), and without what ``told_id`` leaves out.
    """
    told = told_id(job)
    return told.rpartition("@")[0] if told.startswith(_PREFIXES) and "@" in told else told


def is_called(job: str, name: str | None, typed: Collection[str]) -> bool:
    """Whether people who type one of these may mean a job: its name, or either without its cluster."""
    bare = bare_id(job)
    cluster = told_id(job).removeprefix(bare)
    return not {bare, name, name.removesuffix(cluster) if name and cluster else name}.isdisjoint(typed)
